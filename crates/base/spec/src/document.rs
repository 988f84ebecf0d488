//! Documents: every option is a key of the same name, in TOML (`--config`) and in JSON.
//!
//! `requests-per-connection = 10` means `--requests-per-connection 10`. The keys become arguments, so that
//! documents and the command line have the same parser, defaults and messages. The command line overrides
//! a document. A positional argument has a key too, such as `url` of `load http`.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::SpecError;
use crate::schema;

/// Below this likeness, a name is no suggestion for another.
const LIKENESS: f64 = 0.7;

/// The arguments of a document, to insert after the verb and to append.
#[derive(Debug, Default, PartialEq)]
pub struct Arguments {
    pub options: Vec<String>,
    /// Positional arguments, which follow those of the command line.
    pub positional: Vec<String>,
}

/// The arguments of a document's keys. A key that `given` has from the command line is left out.
///
/// # Errors
/// A key is no option of the verb, or its value is a table.
pub fn arguments(
    verb: &Command,
    document: &Map<String, Value>,
    given: Option<&ArgMatches>,
) -> Result<Arguments, SpecError> {
    let mut verb = verb.clone();
    // `build` numbers the positional arguments.
    verb.build();
    let (mut all, mut positional) = (Arguments::default(), BTreeMap::new());
    for (key, value) in document {
        let name = key.replace('_', "-");
        let is_named = |argument: &&clap::Arg| schema::key(argument).as_deref() == Some(&name);
        let Some(argument) = verb.get_arguments().find(is_named) else {
            return Err(unknown(&verb, key));
        };
        let id = argument.get_id().as_str();
        if given.and_then(|given| given.value_source(id)) == Some(ValueSource::CommandLine) {
            continue;
        }
        let option = argument.get_long().map(|long| format!("--{long}"));
        let words = words(option.as_deref(), value).ok_or_else(|| {
            SpecError::new(format!(
                "{key}: expected a string, number, boolean or list of them"
            ))
        })?;
        match argument.get_index() {
            Some(index) => drop(positional.insert(index, (argument.is_last_set(), words))),
            None => all.options.extend(words),
        }
    }
    for (is_last, words) in positional.into_values() {
        all.positional.extend(is_last.then(|| "--".to_owned()));
        all.positional.extend(words);
    }
    Ok(all)
}

/// A value as arguments. A list repeats the option, and `true` becomes the option without a value. For a
/// positional argument, `option` is `None`, and the arguments are the values alone.
fn words(option: Option<&str>, value: &Value) -> Option<Vec<String>> {
    let word = |text: String| match option {
        Some(option) => vec![format!("{option}={text}")],
        None => vec![text],
    };
    Some(match value {
        Value::Bool(true) => vec![option?.to_owned()],
        Value::Bool(false) | Value::Null => Vec::new(),
        Value::String(text) => word(text.clone()),
        Value::Number(number) => word(number.to_string()),
        Value::Array(values) => {
            let each = values.iter().map(|value| words(option, value));
            each.collect::<Option<Vec<_>>>()?.concat()
        }
        Value::Object(_) => return None,
    })
}

/// The error for a key that is no option, with the most similar one.
fn unknown(verb: &Command, key: &str) -> SpecError {
    let keys = verb.get_arguments().filter_map(schema::key);
    let error = SpecError::new(format!("{key}: no such option"));
    match nearest(&key.replace('_', "-"), keys) {
        Some(near) => error.with_hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The name that is most similar, if one is similar.
pub fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    names
        .map(|other| (strsim::jaro_winkler(name, &other), other))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

/// The text of a `--config` file with these options.
///
/// # Errors
/// A value has no form in TOML.
pub fn to_toml<T: Serialize>(options: &T) -> Result<String, SpecError> {
    let error = |error: &dyn std::error::Error| SpecError::new(error.to_string());
    let table = toml::Table::try_from(options).map_err(|wrong| error(&wrong))?;
    let named: toml::Table = table
        .into_iter()
        .map(|(key, value)| (key.replace('_', "-"), value))
        .collect();
    toml::to_string(&named).map_err(|wrong| error(&wrong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use crate::tests::Sample;
    use serde_json::json;

    fn of(document: Value, given: &[&str]) -> Result<Arguments, SpecError> {
        let command = command::<Sample>("sample");
        let matches = command.clone().get_matches_from(given);
        arguments(&command, document.as_object().unwrap(), Some(&matches))
    }

    #[test]
    fn keys_become_options_and_positional_arguments() {
        let document = json!({"url": "http://h/", "connections": 4, "insecure": true, "rate": 2.5});
        let arguments = of(document, &["sample", "x"]).unwrap();
        assert_eq!(
            arguments.options,
            ["--connections=4", "--insecure", "--rate=2.5"]
        );
        assert!(arguments.positional.is_empty(), "the command line has one");
    }

    #[test]
    fn the_command_line_overrides_a_document() {
        let given = ["sample", "http://h/", "--connections", "5"];
        assert_eq!(
            of(json!({"connections": 4}), &given).unwrap(),
            Arguments::default()
        );
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_a_similar_one() {
        let error = of(json!({"conections": 4}), &["sample", "x"]).unwrap_err();
        assert_eq!(error.message, "conections: no such option");
        assert_eq!(error.hint.unwrap(), "did you mean `connections`?");
    }

    #[test]
    fn keys_are_written_as_the_options_are() {
        let written = to_toml(&BTreeMap::from([("idle_timeout", "1s")])).unwrap();
        assert_eq!(written, "idle-timeout = \"1s\"\n");
    }
}
