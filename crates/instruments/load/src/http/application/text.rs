//! Texts with placeholders such as `@user@`.

use std::io::Write;

/// A text with placeholders. A placeholder contains the index of a value in the values of a
/// client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Text(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(String),
    Value(usize),
}

/// A function that writes one byte of a value in an encoding.
pub(super) type Encoding = fn(&mut Vec<u8>, u8);

impl Text {
    /// A text without placeholders.
    pub(super) fn literal(text: &str) -> Self {
        Self(vec![Part::Literal(text.to_owned())])
    }

    /// Parses a text. `number` returns the index of the value that has the given name.
    ///
    /// # Errors
    /// The error is the name of a placeholder that has no value.
    pub(super) fn parse(
        text: &str,
        number: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, String> {
        let mut parts = Vec::new();
        let (mut literal, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('@') {
            literal.push_str(before);
            match after.split_once('@') {
                Some((name, following)) if is_name(name) => {
                    let value = number(name).ok_or_else(|| name.to_owned())?;
                    if !literal.is_empty() {
                        parts.push(Part::Literal(core::mem::take(&mut literal)));
                    }
                    parts.push(Part::Value(value));
                    rest = following;
                }
                _ => {
                    literal.push('@');
                    rest = after;
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self(parts))
    }

    /// Whether the text has neither characters nor placeholders.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the text unchanged, and its values encoded.
    pub(super) fn write(&self, buffer: &mut Vec<u8>, values: &[Vec<u8>], encoding: Encoding) {
        for part in &self.0 {
            match part {
                Part::Literal(text) => buffer.extend_from_slice(text.as_bytes()),
                Part::Value(number) => {
                    for byte in &values[*number] {
                        encoding(buffer, *byte);
                    }
                }
            }
        }
    }

    /// Writes the text and its values in the encoding of forms.
    pub(super) fn write_encoded(&self, buffer: &mut Vec<u8>, values: &[Vec<u8>]) {
        let mut plain = Vec::new();
        self.write(&mut plain, values, as_it_is);
        for byte in plain {
            form_byte(buffer, byte);
        }
    }
}

/// Whether a text between two `@` is a placeholder's name.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Writes the byte unchanged.
pub(super) fn as_it_is(buffer: &mut Vec<u8>, byte: u8) {
    buffer.push(byte);
}

/// Writes a byte of a path or query: unreserved bytes unchanged, others percent-encoded (RFC 3986,
/// section 2.3).
pub(super) fn path_byte(buffer: &mut Vec<u8>, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        buffer.push(byte);
    } else {
        // Writing to a vector cannot fail.
        let _ = write!(buffer, "%{byte:02X}");
    }
}

/// Writes a byte of a form. A space becomes a plus sign.
fn form_byte(buffer: &mut Vec<u8>, byte: u8) {
    match byte {
        b' ' => buffer.push(b'+'),
        _ => path_byte(buffer, byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_encoded() {
        let number = |name: &str| (name == "id").then_some(0);
        let text = Text::parse("/a@id@?mail=x@example.com", number).unwrap();
        let mut path = Vec::new();
        text.write(&mut path, &[b"<1 2>".to_vec()], path_byte);
        assert_eq!(path, b"/a%3C1%202%3E?mail=x@example.com");
        let mut form = Vec::new();
        text.write_encoded(&mut form, &[b"1 2".to_vec()]);
        assert_eq!(form, b"%2Fa1+2%3Fmail%3Dx%40example.com");
        assert_eq!(Text::parse("@other@", number), Err("other".to_owned()));
    }
}
