//! Options from a file: every option of a verb is a key of the same name.
//!
//! `requests-per-connection = 10` in the file means `--requests-per-connection 10`. The file is
//! turned into arguments before they are parsed, so there is one parser, one set of defaults and
//! one set of messages; what the command line names wins over the file.

use std::fs;

use clap::Command;
use serde::Serialize;
use toml::Value;

use crate::status::Failure;

/// The arguments with those of the file that `--config` names put in after the verb.
pub fn expand(command: &Command, mut arguments: Vec<String>) -> Result<Vec<String>, Failure> {
    let Some(file) = file_of(&arguments) else {
        return Ok(arguments);
    };
    let (verb, depth) = verb_of(command, &arguments);
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::usage(format!("--config {file}: cannot be read: {error}")))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| Failure::usage(format!("--config {file}: not TOML: {error}")))?;
    let mut added = Vec::new();
    for (key, value) in &table {
        let name = key.replace('_', "-");
        let known = verb.get_arguments().any(|argument| {
            argument.get_long() == Some(&name) && !matches!(&*name, "config" | "show-config")
        });
        if !known {
            return Err(
                Failure::usage(format!("--config {file}: {key}: no such option"))
                    .with_hint(format!("`{} --help` lists the options", verb.get_name())),
            );
        }
        let option = format!("--{name}");
        let given = arguments
            .iter()
            .any(|argument| *argument == option || argument.starts_with(&format!("{option}=")));
        if !given {
            added.extend(arguments_of(&option, value).ok_or_else(|| {
                Failure::usage(format!(
                    "--config {file}: {key}: expected a string, number, boolean or list of them"
                ))
            })?);
        }
    }
    arguments.splice(depth..depth, added);
    Ok(arguments)
}

/// Resolved options as the text of a configuration file.
pub fn to_toml<T: Serialize>(options: &T) -> Result<String, Failure> {
    toml::to_string(options).map_err(Failure::failed)
}

/// The file that `--config` names, if it is there.
fn file_of(arguments: &[String]) -> Option<String> {
    let place = arguments
        .iter()
        .position(|argument| argument == "--config" || argument.starts_with("--config="))?;
    match arguments[place].split_once('=') {
        Some((_, file)) => Some(file.to_owned()),
        None => arguments.get(place + 1).cloned(),
    }
}

/// The innermost verb the arguments name, and how many arguments name it (the program included).
fn verb_of<'a>(command: &'a Command, arguments: &[String]) -> (&'a Command, usize) {
    let mut verb = command;
    let mut depth = 1.min(arguments.len());
    while let Some(next) = arguments
        .get(depth)
        .and_then(|argument| verb.find_subcommand(argument))
    {
        verb = next;
        depth += 1;
    }
    (verb, depth)
}

/// A key's value as arguments: a list repeats the option, `true` is the bare option.
fn arguments_of(option: &str, value: &Value) -> Option<Vec<String>> {
    Some(match value {
        Value::Boolean(true) => vec![option.to_owned()],
        Value::Boolean(false) => Vec::new(),
        Value::String(text) => vec![format!("{option}={text}")],
        Value::Integer(number) => vec![format!("{option}={number}")],
        Value::Float(number) => vec![format!("{option}={number}")],
        Value::Array(values) => {
            let mut all = Vec::new();
            for value in values {
                all.extend(arguments_of(option, value)?);
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
    fn the_command_line_wins() {
        let arguments = expanded("root = 'x'\n", &["--root", "y"]).unwrap();
        assert!(!arguments.contains(&"--root=x".to_owned()));
    }

    #[test]
    fn an_unknown_key_is_named() {
        let failure = expanded("rot = 'x'\n", &[]).unwrap_err();
        assert!(failure.message.contains("rot: no such option"));
    }
}
