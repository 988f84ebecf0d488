//! By which name the user called this executable.
//!
//! `perpacket load ...` becomes it (one process, which gets signals and the terminal directly), and
//! machines without Python run it by its own name. Its texts use its own name; here they are turned
//! into what the user would type.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use clap::Command;

/// The name of this executable, as its texts have it.
pub const OWN: &str = "perpacket-agent";
/// The Python front, which becomes this executable under the front's own name.
const FRONT: &str = "perpacket";
/// Verbs that have another name in the front: here, there.
const RENAMED: [(&str, &str); 1] = [("perpacket-agent probe", "perpacket doctor")];

/// The name that the user typed.
pub fn name() -> &'static str {
    let program = env::args_os().next().unwrap_or_default();
    match Path::new(&program).file_name() {
        Some(name) if name == OsStr::new(FRONT) => FRONT,
        _ => OWN,
    }
}

/// A text that names this executable, with the name that the user typed.
pub fn as_typed(text: &str) -> String {
    named(text, name())
}

fn named(text: &str, name: &str) -> String {
    if name == OWN {
        return text.to_owned();
    }
    let renamed = RENAMED.iter().fold(text.to_owned(), |text, (here, there)| {
        text.replace(here, there)
    });
    renamed.replace(OWN, name)
}

/// A command with its examples as the user would type them, and with options that take `-1` as the
/// value it is meant to be: the option's own message is then the one that is shown.
pub fn prepared(command: Command) -> Command {
    let examples = command
        .get_after_help()
        .map(|text| as_typed(&text.to_string()));
    let command = match examples {
        Some(examples) => command.after_help(examples),
        None => command,
    };
    command
        .mut_args(|argument| {
            let takes_value = argument.get_action().takes_values();
            argument.allow_negative_numbers(takes_value)
        })
        .mut_subcommands(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_what_was_typed() {
        let text = "`perpacket-agent probe` or perpacket-agent load http";
        assert_eq!(named(text, OWN), text);
        assert_eq!(
            named(text, FRONT),
            "`perpacket doctor` or perpacket load http"
        );
    }
}
