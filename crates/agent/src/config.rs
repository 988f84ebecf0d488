//! Options from a file: every option of a verb is a key of the same name.
//!
//! `requests-per-connection = 10` in the file means `--requests-per-connection 10`. The keys become
//! arguments before parsing, so that files and the command line have the same parser, defaults and
//! messages. The command line overrides the file. A positional argument has a key too, such as
//! `url` of `load http`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde::Serialize;
use toml::Value;

use crate::program::OWN;
use crate::renamed;
use crate::status::Failure;

/// Inserts the options of the `--config` file after the verb.
pub fn expand(command: &Command, mut arguments: Vec<String>) -> Result<Vec<String>, Failure> {
    let Some(file) = file_of(&arguments) else {
        return Ok(arguments);
    };
    // This parse only finds the verb and its options. A later parse reports mistakes.
    let lenient = command.clone().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(&arguments) else {
        return Ok(arguments);
    };
    let mut command = command.clone();
    // `build` numbers the positional arguments.
    command.build();
    let (verb, given, path) = innermost(&command, &matches);
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::usage(format!("--config {file}: cannot be read: {error}")))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| Failure::usage(format!("--config {file}: not TOML: {error}")))?;
    let (mut added, mut positional) = (Vec::new(), BTreeMap::new());
    for (key, value) in &table {
        let name = key.replace('_', "-");
        let (name, unit) =
            renamed::current(&path, &name).map_or((name, ""), |(new, unit)| (new.to_owned(), unit));
        let Some(argument) = verb.get_arguments().find(|one| is_named(one, &name)) else {
            return Err(
                Failure::usage(format!("--config {file}: {key}: no such option"))
                    .with_hint(format!("`{OWN} {path} --help` lists the options")),
            );
        };
        if given.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine) {
            continue;
        }
        let option = argument.get_long().map(|long| format!("--{long}"));
        let words = arguments_of(option.as_deref(), value, unit).ok_or_else(|| {
            Failure::usage(format!(
                "--config {file}: {key}: expected a string, number, boolean or list of them"
            ))
        })?;
        match argument.get_index() {
            Some(index) => drop(positional.insert(index, (argument.is_last_set(), words))),
            None => added.extend(words),
        }
    }
    let depth = 1 + path.split_whitespace().count();
    arguments.splice(depth..depth, added);
    // Positional arguments of the command line come first, then those of the file.
    for (is_last, words) in positional.into_values() {
        arguments.extend(is_last.then(|| "--".to_owned()));
        arguments.extend(words);
    }
    Ok(arguments)
}

/// The text of a configuration file with these options.
pub fn to_toml<T: Serialize>(options: &T) -> Result<String, Failure> {
    let table = toml::Table::try_from(options).map_err(Failure::failed)?;
    let named: toml::Table = table
        .into_iter()
        .map(|(key, value)| (key.replace('_', "-"), value))
        .collect();
    toml::to_string(&named).map_err(Failure::failed)
}

/// Whether a key of a file names this argument. The key of an option is its long name, and the key
/// of a positional argument is its name.
fn is_named(argument: &Arg, name: &str) -> bool {
    let own = match argument.get_long() {
        Some(long) => long.to_owned(),
        None => argument.get_id().as_str().replace('_', "-"),
    };
    own == name && !matches!(name, "config" | "show-config" | "help" | "version")
}

/// The file that `--config` names. Options after `--` belong to another program.
fn file_of(arguments: &[String]) -> Option<String> {
    let mut ours = arguments.iter().take_while(|argument| *argument != "--");
    let named =
        ours.find(|argument| *argument == "--config" || argument.starts_with("--config="))?;
    match named.split_once('=') {
        Some((_, file)) => Some(file.to_owned()),
        None => ours.next().cloned(),
    }
}

/// The innermost verb, its arguments on the command line, and the words that name it.
fn innermost<'a>(
    command: &'a Command,
    matches: &'a ArgMatches,
) -> (&'a Command, &'a ArgMatches, String) {
    let (mut verb, mut given, mut path) = (command, matches, Vec::new());
    while let Some((name, inner)) = given.subcommand()
        && let Some(found) = verb.find_subcommand(name)
    {
        (verb, given) = (found, inner);
        path.push(name);
    }
    (verb, given, path.join(" "))
}

/// A key's value as arguments. A list repeats the option, and `true` becomes the option without a
/// value. For a positional argument, `option` is `None`, and the arguments are the values alone.
fn arguments_of(option: Option<&str>, value: &Value, unit: &str) -> Option<Vec<String>> {
    let word = |value: &dyn Display| {
        let value = renamed::with_unit(&value.to_string(), unit);
        match option {
            Some(option) => vec![format!("{option}={value}")],
            None => vec![value],
        }
    };
    Some(match value {
        Value::Boolean(true) => vec![option?.to_owned()],
        Value::Boolean(false) => Vec::new(),
        Value::String(text) => word(text),
        Value::Integer(number) => word(number),
        Value::Float(number) => word(number),
        Value::Array(values) => {
            let mut all = Vec::new();
            for value in values {
                all.extend(arguments_of(option, value, unit)?);
            }
            all
        }
        Value::Datetime(_) | Value::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};
    use std::io::Write;

    fn command() -> Command {
        Command::new("agent").subcommand(
            Command::new("serve").subcommand(
                Command::new("web")
                    .arg(Arg::new("root").long("root"))
                    .arg(Arg::new("first").required(true))
                    .arg(Arg::new("second_one").required(true))
                    .arg(
                        Arg::new("verbose")
                            .long("verbose")
                            .action(ArgAction::SetTrue),
                    )
                    .arg(Arg::new("config").long("config")),
            ),
        )
    }

    fn expanded(content: &str, more: &[&str]) -> Result<Vec<String>, Failure> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let arguments = ["agent", "serve", "web", "--config", path];
        let all = arguments.iter().chain(more).map(|&text| text.to_owned());
        expand(&command(), all.collect())
    }

    #[test]
    fn keys_become_options_of_the_verb() {
        let arguments = expanded("root = 'a b'\nverbose = true\n", &[]).unwrap();
        assert_eq!(arguments[3..5], ["--root=a b", "--verbose"]);
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let arguments = expanded("root = 'x'\n", &["--root", "y"]).unwrap();
        assert!(!arguments.contains(&"--root=x".to_owned()));
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_help() {
        let failure = expanded("rot = 'x'\n", &[]).unwrap_err();
        assert!(failure.message.contains("rot: no such option"));
        assert!(failure.hint.unwrap().contains("serve web --help"));
    }

    #[test]
    fn a_positional_argument_has_a_key() {
        let content = "first = 'a'\nsecond-one = 'b'\n";
        let last_two = |more: &[&str]| {
            let arguments = expanded(content, more).unwrap();
            arguments[arguments.len() - 2..].to_vec()
        };
        assert_eq!(last_two(&[]), ["a", "b"]);
        assert_eq!(last_two(&["c"]), ["c", "b"]);
        assert_eq!(last_two(&["c", "d"]), ["c", "d"]);
    }

    #[test]
    fn keys_are_written_as_the_options_are() {
        let written = to_toml(&BTreeMap::from([("idle_timeout_s", 1.5)])).unwrap();
        assert_eq!(written, "idle-timeout-s = 1.5\n");
    }
}
