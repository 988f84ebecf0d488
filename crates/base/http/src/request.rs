//! The head of a request (RFC 9112, sections 2 to 6). httparse splits the head, and this module
//! checks it.
//!
//! The parser rejects a request that two servers could read differently: a body with both a length
//! and chunks, two lengths, or two hosts. The parser borrows from the input and allocates nothing.

use std::mem::MaybeUninit;

use crate::body::Framing;
use crate::status::Status;
use crate::target::is_target;

/// Maximum number of fields in a head.
const FIELDS: usize = 96;

/// Longest request target, in bytes. RFC 9112, section 3, asks for at least 8000.
pub const TARGET_BYTES: usize = 8192;

/// A request method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    /// Another method of RFC 9110. The servers answer it with 405.
    Other,
}

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub method: Method,
    /// The request target as sent.
    pub target: &'a [u8],
    /// 0 for HTTP/1.0, 1 for HTTP/1.1 and later minor versions.
    pub minor_version: u8,
    /// Whether the connection stays open after the response.
    pub keep_alive: bool,
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether the client waits for a 100 before it sends the body.
    pub expects_continue: bool,
    pub range: Option<&'a [u8]>,
    /// The fields that make the request conditional.
    pub conditions: Conditions<'a>,
    pub accept_encoding: Option<&'a [u8]>,
    pub cookie: Option<&'a [u8]>,
}

/// The fields that make a request conditional (RFC 9110, section 13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    pub if_match: Option<&'a [u8]>,
    pub if_none_match: Option<&'a [u8]>,
    pub if_modified_since: Option<&'a [u8]>,
    pub if_unmodified_since: Option<&'a [u8]>,
    pub if_range: Option<&'a [u8]>,
}

/// The result of parsing a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedHead<'a> {
    /// The input is the beginning of a head.
    Partial,
    /// The head, and its length in bytes.
    Complete(Request<'a>, usize),
    /// The input is not a valid head. The server answers with this status.
    Rejected(Status),
}

/// Parses the head at the beginning of `input`, which may be at most `limit_bytes` long.
pub fn parse_request(input: &[u8], limit_bytes: usize) -> ParsedHead<'_> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut raw = httparse::Request::new(&mut []);
    let visible = &input[..input.len().min(limit_bytes)];
    let parsed = match raw.parse_with_uninit_headers(visible, &mut fields) {
        Ok(httparse::Status::Complete(bytes)) => match (raw.method, raw.path, raw.version) {
            (Some(method), Some(target), Some(minor_version)) => {
                check(method, target, minor_version, raw.headers).map(|head| Some((head, bytes)))
            }
            _ => Err(Status::BadRequest),
        },
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::Version) => parse_later_version(visible),
        Err(error) => Err(status_of(error)),
    };
    match parsed {
        Ok(Some((request, bytes))) => ParsedHead::Complete(request, bytes),
        Ok(None) => partial(input, limit_bytes),
        Err(status) => ParsedHead::Rejected(status),
    }
}

fn status_of(error: httparse::Error) -> Status {
    match error {
        httparse::Error::TooManyHeaders => Status::HeaderFieldsTooLarge,
        _ => Status::BadRequest,
    }
}

/// Parses a head that httparse rejected because its request line does not have `HTTP/1.0` or
/// `HTTP/1.1` where httparse expects the version.
///
/// A later minor version is treated as HTTP/1.1 (RFC 9110, section 2.5). The answer to another major
/// version is 505, and the answer to a line that does not have exactly three parts is 400 (RFC 9112,
/// section 3).
#[cold]
fn parse_later_version(visible: &[u8]) -> Result<Option<(Request<'_>, usize)>, Status> {
    let start = line_start(visible);
    let Some(line_bytes) = memchr::memchr(b'\n', &visible[start..]) else {
        return Ok(None);
    };
    let line = &visible[start..start + line_bytes];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = str::from_utf8(line).map_err(|_| Status::BadRequest)?;
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Status::BadRequest);
    };
    match version.as_bytes() {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => {}
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return Err(Status::HttpVersionNotSupported);
        }
        _ => return Err(Status::BadRequest),
    }
    if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Status::BadRequest);
    }
    let fields_start = start + line_bytes + 1;
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    match httparse::parse_headers(&visible[fields_start..], &mut fields) {
        Ok(httparse::Status::Complete((bytes, fields))) => {
            check(method, target, 1, fields).map(|head| Some((head, fields_start + bytes)))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => Err(status_of(error)),
    }
}

/// Where the request line starts: empty lines before it are ignored (RFC 9112, section 2.2).
fn line_start(input: &[u8]) -> usize {
    input
        .iter()
        .position(|byte| !matches!(byte, b'\r' | b'\n'))
        .unwrap_or(input.len())
}

