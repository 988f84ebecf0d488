//! The head of a response (RFC 9112, sections 4 and 6).
//!
//! A load generator parses the same few fields of the same few heads millions of times. So one pass
//! over the lines branches on the first letter of a field and copies nothing. httparse needed 1.2
//! to 1.5 times as long for the same fields. If this pass rejects a head, it describes the fault.

use std::fmt;

use memchr::memchr;

use crate::body::Framing;

/// Longest head, in bytes. Servers send a few hundred.
pub const HEAD_BYTES: usize = 65_536;

/// Bytes of an invalid head that an error quotes.
const QUOTED_BYTES: usize = 40;

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Whether the server keeps the connection open.
    pub keep_alive: bool,
    /// `Content-Length`
    pub length_bytes: Option<u64>,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    pub last_modified: Option<&'a [u8]>,
    /// `Set-Cookie` up to its first attribute
    pub set_cookie: Option<&'a [u8]>,
    pub location: Option<&'a [u8]>,
}

impl Response<'_> {
    /// How the body is delimited (RFC 9112, section 6.3). A response to HEAD has no body.
    pub fn framing(&self, to_head: bool) -> Framing {
        match self.length_bytes {
            _ if to_head || matches!(self.status, 100..=199 | 204 | 304) => Framing::Length(0),
            _ if self.chunked => Framing::Chunked,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        }
    }
}

/// The reason why some bytes are not the head of an HTTP/1 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResponse(String);

impl fmt::Display for InvalidResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InvalidResponse {}

/// Parses the head at the start of `bytes`. Returns the response and the length of its head, or
/// `None` while the head is incomplete.
///
/// # Errors
/// The bytes are not the head of an HTTP/1.0 or HTTP/1.1 response.
pub fn parse_response(bytes: &[u8]) -> Result<Option<(Response<'_>, usize)>, InvalidResponse> {
    let Some(end) = memchr(b'\n', bytes) else {
        let known = bytes.len().min(5);
        return match bytes[..known] == b"HTTP/"[..known] && bytes.len() < HEAD_BYTES {
            true => Ok(None),
            false => Err(invalid(bytes)),
        };
    };
    let mut response = status_line(&bytes[..end]).ok_or_else(|| invalid(bytes))?;
    let mut start = end + 1;
    while let Some(length) = memchr(b'\n', &bytes[start..]) {
        let line = &bytes[start..start + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        start += length + 1;
        if line.is_empty() {
            return Ok(Some((response, start)));
        }
        field(line, &mut response).ok_or_else(|| invalid(bytes))?;
    }
    if bytes.len() >= HEAD_BYTES {
        return Err(InvalidResponse(format!(
            "the head is longer than {HEAD_BYTES} bytes"
        )));
    }
    Ok(None)
}

/// The values of the fields `Set-Cookie` of a head, with their attributes.
pub fn set_cookies(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n').filter_map(|line| {
        let (name, value) = line.split_at_checked(b"set-cookie:".len())?;
        name.eq_ignore_ascii_case(b"set-cookie:")
            .then(|| value.trim_ascii())
    })
}

/// Parses a status line `HTTP/1.x NNN ...`.
#[inline]
fn status_line(line: &[u8]) -> Option<Response<'_>> {
    let (&[minor @ (b'0' | b'1'), b' ', a, b, c], rest) =
        line.strip_prefix(b"HTTP/1.")?.split_first_chunk()?
    else {
        return None;
    };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    let status = digit(a)? * 100 + digit(b)? * 10 + digit(c)?;
    if status < 100 || !matches!(rest.first(), None | Some(b' ' | b'\r')) {
        return None;
    }
    Some(Response {
        status,
        keep_alive: minor == b'1',
        length_bytes: None,
        chunked: false,
        last_modified: None,
        set_cookie: None,
        location: None,
    })
}

