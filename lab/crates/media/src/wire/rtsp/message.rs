//! Messages and interleaved frames in a stream of bytes.
//!
//! Server and client parse the same way: [`parse_next`] reads the bytes received so far and returns
//! the first message or frame when it is complete. Limits bound the memory that a peer can use.

use std::ops::Range;

use thiserror::Error;

/// The first byte of an interleaved frame (RFC 2326, section 10.12).
const FRAME_START: u8 = b'$';

/// Bytes before the data of an interleaved frame.
const FRAME_HEADER_BYTES: usize = 4;

/// The supported version.
const VERSION: &str = "RTSP/1.0";

/// Limits of a message.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the start line and the headers.
    pub head_bytes: usize,
    pub headers: usize,
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

/// The reason why bytes are not a message. The position of the next message is then unknown, so the
/// connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("rtsp head of more than {limit} bytes")]
    HeadTooLong { limit: usize },
    #[error("more than {limit} rtsp headers")]
    TooManyHeaders { limit: usize },
    #[error("rtsp body of {bytes} bytes, expected at most {limit}")]
    BodyTooLong { bytes: u64, limit: usize },
    #[error("rtsp head is not UTF-8 text")]
    NotText,
    #[error("rtsp header line `{line}`, expected `NAME: VALUE`")]
    Header { line: String },
    #[error("rtsp content-length `{value}`, expected a number of bytes")]
    ContentLength { value: String },
    #[error("rtsp start line `{line}`, expected `METHOD URI RTSP/1.0` or `RTSP/1.0 STATUS REASON`")]
    StartLine { line: String },
}

/// A message. The conversion to [`Request`] or [`Response`] parses its start line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    /// The first line without its line end.
    pub start_line: String,
    headers: Vec<(String, String)>,
    /// The bytes after the headers.
    pub body: Vec<u8>,
}

/// An interleaved frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub channel: u8,
    /// Range of the data in the parsed bytes.
    pub data: Range<usize>,
}

/// The elements of a connection's stream of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageOrFrame {
    /// An RTP or RTCP packet.
    Frame(Frame),
    /// A request or response.
    Message(Message),
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method. Methods are case-sensitive.
    pub method: String,
    /// The request URI.
    pub uri: String,
    /// Whether the version is RTSP/1.0.
    pub version_is_known: bool,
    /// Headers and body.
    pub message: Message,
}

/// A response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub code: u16,
    /// Headers and body.
    pub message: Message,
}

/// Parses the first message or frame. Returns it and the number of bytes read, or `None` if it is
/// not complete.
///
/// # Errors
/// The bytes are not the start of a message within the limits.
pub fn parse_next(
    bytes: &[u8],
    limits: Limits,
) -> Result<Option<(MessageOrFrame, usize)>, Malformed> {
    // A receiver ignores empty lines before a message (RFC 2326, section 4.1).
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
        [FRAME_START, channel, high, low, data @ ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let start = blank + FRAME_HEADER_BYTES;
            Ok((data.len() >= length).then(|| {
                let frame = Frame {
                    channel: *channel,
                    data: start..start + length,
                };
                (MessageOrFrame::Frame(frame), start + length)
            }))
        }
        [FRAME_START, ..] => Ok(None),
        _ => Ok(parse_message(rest, limits)?
            .map(|(message, used)| (MessageOrFrame::Message(message), blank + used))),
    }
}

/// The header of an interleaved frame.
#[inline]
pub fn frame_header(channel: u8, data_bytes: u16) -> [u8; FRAME_HEADER_BYTES] {
    let [high, low] = data_bytes.to_be_bytes();
    [FRAME_START, channel, high, low]
}

