//! Texts of the kernel. Names of programs, files and interfaces in them are any bytes.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Reads a text. A byte that is not UTF-8 is written as `\xff`, so that different names stay different.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| escaped(&bytes))
}

/// Reads the rest of a text, as [`read`] does.
///
/// # Errors
/// The source cannot be read.
pub fn read_rest(source: &mut impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    Ok(escaped(&bytes))
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // A string accepts all text.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_utf_8_stay_different() {
        assert_eq!(escaped("é: 1\n".as_bytes()), "é: 1\n");
        assert_eq!(escaped(b"a\xffb: 1\n"), "a\\xffb: 1\n");
        assert_ne!(escaped(b"a\xff"), escaped(b"a\xfe"));
        assert_eq!(read_rest(&mut &b"\xc3"[..]).unwrap(), "\\xc3");
    }
}