/// The result for a head without an end: the head is incomplete or too long.
fn partial(input: &[u8], limit_bytes: usize) -> ParsedHead<'_> {
    let start = line_start(input);
    let line_bytes = memchr::memchr(b'\n', &input[start..]).unwrap_or(input.len() - start);
    // The longest method and the version need less than 32 bytes.
    if line_bytes > TARGET_BYTES + 32 {
        ParsedHead::Rejected(Status::UriTooLong)
    } else if input.len() < limit_bytes {
        ParsedHead::Partial
    } else if start + line_bytes == input.len() {
        ParsedHead::Rejected(Status::UriTooLong)
    } else {
        ParsedHead::Rejected(Status::HeaderFieldsTooLarge)
    }
}

/// Fields whose values are checked after all fields are read.
#[derive(Default)]
struct Connection {
    length: Option<u64>,
    chunked: bool,
    hosts: usize,
    close: bool,
    keep_alive: bool,
}

fn check<'a>(
    method: &str,
    target: &'a str,
    minor_version: u8,
    fields: &[httparse::Header<'a>],
) -> Result<Request<'a>, Status> {
    if target.len() > TARGET_BYTES {
        return Err(Status::UriTooLong);
    }
    let known_method = method_of(method)?;
    if !is_target(method, target.as_bytes()) {
        return Err(Status::BadRequest);
    }
    let mut request = Request {
        method: known_method,
        target: target.as_bytes(),
        minor_version,
        keep_alive: false,
        framing: Framing::Length(0),
        expects_continue: false,
        range: None,
        conditions: Conditions::default(),
        accept_encoding: None,
        cookie: None,
    };
    let mut connection = Connection::default();
    for field in fields {
        read_field(&mut request, &mut connection, field.name, field.value)?;
    }
    if connection.hosts > 1 || (connection.hosts == 0 && minor_version == 1) {
        return Err(Status::BadRequest);
    }
    request.framing = match (connection.chunked, connection.length) {
        (true, Some(_)) => return Err(Status::BadRequest),
        (true, None) if minor_version == 0 => return Err(Status::BadRequest),
        (true, None) => Framing::Chunked,
        (false, length) => Framing::Length(length.unwrap_or(0)),
    };
    request.keep_alive = !connection.close && (minor_version == 1 || connection.keep_alive);
    request.expects_continue &= minor_version == 1;
    Ok(request)
}

/// Stores one field if the server uses it.
#[inline]
fn read_field<'a>(
    request: &mut Request<'a>,
    connection: &mut Connection,
    name: &str,
    value: &'a [u8],
) -> Result<(), Status> {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let conditions = &mut request.conditions;
    // A name's bytes are compared only with the known names of its length.
    match name.len() {
        4 if is("host") => {
            if !is_host(value) {
                return Err(Status::BadRequest);
            }
            connection.hosts += 1;
        }
        5 if is("range") => request.range = Some(value),
        6 if is("cookie") => request.cookie = Some(value),
        6 if is("expect") => {
            if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
                return Err(Status::ExpectationFailed);
            }
            request.expects_continue = true;
        }
        8 if is("if-match") => conditions.if_match = Some(value),
        8 if is("if-range") => conditions.if_range = Some(value),
        10 if is("connection") => {
            for token in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                connection.close |= token.eq_ignore_ascii_case(b"close");
                connection.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        13 if is("if-none-match") => conditions.if_none_match = Some(value),
        14 if is("content-length") => {
            let length = length_of(value).ok_or(Status::BadRequest)?;
            if connection.length.replace(length).is_some() {
                return Err(Status::BadRequest);
            }
        }
        15 if is("accept-encoding") => request.accept_encoding = Some(value),
        17 if is("transfer-encoding") => {
            if connection.chunked {
                return Err(Status::BadRequest);
            }
            if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Status::NotImplemented);
            }
            connection.chunked = true;
        }
        17 if is("if-modified-since") => conditions.if_modified_since = Some(value),
        19 if is("if-unmodified-since") => conditions.if_unmodified_since = Some(value),
        _ => {}
    }
    Ok(())
}

fn method_of(method: &str) -> Result<Method, Status> {
    Ok(match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" | "DELETE" | "OPTIONS" | "PATCH" | "TRACE" | "CONNECT" => Method::Other,
        _ => return Err(Status::NotImplemented),
    })
}

/// Whether a `Host` value is empty or `uri-host [":" port]` (RFC 9110, section 7.2; RFC 3986, section
/// 3.2.2).
#[inline]
fn is_host(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let (name, port) = match value.iter().position(|&byte| !is_name_byte(byte)) {
        None => return true,
        Some(0) if value[0] == b'[' => {
            let Some(end) = value.iter().position(|&byte| byte == b']') else {
                return false;
            };
            (&value[1..end], &value[end + 1..])
        }
        Some(end) if value[end] == b':' => value.split_at(end),
        Some(_) => return false,
    };
    let is_literal = value[0] == b'[';
    let name_is_valid = !is_literal
        || !name.is_empty() && name.iter().all(|&byte| is_name_byte(byte) || byte == b':');
    let port_is_valid = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    name_is_valid && port_is_valid
}

/// A byte of a registered name: unreserved, `%` or a sub-delimiter (RFC 3986, appendix A).
#[inline]
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