fn parse_message(bytes: &[u8], limits: Limits) -> Result<Option<(Message, usize)>, Malformed> {
    let Some((head, used)) = find_head(bytes, limits.head_bytes) else {
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
            // A line that starts with a blank continues the previous line.
            (_, Some((_, value))) if line.starts_with([' ', '\t']) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            (Some((name, value)), _) if is_token(name.trim_end()) => {
                let (name, value) = (name.trim_end(), value.trim());
                message.headers.push((name.to_owned(), value.to_owned()));
            }
            _ => {
                return Err(Malformed::Header {
                    line: shortened(line),
                });
            }
        }
    }
    let length: u64 = match message.header("Content-Length") {
        Some(value) => value.parse().map_err(|_| Malformed::ContentLength {
            value: shortened(value),
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

/// The head without the empty line, and the number of bytes of head and empty line. `None` if there
/// is no empty line.
fn find_head(bytes: &[u8], limit: usize) -> Option<(&[u8], usize)> {
    let mut line_start = 0;
    for (index, _) in bytes
        .iter()
        .enumerate()
        .take(limit)
        .filter(|(_, byte)| **byte == b'\n')
    {
        let line = &bytes[line_start..index];
        if line.is_empty() || line == b"\r" {
            return Some((&bytes[..line_start], index + 1));
        }
        line_start = index + 1;
    }
    None
}

/// Whether text is a token: it has no separators, blanks or control characters.
fn is_token(text: &str) -> bool {
    let is_mark = |byte| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// The start of a text for an error message, without control characters.
fn shortened(text: &str) -> String {
    text.chars()
        .take(60)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

impl Message {
    /// The first value of a header. Names are case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let header = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }

    /// The CSeq number. A response has the number of its request.
    pub fn sequence(&self) -> Option<u32> {
        self.header("CSeq")?.parse().ok()
    }

    /// The identifier of the session, and its time-out in seconds if the header has one.
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
        let mut fields = message.start_line.split(' ');
        let (method, uri) = (fields.next(), fields.next());
        let (version, end) = (fields.next(), fields.next());
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
                line: shortened(&message.start_line),
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
                line: shortened(&message.start_line),
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

    fn parsed(bytes: &[u8]) -> Message {
        match parse_next(bytes, Limits::default()).unwrap() {
            Some((MessageOrFrame::Message(message), _)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_has_method_uri_sequence_and_folded_headers() {
        let message = parsed(SETUP);
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
    fn an_incomplete_message_is_not_returned() {
        let mut bytes = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 4\r\n\r\n".to_vec();
        bytes.extend(b"body");
        for end in 0..bytes.len() {
            assert_eq!(
                parse_next(&bytes[..end], Limits::default()),
                Ok(None),
                "{end}"
            );
        }
        let response = Response::try_from(parsed(&bytes)).unwrap();
        assert_eq!(
            (response.code, &*response.message.body),
            (200, &b"body"[..])
        );
    }

    #[test]
    fn frames_and_messages_share_the_connection() {
        let bytes = [&frame_header(1, 3)[..], b"abc", SETUP].concat();
        let (element, used) = parse_next(&bytes, Limits::default()).unwrap().unwrap();
        let frame = Frame {
            channel: 1,
            data: 4..7,
        };
        assert_eq!((element, used), (MessageOrFrame::Frame(frame), 7));
        assert!(matches!(
            parse_next(&bytes[used..], Limits::default()),
            Ok(Some((MessageOrFrame::Message(_), _)))
        ));
    }

    #[test]
    fn a_message_above_a_limit_is_an_error_before_it_is_complete() {
        let limits = Limits::default();
        let long = vec![b'a'; limits.head_bytes + 1];
        assert!(matches!(
            parse_next(&long, limits),
            Err(Malformed::HeadTooLong { .. })
        ));
        let body = b"A * RTSP/1.0\r\nContent-Length: 99999999999\r\n\r\n";
        assert!(matches!(
            parse_next(body, limits),
            Err(Malformed::BodyTooLong { .. })
        ));
        let many = "x: y\r\n".repeat(65);
        let many = format!("A * RTSP/1.0\r\n{many}\r\n");
        assert!(matches!(
            parse_next(many.as_bytes(), limits),
            Err(Malformed::TooManyHeaders { .. })
        ));
    }

    #[test]
    fn malformed_headers_and_start_lines_are_errors() {
        let limits = Limits::default();
        let header = parse_next(b"A * RTSP/1.0\r\nno colon\r\n\r\n", limits);
        assert!(matches!(header, Err(Malformed::Header { .. })));
        for start in [
            "GET / HTTP/1.1",
            "PLAY",
            "PLAY  RTSP/1.0",
            "A b c RTSP/1.0",
            "é * RTSP/1.0",
        ] {
            let message = parsed(format!("{start}\r\n\r\n").as_bytes());
            assert!(Request::try_from(message).is_err(), "{start}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes: Vec<u8>) {
            if let Ok(Some((element, used))) = parse_next(&bytes, Limits::default()) {
                prop_assert!(used > 0 && used <= bytes.len());
                if let MessageOrFrame::Message(message) = element {
                    let _ = (Request::try_from(message.clone()), Response::try_from(message));
                }
            }
        }

        #[test]
        fn a_damaged_request_is_not_read_beyond_its_end(
            position in 0..SETUP.len(), byte: u8, cut in 0..SETUP.len(),
        ) {
            let mut bytes = SETUP.to_vec();
            bytes[position] = byte;
            if let Ok(Some((_, used))) = parse_next(&bytes[cut..], Limits::default()) {
                prop_assert!(used <= bytes.len() - cut);
            }
        }
    }
}
