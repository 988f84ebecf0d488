//! Messages and interleaved frames, cut from a stream of bytes.
//!
//! Both ends read the same way: as many bytes as have come go in, and a unit comes out when one is
//! whole. Everything has a limit, so that a peer cannot make the other end remember more than it
//! agreed to.

use std::ops::Range;

use thiserror::Error;

/// What introduces an interleaved frame (RFC 2326, section 10.12).
const FRAME_MARK: u8 = b'$';

/// Bytes before the data of an interleaved frame.
const FRAME_HEAD_BYTES: usize = 4;

/// The version both ends speak.
const VERSION: &str = "RTSP/1.0";

/// How large a message may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the start line and headers.
    pub head_bytes: usize,
    /// Headers.
    pub headers: usize,
    /// Bytes of the body.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 8 * 1024,
            headers: 64,
            body_bytes: 16 * 1024,
        }
    }
}

/// Why bytes are no message. The peer has lost its place: the connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The head is longer than the limit.
    #[error("rtsp head of more than {limit} bytes")]
    HeadTooLong {
        /// Bytes allowed.
        limit: usize,
    },
    /// There are more headers than the limit.
    #[error("more than {limit} rtsp headers")]
    TooManyHeaders {
        /// Headers allowed.
        limit: usize,
    },
    /// The body is longer than the limit.
    #[error("rtsp body of {bytes} bytes, expected at most {limit}")]
    BodyTooLong {
        /// Bytes announced.
        bytes: u64,
        /// Bytes allowed.
        limit: usize,
    },
    /// The head is not text.
    #[error("rtsp head holds bytes that are no text")]
    NotText,
    /// A line without a colon, or with an empty name.
    #[error("rtsp header line without a name: `{line}`")]
    Header {
        /// The line's beginning.
        line: String,
    },
    /// A length that is no number.
    #[error("rtsp content-length `{value}` is no number of bytes")]
    ContentLength {
        /// What stood there.
        value: String,
    },
    /// The start line is neither a request's nor a response's.
    #[error("rtsp start line `{line}`, expected `METHOD URI RTSP/1.0` or `RTSP/1.0 STATUS REASON`")]
    StartLine {
        /// The line's beginning.
        line: String,
    },
}

/// A message whose start line is not yet understood.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    /// The first line, without its end.
    pub start_line: String,
    headers: Vec<(String, String)>,
    /// What follows the headers.
    pub body: Vec<u8>,
}

/// An interleaved frame in the bytes it was cut from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its channel.
    pub channel: u8,
    /// Where its data are in the bytes given.
    pub data: Range<usize>,
}

/// One thing in the stream of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// RTP or RTCP.
    Frame(Frame),
    /// A request or response.
    Message(Message),
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do, as written: methods are case-sensitive.
    pub method: String,
    /// With what.
    pub uri: String,
    /// The version is 1.0.
    pub version_is_known: bool,
    /// Headers and body.
    pub message: Message,
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// How it went.
    pub code: u16,
    /// Headers and body.
    pub message: Message,
}

/// Cuts the first unit off the bytes: the unit and how many bytes it took, or nothing while it is
/// not whole.
///
/// # Errors
/// The bytes cannot be a message within the limits, however many more come.
pub fn split(bytes: &[u8], limits: Limits) -> Result<Option<(Unit, usize)>, Malformed> {
    // Empty lines between messages are allowed (RFC 2326, section 4.1, as in HTTP).
    let blank = bytes
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .count();
    let rest = &bytes[blank..];
    match rest {
        [] if blank > limits.head_bytes => Err(Malformed::HeadTooLong {
            limit: limits.head_bytes,
        }),
        [] => Ok(None),
        [FRAME_MARK, channel, high, low, data @ ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let start = blank + FRAME_HEAD_BYTES;
            Ok((data.len() >= length).then(|| {
                let frame = Frame {
                    channel: *channel,
                    data: start..start + length,
                };
                (Unit::Frame(frame), start + length)
            }))
        }
        [FRAME_MARK, ..] => Ok(None),
        _ => Ok(
            message(rest, limits)?.map(|(message, used)| (Unit::Message(message), blank + used))
        ),
    }
}

