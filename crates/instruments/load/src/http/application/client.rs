//! The state of one client of an application: its cookies and its values.

use perpacket_workload::Stream;

use super::number::Number;

/// A client. A new session begins without cookies and without extracted texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// The random numbers of the current page, followed by the extracted texts.
    pub(super) values: Vec<Vec<u8>>,
    /// The numbers that are unique to this session, with their values.
    pub(super) alone: Vec<(usize, i64)>,
    cookies: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Client {
    /// Removes all cookies and values, and adds `values` empty ones.
    pub(super) fn begin(&mut self, values: usize) {
        self.cookies.clear();
        self.values.clear();
        self.values.resize(values, Vec::new());
    }

    /// Draws the numbers of a page. The numbers that are unique to the session do not change.
    pub(super) fn draw(&mut self, numbers: &[Number], random: &mut Stream) {
        let all = numbers.iter().zip(&mut self.values);
        for (number, value) in all.filter(|(number, _)| !number.alone) {
            *value = number.draw(random).to_string().into_bytes();
        }
    }

    /// Stores the value of a field `Set-Cookie` (RFC 6265, section 5.2). A cookie without a value or
    /// with an age of zero is deleted.
    pub(crate) fn store_cookie(&mut self, field: &[u8]) {
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let Some((name, value)) = parts.next().and_then(pair) else {
            return;
        };
        let expired = parts.filter_map(pair).any(|(attribute, age)| {
            attribute.eq_ignore_ascii_case(b"max-age") && (age == b"0" || age.starts_with(b"-"))
        });
        self.cookies.retain(|(known, _)| known != name);
        if !expired && !value.is_empty() {
            self.cookies.push((name.to_vec(), value.to_vec()));
        }
    }

    /// Writes the field `Cookie`, if there are cookies.
    pub(super) fn write_cookies(&self, buffer: &mut Vec<u8>) {
        for (place, (name, value)) in self.cookies.iter().enumerate() {
            buffer.extend_from_slice(if place == 0 { b"Cookie: " } else { b"; " });
            buffer.extend_from_slice(name);
            buffer.push(b'=');
            buffer.extend_from_slice(value);
        }
        if !self.cookies.is_empty() {
            buffer.extend_from_slice(b"\r\n");
        }
    }
}

/// The two sides of an equals sign.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let place = memchr::memchr(b'=', text)?;
    Some((text[..place].trim_ascii(), text[place + 1..].trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_replaced_and_deleted() {
        let mut client = Client::default();
        let mut sent = |fields: &[&str]| {
            for field in fields {
                client.store_cookie(field.as_bytes());
            }
            let mut buffer = Vec::new();
            client.write_cookies(&mut buffer);
            String::from_utf8(buffer).unwrap()
        };
        assert_eq!(sent(&["no cookie"]), "");
        assert_eq!(
            sent(&["a=1; Path=/; HttpOnly", "b=x=y", "a=2"]),
            "Cookie: b=x=y; a=2\r\n"
        );
        assert_eq!(sent(&["b=gone; Max-Age=0", "a="]), "");
    }
}
