//! The name by which the user called this executable.
//!
//! `perpacket load ...` replaces its process with this executable. On machines without Python,
//! users run the executable under its own name. The texts contain that name. This module replaces
//! it with the name that the user typed.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

/// The name of this executable in its texts.
pub const OWN: &str = "perpacket-agent";
/// The Python front, which runs this executable under the front's name.
const FRONT: &str = "perpacket";
/// Verbs that have another name in the front: the name here, and the name in the front.
const RENAMED: [(&str, &str); 1] = [("perpacket-agent probe", "perpacket doctor")];

/// The name that the user typed.
pub fn name() -> &'static str {
    let program = env::args_os().next().unwrap_or_default();
    match Path::new(&program).file_name() {
        Some(name) if name == OsStr::new(FRONT) => FRONT,
        _ => OWN,
    }
}

/// A text with the name that the user typed in place of this executable's own.
pub fn as_typed(text: &str) -> String {
    named(text, name())
}

fn named(text: &str, name: &str) -> String {
    if name == OWN {
        return text.to_owned();
    }
    let renamed = RENAMED.iter().fold(text.to_owned(), |text, (own, front)| {
        text.replace(own, front)
    });
    renamed.replace(OWN, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_use_the_name_that_was_typed() {
        let text = "`perpacket-agent probe` or perpacket-agent load http";
        assert_eq!(named(text, OWN), text);
        assert_eq!(
            named(text, FRONT),
            "`perpacket doctor` or perpacket load http"
        );
    }
}