/// Adds a field line to a response; `None` if the line is not a field.
#[inline]
fn field<'a>(line: &'a [u8], response: &mut Response<'a>) -> Option<()> {
    let value_of = |name: &[u8]| {
        let (start, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        start.eq_ignore_ascii_case(name).then_some(value)
    };
    match line[0] | 0x20 {
        b'c' => {
            if let Some(value) = value_of(b"content-length") {
                let length = length(value.trim_ascii())?;
                if response.length_bytes.is_some_and(|known| known != length) {
                    return None;
                }
                response.length_bytes = Some(length);
                return Some(());
            }
            if let Some(value) = value_of(b"connection") {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        response.keep_alive = false;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        response.keep_alive = true;
                    }
                }
                return Some(());
            }
        }
        b't' => {
            if let Some(value) = value_of(b"transfer-encoding") {
                let last = value.rsplit(|byte| *byte == b',').next()?;
                response.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
                return Some(());
            }
        }
        b'l' => {
            if let Some(value) = value_of(b"last-modified") {
                response.last_modified = Some(value.trim_ascii());
                return Some(());
            }
            if let Some(value) = value_of(b"location") {
                response.location = Some(value.trim_ascii());
                return Some(());
            }
        }
        b's' => {
            if let Some(value) = value_of(b"set-cookie") {
                let end = memchr(b';', value).unwrap_or(value.len());
                response.set_cookie = Some(value[..end].trim_ascii());
                return Some(());
            }
        }
        _ => {}
    }
    memchr(b':', line).filter(|colon| *colon > 0).map(drop)
}

/// The value of `Content-Length`.
#[inline]
fn length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

/// Describes an invalid head.
#[cold]
fn invalid(bytes: &[u8]) -> InvalidResponse {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTED_BYTES)]);
    let reason = match httparse::Response::new(&mut fields).parse(bytes) {
        Err(error) => error.to_string(),
        Ok(_) => "neither HTTP/1.0 nor HTTP/1.1 with consistent fields".to_owned(),
    };
    InvalidResponse(format!("not an HTTP response: {reason}: {start:?}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TYPICAL: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sat, 21 Nov 2026 00:00:00 \
GMT\r\nContent-Type: text/plain\r\nContent-Length: 612\r\nLast-Modified: Sat, 21 Nov 2026 \
00:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"1\"\r\n\r\n";

    #[test]
    fn a_head_is_parsed_once_it_is_complete() {
        for cut in 0..TYPICAL.len() {
            assert_eq!(parse_response(&TYPICAL[..cut]), Ok(None), "{cut}");
        }
        let (response, bytes) = parse_response(TYPICAL).unwrap().unwrap();
        assert_eq!(bytes, TYPICAL.len());
        assert_eq!(response.status, 200);
        assert_eq!(response.framing(false), Framing::Length(612));
        assert!(response.keep_alive);
        let date: &[u8] = b"Sat, 21 Nov 2026 00:00:00 GMT";
        assert_eq!(response.last_modified, Some(date));
    }

    fn parsed(text: &str) -> Response<'_> {
        parse_response(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn a_connection_stays_open_by_version_and_field() {
        assert!(!parsed("HTTP/1.0 200 OK\r\n\r\n").keep_alive);
        assert!(parsed("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\n\r\n").keep_alive);
        assert!(parsed("HTTP/1.1 200 OK\n\n").keep_alive);
        assert!(!parsed("HTTP/1.1 200 OK\r\nConnection: x, close\r\n\r\n").keep_alive);
    }

    #[test]
    fn bytes_that_are_not_a_response_are_described() {
        for text in [
            "SSH-2.0-OpenSSH",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ] {
            let error = parse_response(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("not an HTTP response"), "{text} {error}");
        }
    }

    #[test]
    fn not_modified_and_responses_to_head_have_no_body() {
        let text = "HTTP/1.1 304 NM\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(parsed(text).framing(false), Framing::Length(0));
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
        assert_eq!(parsed(text).framing(true), Framing::Length(0));
        assert_eq!(parsed(text).framing(false), Framing::Chunked);
    }

    #[test]
    fn values_are_returned_without_blanks_and_attributes() {
        let text = "HTTP/1.1 302 Found\r\nLocation:  /new \r\nSet-Cookie: a=b; Path=/\r\n\r\n";
        let response = parsed(text);
        assert_eq!(response.location, Some(&b"/new"[..]));
        assert_eq!(response.set_cookie, Some(&b"a=b"[..]));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_response(&bytes);
            let _ = parse_response(&[b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat());
        }
    }
}