/// The head of an interleaved frame with that many bytes of data.
#[inline]
#[must_use]
pub fn frame_head(channel: u8, data_bytes: u16) -> [u8; FRAME_HEAD_BYTES] {
    let [high, low] = data_bytes.to_be_bytes();
    [FRAME_MARK, channel, high, low]
}

fn message(bytes: &[u8], limits: Limits) -> Result<Option<(Message, usize)>, Malformed> {
    let Some((head, used)) = head(bytes, limits.head_bytes) else {
        if bytes.len() > limits.head_bytes {
            return Err(Malformed::HeadTooLong {
                limit: limits.head_bytes,
            });
        }
        return Ok(None);
    };
    let head = std::str::from_utf8(head).map_err(|_| Malformed::NotText)?;
    let mut lines = head.lines();
    let mut message = Message {
        start_line: lines.next().unwrap_or_default().to_owned(),
        ..Message::default()
    };
    for line in lines {
        if message.headers.len() == limits.headers {
            return Err(Malformed::TooManyHeaders {
                limit: limits.headers,
            });
        }
        match (line.split_once(':'), message.headers.last_mut()) {
            // A line that begins with a blank continues the last one.
            (_, Some((_, value))) if line.starts_with([' ', '\t']) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            (Some((name, value)), _) if is_token(name.trim_end()) => {
                let (name, value) = (name.trim_end(), value.trim());
                message.headers.push((name.to_owned(), value.to_owned()));
            }
            _ => return Err(Malformed::Header { line: begin(line) }),
        }
    }
    let length: u64 = match message.header("Content-Length") {
        Some(value) => value.parse().map_err(|_| Malformed::ContentLength {
            value: begin(value),
        })?,
        None => 0,
    };
    if length > limits.body_bytes as u64 {
        return Err(Malformed::BodyTooLong {
            bytes: length,
            limit: limits.body_bytes,
        });
    }
    let end = used + length as usize;
    Ok(bytes.get(used..end).map(|body| {
        message.body = body.to_vec();
        (message, end)
    }))
}

/// The head without its blank line, and the bytes both take; none while the line has not come.
fn head(bytes: &[u8], limit: usize) -> Option<(&[u8], usize)> {
    let mut line_start = 0;
    for (place, _) in bytes
        .iter()
        .enumerate()
        .take(limit)
        .filter(|(_, byte)| **byte == b'\n')
    {
        let line = &bytes[line_start..place];
        if line.is_empty() || line == b"\r" {
            return Some((&bytes[..line_start], place + 1));
        }
        line_start = place + 1;
    }
    None
}

