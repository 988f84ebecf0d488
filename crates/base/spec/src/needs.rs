//! Options without effect: `x-needs` and `x-excludes` of a field.
//!
//! The value is a list of conditions, separated by commas. A condition is the key of another option
//! (`replay`: it is given), or a key and a value (`workload=surge`). A `*` in the value is any text
//! (`url=https:*`). An option needs one of the conditions of `x-needs`, and none of those of
//! `x-excludes`. After `: ` an explanation may follow.

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde_json::{Map, Value};

use crate::SpecError;

/// Refuses an option that is given although it has no effect.
///
/// # Errors
/// Names the first such option, and the options that it needs or that exclude it.
pub fn check(schema: &Value, matches: &ArgMatches) -> Result<(), SpecError> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (key, property) in properties {
        if !is_given(matches, key) {
            continue;
        }
        let holds = |condition: &&Condition<'_>| condition.holds(matches);
        if let Some(text) = property["x-needs"].as_str() {
            let (conditions, why) = conditions(text);
            if !conditions.iter().any(|condition| holds(&condition)) {
                let names: Vec<String> = conditions
                    .iter()
                    .map(|condition| condition.name(schema))
                    .collect();
                return Err(refusal(key, "without", &names.join(" or "), why));
            }
        }
        if let Some(text) = property["x-excludes"].as_str() {
            let (conditions, why) = conditions(text);
            if let Some(condition) = conditions.iter().find(holds) {
                return Err(refusal(key, "with", &condition.name(schema), why));
            }
        }
    }
    Ok(())
}

fn refusal(key: &str, relation: &str, names: &str, why: &str) -> SpecError {
    SpecError::new(format!("--{key} has no effect {relation} {names}{why}")).with_hint(format!(
        "leave --{key} out, or {} the option that it {}",
        if relation == "with" {
            "leave out"
        } else {
            "add"
        },
        if relation == "with" {
            "contradicts"
        } else {
            "belongs to"
        },
    ))
}

/// The words of a condition in the help: `--workload surge`.
pub fn words(text: &str, schema: &Value) -> String {
    let (conditions, _) = conditions(text);
    let names: Vec<String> = conditions
        .iter()
        .map(|condition| condition.name(schema))
        .collect();
    names.join(" or ")
}

/// The conditions of a list, and its explanation with the colon.
fn conditions(text: &str) -> (Vec<Condition<'_>>, &str) {
    let end = text.find(": ").unwrap_or(text.len());
    let (list, why) = text.split_at(end);
    let condition = |part| {
        let part = str::trim(part);
        match part.split_once('=') {
            Some((key, value)) => Condition {
                key,
                value: Some(value),
            },
            None => Condition {
                key: part,
                value: None,
            },
        }
    };
    (list.split(',').map(condition).collect(), why)
}

/// An option that must be given, or must have a value.
struct Condition<'a> {
    key: &'a str,
    value: Option<&'a str>,
}

impl Condition<'_> {
    fn holds(&self, matches: &ArgMatches) -> bool {
        let Some(pattern) = self.value else {
            return is_given(matches, self.key);
        };
        let mut values = matches.get_raw(&id(self.key)).into_iter().flatten();
        values.any(|value| fits(pattern, &value.to_string_lossy()))
    }

    /// `--workload surge`; `the url https:...` for a positional argument.
    fn name(&self, schema: &Value) -> String {
        let is_positional = schema["properties"][self.key]["x-positional"].is_number();
        let option = match is_positional {
            true => format!("the {}", self.key),
            false => format!("--{}", self.key),
        };
        match self.value {
            None => option,
            Some(value) => format!("{option} {}", value.replace('*', "...")),
        }
    }
}

/// Whether a text fits a pattern in which `*` is any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Whether the command line or a document gives an option.
fn is_given(matches: &ArgMatches, key: &str) -> bool {
    matches.value_source(&id(key)) == Some(ValueSource::CommandLine)
}

/// clap's name of an option.
fn id(key: &str) -> String {
    key.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Sample;
    use crate::{command, schema};

    fn error(line: &str) -> Option<String> {
        let words = std::iter::once("sample").chain(line.split(' '));
        let matches = command::<Sample>("sample").get_matches_from(words);
        let error = check(&schema::of::<Sample>(), &matches).err()?;
        assert!(error.hint.is_some());
        Some(error.message)
    }

    #[test]
    fn an_option_without_effect_is_refused_with_the_option_that_it_needs() {
        for (line, expected) in [
            ("http://h/ --rate 5 --arrivals poisson", None),
            (
                "http://h/ --arrivals poisson",
                Some("--arrivals has no effect without --rate or --replay"),
            ),
            ("https://h/ --insecure", None),
            (
                "http://h/ --insecure",
                Some("--insecure has no effect without the url https:..."),
            ),
            ("http://h/ --arrivals even --rate 5", None),
            (
                "http://h/ --rate 5 --replay log",
                Some("--rate has no effect with --replay: a log has its own times"),
            ),
        ] {
            assert_eq!(error(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_star_is_any_text() {
        assert!(fits("https:*", "https://h/") && !fits("https:*", "http://h/"));
        assert!(fits("*{}*", "a{}b") && !fits("*{}*", "ab"));
        assert!(fits("max", "max") && !fits("max", "maximum") && !fits("a*b*c", "ab"));
    }
}