/// A `Content-Length`: only digits, no sign and no list.
fn length_of(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> ParsedHead<'_> {
        parse_request(text.as_bytes(), 1024)
    }

    fn complete(text: &str) -> Request<'_> {
        match parse(text) {
            ParsedHead::Complete(request, _) => request,
            other => panic!("{text:?} is {other:?}"),
        }
    }

    #[test]
    fn a_field_overrides_the_default_of_the_version_for_keeping_a_connection_open() {
        for (text, stays) in [
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", true),
            (
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, CLOSE\r\n\r\n",
                false,
            ),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        ] {
            assert_eq!(complete(text).keep_alive, stays, "{text}");
        }
    }

    #[test]
    fn a_request_that_can_be_read_in_two_ways_is_rejected() {
        let rejected = [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Host: two\r\n",
            "Name : x\r\n",
            " folded: x\r\n",
            "no colon\r\n",
        ];
        for fields in rejected {
            let text = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            assert_eq!(
                parse(&text),
                ParsedHead::Rejected(Status::BadRequest),
                "{text:?}"
            );
        }
        let text = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(text), ParsedHead::Rejected(Status::BadRequest));
    }

    #[test]
    fn each_unsupported_request_has_its_status() {
        let status = |text: &str, limit| match parse_request(text.as_bytes(), limit) {
            ParsedHead::Rejected(status) => status.code(),
            other => panic!("{other:?}"),
        };
        let long = "a".repeat(TARGET_BYTES);
        let host = "HTTP/1.1\r\nHost: h\r\n";
        assert_eq!(status(&format!("GET /{long} {host}\r\n"), 1 << 20), 414);
        assert_eq!(status(&format!("GET /{long}{long}"), 1 << 20), 414);
        assert_eq!(status(&format!("GET / {host}A: {long}"), 1024), 431);
        assert_eq!(
            status(
                &format!("GET / {host}{}\r\n", "a: b\r\n".repeat(FIELDS)),
                1 << 20
            ),
            431
        );
        assert_eq!(status("GET / HTTP/2.0\r\n\r\n", 1024), 505);
        assert_eq!(status("BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 1024), 501);
        let text = format!("POST / {host}Transfer-Encoding: gzip, chunked\r\n\r\n");
        assert_eq!(status(&text, 1024), 501);
        assert_eq!(
            status(&format!("GET / {host}Expect: 200-ok\r\n\r\n"), 1024),
            417
        );
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n", 1024), 400);
    }

    #[test]
    fn a_head_is_partial_until_its_last_byte_arrives() {
        let text = "GET /a?b HTTP/1.1\r\nHost: h\r\nRange: bytes=1-\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), ParsedHead::Partial, "{cut}");
        }
        assert_eq!(complete(text).range, Some(&b"bytes=1-"[..]));
    }

    #[test]
    fn an_invalid_host_is_rejected() {
        for host in [
            "a b/c@d", "a/b", "a@b", "a:b", "[::1", "[]", "a:80:80", "h\u{fc}", "[a]b",
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let rejected = ParsedHead::Rejected(Status::BadRequest);
            assert_eq!(parse(&text), rejected, "{host}");
        }
        for host in [
            "",
            "h",
            "127.0.0.1:80",
            "[::1]:8080",
            "[::1]",
            "a-b_c.%41",
            "h:",
        ] {
            complete(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        }
    }

    #[test]
    fn a_later_minor_version_is_treated_as_1_1() {
        let text = "GET /a HTTP/1.2\r\nHost: h\r\nRange: bytes=1-\r\n\r\nnext";
        let ParsedHead::Complete(request, bytes) = parse(text) else {
            panic!("{:?}", parse(text));
        };
        assert_eq!((request.minor_version, request.target), (1, &b"/a"[..]));
        assert!(request.keep_alive && request.range.is_some());
        assert_eq!(&text[bytes..], "next");
        for cut in 0..bytes {
            assert_eq!(parse(&text[..cut]), ParsedHead::Partial, "{cut}");
        }
    }

    #[test]
    fn a_request_line_with_a_fourth_part_or_a_malformed_version_is_rejected() {
        for line in [
            "GET /a b HTTP/1.1",
            "GET /a  HTTP/1.2",
            "GET /a HTTP/1.2 ",
            "GET /a HTTP/1.10",
            "GET /a HTTP/x",
            "GET /a FTP/1.1",
        ] {
            let text = format!("{line}\r\nHost: h\r\n\r\n");
            let rejected = ParsedHead::Rejected(Status::BadRequest);
            assert_eq!(parse(&text), rejected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_request(&bytes, 256);
        }

        #[test]
        fn no_request_with_a_changed_byte_panics(
            at in 0usize..90, byte in any::<u8>(), cut in 0usize..90
        ) {
            let mut text = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\
                Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n".to_vec();
            text[at] = byte;
            let cut = cut.min(text.len());
            if let ParsedHead::Complete(_, bytes) = parse_request(&text[..cut], 256) {
                prop_assert!(bytes <= cut);
            }
        }
    }
}
