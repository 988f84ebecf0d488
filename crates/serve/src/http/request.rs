//! Request heads: parsed by httparse, judged here (RFC 9112, sections 2 to 6).
//!
//! Whatever two servers could read in two ways is refused: a body with both a length and chunks,
//! two lengths, two hosts. The parser borrows from the input and allocates nothing.

use std::mem::MaybeUninit;

use super::body::Framing;
use super::status::Status;

/// Most fields of a head.
const FIELDS: usize = 96;

/// Longest request target, in bytes; RFC 9112, section 3, asks for 8000 at least.
pub const TARGET_BYTES: usize = 8192;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// One that HTTP has but no resource here: 405.
    Other,
}

/// A request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is asked for.
    pub method: Method,
    /// Of what, as it was sent.
    pub target: &'a [u8],
    /// 0 or 1, of HTTP/1.x.
    pub minor_version: u8,
    /// Whether the connection stays open after the response.
    pub keep_alive: bool,
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether the client waits for a 100 before it sends the body.
    pub expects_continue: bool,
    /// `Range`
    pub range: Option<&'a [u8]>,
    /// The fields that make the request conditional.
    pub conditions: Conditions<'a>,
    /// `Accept-Encoding`
    pub accept_encoding: Option<&'a [u8]>,
    /// `Cookie`
    pub cookie: Option<&'a [u8]>,
}