/// Whether text is a token: no separators, blanks or control characters.
fn is_token(text: &str) -> bool {
    let is_mark = |byte| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// The beginning of a text, for messages.
fn begin(text: &str) -> String {
    text.chars()
        .take(60)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

impl Message {
    /// A header's first value; names do not depend on case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The sequence number that an answer repeats.
    #[must_use]
    pub fn sequence(&self) -> Option<u32> {
        self.header("CSeq")?.parse().ok()
    }

    /// The session's name and its time-out in seconds, where one is given.
    #[must_use]
    pub fn session(&self) -> Option<(&str, Option<u64>)> {
        let mut parts = self.header("Session")?.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let timeout = parts.find_map(|part| part.strip_prefix("timeout=")?.parse().ok());
        Some((name, timeout))
    }
}

impl TryFrom<Message> for Request {
    type Error = Malformed;

    fn try_from(message: Message) -> Result<Self, Malformed> {
        let mut words = message.start_line.split(' ');
        let (method, uri) = (words.next(), words.next());
        let (version, end) = (words.next(), words.next());
        match (method, uri, version, end) {
            (Some(method), Some(uri), Some(version), None)
                if is_token(method) && !uri.is_empty() && version.starts_with("RTSP/") =>
            {
                Ok(Self {
                    method: method.to_owned(),
                    uri: uri.to_owned(),
                    version_is_known: version == VERSION,
                    message,
                })
            }
            _ => Err(Malformed::StartLine {
                line: begin(&message.start_line),
            }),
        }
    }
}

impl TryFrom<Message> for Response {
    type Error = Malformed;

    fn try_from(message: Message) -> Result<Self, Malformed> {
        let rest = message.start_line.strip_prefix("RTSP/1.0 ");
        let code = rest
            .and_then(|rest| rest.get(..3))
            .and_then(|code| code.parse().ok());
        match code {
            Some(code @ 100..=599) => Ok(Self { code, message }),
            _ => Err(Malformed::StartLine {
                line: begin(&message.start_line),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETUP: &[u8] = b"SETUP rtsp://h/a.ts/track1 RTSP/1.0\r\nCSeq: 302\r\n\
        Transport: RTP/AVP;unicast;\r\n client_port=4588-4589\r\nsession : 47;timeout=30\r\n\r\n";

    fn one(bytes: &[u8]) -> Message {
        match split(bytes, Limits::default()).unwrap() {
            Some((Unit::Message(message), _)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_has_method_uri_sequence_and_folded_headers() {
        let message = one(SETUP);
        assert_eq!(message.sequence(), Some(302));
        let transport = message.header("transport");
        assert_eq!(transport, Some("RTP/AVP;unicast; client_port=4588-4589"));
        assert_eq!(message.session(), Some(("47", Some(30))));
        let request = Request::try_from(message).unwrap();
        assert_eq!(
            (&*request.method, &*request.uri),
            ("SETUP", "rtsp://h/a.ts/track1")
        );
        assert!(request.version_is_known);
    }

    #[test]
    fn nothing_comes_out_until_the_last_byte_is_there() {
        let mut bytes = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 4\r\n\r\n".to_vec();
        bytes.extend(b"body");
        for end in 0..bytes.len() {
            assert_eq!(split(&bytes[..end], Limits::default()), Ok(None), "{end}");
        }
        let response = Response::try_from(one(&bytes)).unwrap();
        assert_eq!(
            (response.code, &*response.message.body),
            (200, &b"body"[..])
        );
    }

    #[test]
    fn frames_and_messages_share_the_connection() {
        let bytes = [&frame_head(1, 3)[..], b"abc", SETUP].concat();
        let (unit, used) = split(&bytes, Limits::default()).unwrap().unwrap();
        let frame = Frame {
            channel: 1,
            data: 4..7,
        };
        assert_eq!((unit, used), (Unit::Frame(frame), 7));
        assert!(matches!(
            split(&bytes[used..], Limits::default()),
            Ok(Some((Unit::Message(_), _)))
        ));
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_has_come() {
        let limits = Limits::default();
        let long = vec![b'a'; limits.head_bytes + 1];
        assert!(matches!(
            split(&long, limits),
            Err(Malformed::HeadTooLong { .. })
        ));
        let body = b"A * RTSP/1.0\r\nContent-Length: 99999999999\r\n\r\n";
        assert!(matches!(
            split(body, limits),
            Err(Malformed::BodyTooLong { .. })
        ));
        let many = "x: y\r\n".repeat(65);
        let many = format!("A * RTSP/1.0\r\n{many}\r\n");
        assert!(matches!(
            split(many.as_bytes(), limits),
            Err(Malformed::TooManyHeaders { .. })
        ));
    }

    #[test]
    fn lines_that_are_no_headers_and_starts_that_are_none_are_named() {
        let limits = Limits::default();
        let header = split(b"A * RTSP/1.0\r\nno colon\r\n\r\n", limits);
        assert!(matches!(header, Err(Malformed::Header { .. })));
        for start in [
            "GET / HTTP/1.1",
            "PLAY",
            "PLAY  RTSP/1.0",
            "A b c RTSP/1.0",
            "é * RTSP/1.0",
        ] {
            let message = one(format!("{start}\r\n\r\n").as_bytes());
            assert!(Request::try_from(message).is_err(), "{start}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_unit_or_refused_or_not_whole(bytes: Vec<u8>) {
            if let Ok(Some((unit, used))) = split(&bytes, Limits::default()) {
                prop_assert!(used > 0 && used <= bytes.len());
                if let Unit::Message(message) = unit {
                    let _ = (Request::try_from(message.clone()), Response::try_from(message));
                }
            }
        }

        #[test]
        fn a_damaged_request_is_never_read_beyond_its_end(
            place in 0..SETUP.len(), byte: u8, cut in 0..SETUP.len(),
        ) {
            let mut bytes = SETUP.to_vec();
            bytes[place] = byte;
            if let Ok(Some((_, used))) = split(&bytes[cut..], Limits::default()) {
                prop_assert!(used <= bytes.len() - cut);
            }
        }
    }
}