/// The fields that make a request conditional (RFC 9110, section 13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// `If-Match`
    pub if_match: Option<&'a [u8]>,
    /// `If-None-Match`
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-Range`
    pub if_range: Option<&'a [u8]>,
}

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The beginning of a head.
    Partial,
    /// A head of so many bytes.
    Whole(Request<'a>, usize),
    /// No request that will be answered, but with this status.
    Refused(Status),
}

/// Parses the head at the beginning of `input`, which may be at most `limit_bytes` long.
#[must_use]
pub fn parse_request(input: &[u8], limit_bytes: usize) -> Parsed<'_> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut raw = httparse::Request::new(&mut []);
    let seen = &input[..input.len().min(limit_bytes)];
    let bytes = match raw.parse_with_uninit_headers(seen, &mut fields) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return partial(input, limit_bytes),
        Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(Status::HEADER_TOO_LARGE),
        Err(httparse::Error::Version) => return Parsed::Refused(Status::VERSION),
        Err(_) => return Parsed::Refused(Status::BAD_REQUEST),
    };
    match judge(&raw) {
        Ok(request) => Parsed::Whole(request, bytes),
        Err(status) => Parsed::Refused(status),
    }
}

/// A head without end: too long, or not yet all here.
fn partial(input: &[u8], limit_bytes: usize) -> Parsed<'_> {
    let start = input
        .iter()
        .position(|byte| !matches!(byte, b'\r' | b'\n'))
        .unwrap_or(input.len());
    let line_bytes = memchr::memchr(b'\n', &input[start..]).unwrap_or(input.len() - start);
    // The longest method and version stand beside the target.
    if line_bytes > TARGET_BYTES + 32 {
        Parsed::Refused(Status::URI_TOO_LONG)
    } else if input.len() < limit_bytes {
        Parsed::Partial
    } else if start + line_bytes == input.len() {
        Parsed::Refused(Status::URI_TOO_LONG)
    } else {
        Parsed::Refused(Status::HEADER_TOO_LARGE)
    }
}

/// What the fields gathered say of the message as a whole.
#[derive(Default)]
struct Gathered {
    length: Option<u64>,
    chunked: bool,
    hosts: usize,
    close: bool,
    keep_alive: bool,
}

fn judge<'a>(raw: &httparse::Request<'_, 'a>) -> Result<Request<'a>, Status> {
    let (Some(method), Some(target), Some(minor_version)) = (raw.method, raw.path, raw.version)
    else {
        return Err(Status::BAD_REQUEST);
    };
    if target.len() > TARGET_BYTES {
        return Err(Status::URI_TOO_LONG);
    }
    let mut request = Request {
        method: method_of(method)?,
        target: target.as_bytes(),
        minor_version,
        keep_alive: false,
        framing: Framing::None,
        expects_continue: false,
        range: None,
        conditions: Conditions::default(),
        accept_encoding: None,
        cookie: None,
    };
    let mut gathered = Gathered::default();
    for field in raw.headers.iter() {
        note(&mut request, &mut gathered, field.name, field.value)?;
    }
    if gathered.hosts > 1 || (gathered.hosts == 0 && minor_version == 1) {
        return Err(Status::BAD_REQUEST);
    }
    request.framing = match (gathered.chunked, gathered.length) {
        (true, Some(_)) => return Err(Status::BAD_REQUEST),
        (true, None) if minor_version == 0 => return Err(Status::BAD_REQUEST),
        (true, None) => Framing::Chunked,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::None,
    };
    request.keep_alive = !gathered.close && (minor_version == 1 || gathered.keep_alive);
    request.expects_continue &= minor_version == 1;
    Ok(request)
}

/// Takes note of one field, if it is one of those that matter here.
fn note<'a>(
    request: &mut Request<'a>,
    gathered: &mut Gathered,
    name: &str,
    value: &'a [u8],
) -> Result<(), Status> {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let conditions = &mut request.conditions;
    // The length alone tells most fields apart, and it costs nothing.
    match name.len() {
        4 if is("host") => gathered.hosts += 1,
        5 if is("range") => request.range = Some(value),
        6 if is("cookie") => request.cookie = Some(value),
        6 if is("expect") => {
            if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
                return Err(Status::EXPECTATION_FAILED);
            }
            request.expects_continue = true;
        }
        8 if is("if-match") => conditions.if_match = Some(value),
        8 if is("if-range") => conditions.if_range = Some(value),
        10 if is("connection") => {
            for token in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                gathered.close |= token.eq_ignore_ascii_case(b"close");
                gathered.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        13 if is("if-none-match") => conditions.if_none_match = Some(value),
        14 if is("content-length") => {
            let length = length_of(value).ok_or(Status::BAD_REQUEST)?;
            if gathered.length.replace(length).is_some() {
                return Err(Status::BAD_REQUEST);
            }
        }
        15 if is("accept-encoding") => request.accept_encoding = Some(value),
        17 if is("transfer-encoding") => {
            if gathered.chunked {
                return Err(Status::BAD_REQUEST);
            }
            if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Status::NOT_IMPLEMENTED);
            }
            gathered.chunked = true;
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
        _ => return Err(Status::NOT_IMPLEMENTED),
    })
}

/// A `Content-Length`: digits alone, no sign and no list.
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

    fn parse(text: &str) -> Parsed<'_> {
        parse_request(text.as_bytes(), 1024)
    }

    fn whole(text: &str) -> Request<'_> {
        match parse(text) {
            Parsed::Whole(request, _) => request,
            other => panic!("{text:?} is {other:?}"),
        }
    }

    #[test]
    fn connections_stay_open_as_their_version_says_unless_a_field_says_otherwise() {
        for (text, stays) in [
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", true),
            (
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, CLOSE\r\n\r\n",
                false,
            ),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        ] {
            assert_eq!(whole(text).keep_alive, stays, "{text}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let refused = [
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
        for fields in refused {
            let text = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            assert_eq!(
                parse(&text),
                Parsed::Refused(Status::BAD_REQUEST),
                "{text:?}"
            );
        }
        let text = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(text), Parsed::Refused(Status::BAD_REQUEST));
    }

    #[test]
    fn each_kind_of_excess_has_its_status() {
        let status = |text: &str, limit| match parse_request(text.as_bytes(), limit) {
            Parsed::Refused(status) => status.code(),
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
    fn a_head_is_partial_until_its_last_byte_wherever_it_is_cut() {
        let text = "GET /a?b HTTP/1.1\r\nHost: h\r\nRange: bytes=1-\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), Parsed::Partial, "{cut}");
        }
        assert_eq!(whole(text).range, Some(&b"bytes=1-"[..]));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_request(&bytes, 256);
        }

        #[test]
        fn no_request_with_bytes_changed_panics(
            at in 0usize..90, byte in any::<u8>(), cut in 0usize..90
        ) {
            let mut text = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\
                Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n".to_vec();
            text[at] = byte;
            let cut = cut.min(text.len());
            if let Parsed::Whole(_, bytes) = parse_request(&text[..cut], 256) {
                prop_assert!(bytes <= cut);
            }
        }
    }
}
