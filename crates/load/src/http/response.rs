//! Responses, read as they come: a head looked at once, and a body that is counted and dropped.
//!
//! A client under load reads the same few fields of the same few heads millions of times, so one
//! pass over the lines looks at the first letter and no name is copied. Whatever that pass does not
//! understand is given to `httparse`, which says what is wrong with it.

use memchr::memchr;

/// Longest head: servers send a few hundred bytes.
pub(crate) const HEAD_LIMIT_BYTES: usize = 65_536;
/// Bytes of an HTTP date, as in `Last-Modified`.
pub(crate) const DATE_BYTES: usize = 29;

/// What a response's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the head, its empty line included.
    pub bytes: usize,
    /// Status code.
    pub status: u16,
    /// `Content-Length`.
    pub length_bytes: Option<u64>,
    /// The body comes in chunks.
    pub chunked: bool,
    /// The server will keep the connection.
    pub keep_alive: bool,
    /// `Last-Modified`.
    pub last_modified: Option<[u8; DATE_BYTES]>,
    /// Where the value of `Set-Cookie` stands in the head.
    pub cookie: Option<(usize, usize)>,
    /// Where the value of a redirect's `Location` stands in the head.
    pub location: Option<(usize, usize)>,
}

/// Whether a status sends the client to another location.
pub(crate) fn is_redirect(status: u16) -> bool {
    matches!(status, 300..=303 | 305..=399)
}

impl Head {
    /// Whether a body follows, given the request's method (RFC 9112, section 6.3).
    fn has_body(&self, head_only: bool) -> bool {
        !head_only && !matches!(self.status, 100..=199 | 204 | 304)
    }
}

/// Reads a head; nothing while it is incomplete.
///
/// # Errors
/// Says why it is none.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let Some(first) = memchr(b'\n', bytes) else {
        let known = bytes.len().min(5);
        return match bytes[..known] == b"HTTP/"[..known] && bytes.len() < HEAD_LIMIT_BYTES {
            true => Ok(None),
            false => Err(complaint(bytes)),
        };
    };
    let (Some(status), minor) = (status_of(&bytes[..first]), bytes.get(7)) else {
        return Err(complaint(bytes));
    };
    let mut head = Head {
        bytes: 0,
        status,
        length_bytes: None,
        chunked: false,
        keep_alive: minor != Some(&b'0'),
        last_modified: None,
        cookie: None,
        location: None,
    };
    let mut from = first + 1;
    while let Some(length) = memchr(b'\n', &bytes[from..]) {
        let line = &bytes[from..from + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            head.bytes = from + length + 1;
            return Ok(Some(head));
        }
        field(line, from, &mut head).ok_or_else(|| complaint(bytes))?;
        from += length + 1;
    }
    if bytes.len() >= HEAD_LIMIT_BYTES {
        return Err(format!("the head is longer than {HEAD_LIMIT_BYTES} bytes"));
    }
    Ok(None)
}

/// The code of a status line `HTTP/1.x NNN ...`.
#[inline]
fn status_of(line: &[u8]) -> Option<u16> {
    let [
        b'H',
        b'T',
        b'T',
        b'P',
        b'/',
        b'1',
        b'.',
        b'0' | b'1',
        b' ',
        a,
        b,
        c,
        rest @ ..,
    ] = line
    else {
        return None;
    };
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    let code = digit(a)? * 100 + digit(b)? * 10 + digit(c)?;
    (code >= 100 && matches!(rest.first(), None | Some(b' ' | b'\r'))).then_some(code)
}

/// Takes what matters from a field line that begins at `at`; nothing when it is no field.
#[inline]
fn field(line: &[u8], at: usize, head: &mut Head) -> Option<()> {
    let is = |name: &[u8]| {
        line.len() > name.len()
            && line[name.len()] == b':'
            && line[..name.len()].eq_ignore_ascii_case(name)
    };
    match line[0] | 0x20 {
        b'c' if is(b"content-length") => {
            let text = line[15..].trim_ascii();
            let length = text.iter().try_fold(0u64, |length, byte| {
                let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
                length.checked_mul(10)?.checked_add(digit)
            });
            if text.is_empty() || head.length_bytes.is_some_and(|known| Some(known) != length) {
                return None;
            }
            head.length_bytes = Some(length?);
        }
        b'c' if is(b"connection") => {
            for token in line[11..].split(|byte| *byte == b',') {
                let token = token.trim_ascii();
                if token.eq_ignore_ascii_case(b"close") {
                    head.keep_alive = false;
                } else if token.eq_ignore_ascii_case(b"keep-alive") {
                    head.keep_alive = true;
                }
            }
        }
        b't' if is(b"transfer-encoding") => {
            let last = line[18..]
                .rsplit(|byte| *byte == b',')
                .next()
                .unwrap_or_default();
            head.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        }
        b'l' if is(b"last-modified") => {
            head.last_modified = line[14..].trim_ascii().try_into().ok();
        }
        b'l' if is_redirect(head.status) && is(b"location") => {
            let value = line[9..].trim_ascii();
            let from = at + 9 + line[9..].len() - line[9..].trim_ascii_start().len();
            head.location = Some((from, from + value.len()));
        }
        b's' if is(b"set-cookie") => {
            let value = line[11..].trim_ascii_start();
            let from = at + line.len() - value.len();
            let length = memchr(b';', value).unwrap_or(value.len());
            head.cookie = Some((from, from + length));
        }
        // The first letter is none of the known names': only its form matters.
        _ => {
            memchr(b':', line).filter(|colon| *colon > 0)?;
        }
    }
    Some(())
}

/// What is wrong with a head, in the words of a full parser where it has some.
fn complaint(bytes: &[u8]) -> String {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    let reason = match httparse::Response::new(&mut fields).parse(bytes) {
        Err(error) => error.to_string(),
        Ok(_) => "neither HTTP/1.0 nor HTTP/1.1 with consistent fields".to_owned(),
    };
    format!("no HTTP response: {reason}: {start:?}")
}

/// How far into its body a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes are still to come.
    Length(u64),
    /// All that comes until the server closes.
    UntilClose,
    /// A chunk's size line, with the size read so far; `true` after its digits.
    ChunkSize(u64, bool),
    /// So many bytes of a chunk are still to come.
    ChunkData(u64),
    /// The line end after a chunk's data.
    ChunkEnd,
    /// Trailer lines; `true` while the current line is empty so far.
    Trailer(bool),
}

impl Body {
    /// The body that a head announces.
    pub(crate) fn after(head: &Head, head_only: bool) -> Self {
        match head.length_bytes {
            _ if !head.has_body(head_only) => Self::Length(0),
            _ if head.chunked => Self::ChunkSize(0, false),
            Some(length) => Self::Length(length),
            None => Self::UntilClose,
        }
    }

    /// Whether it is complete.
    #[inline]
    pub(crate) fn is_complete(self) -> bool {
        self == Self::Length(0)
    }

    /// Takes bytes up to the body's end and hands its data on; returns how many were taken.
    ///
    /// # Errors
    /// A chunk's frame is broken.
    #[inline]
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<usize, String> {
        match self {
            Self::Length(left) => {
                let taken = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                data(&bytes[..taken]);
                Ok(taken)
            }
            Self::UntilClose => {
                data(bytes);
                Ok(bytes.len())
            }
            _ => self.take_chunked(bytes, data),
        }
    }

    /// Takes chunks (RFC 9112, section 7.1).
    fn take_chunked(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, String> {
        let mut at = 0;
        while at < bytes.len() && !self.is_complete() {
            let byte = bytes[at];
            *self = match *self {
                Self::ChunkData(left) => {
                    let rest = &bytes[at..];
                    let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    data(&rest[..taken]);
                    at += taken;
                    match left - taken as u64 {
                        0 => Self::ChunkEnd,
                        left => Self::ChunkData(left),
                    }
                }
                state => {
                    at += 1;
                    state.after_framing(byte).ok_or_else(|| {
                        format!("byte {byte:#04x} where a chunk's size or end was expected")
                    })?
                }
            };
        }
        Ok(at)
    }

    /// The state after one byte of framing.
    fn after_framing(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::ChunkSize(0, true), b'\n') => Self::Trailer(true),
            (Self::ChunkSize(size, true), b'\n') => Self::ChunkData(size),
            (Self::ChunkSize(size, true), _) => Self::ChunkSize(size, true),
            (Self::ChunkSize(size, false), b'\r' | b';' | b' ') => Self::ChunkSize(size, true),
            (Self::ChunkSize(size, false), _) => {
                let digit = (byte as char).to_digit(16)?;
                if size >> 60 != 0 {
                    return None;
                }
                Self::ChunkSize(size << 4 | u64::from(digit), false)
            }
            (Self::ChunkEnd, b'\r') => Self::ChunkEnd,
            (Self::ChunkEnd, b'\n') => Self::ChunkSize(0, false),
            (Self::Trailer(true), b'\n') => Self::Length(0),
            (Self::Trailer(empty), b'\r') => Self::Trailer(empty),
            (Self::Trailer(_), b'\n') => Self::Trailer(true),
            (Self::Trailer(_), _) => Self::Trailer(false),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TYPICAL: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sat, 21 Nov 2026 00:00:00 \
GMT\r\nContent-Type: text/plain\r\nContent-Length: 612\r\nLast-Modified: Sat, 21 Nov 2026 \
00:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"1\"\r\n\r\n";

    #[test]
    fn a_head_is_read_once_it_is_complete() {
        for cut in 0..TYPICAL.len() {
            assert_eq!(parse_head(&TYPICAL[..cut]), Ok(None), "{cut}");
        }
        let head = parse_head(TYPICAL).unwrap().unwrap();
        assert_eq!(head.bytes, TYPICAL.len());
        assert_eq!(
            (head.status, head.length_bytes, head.keep_alive),
            (200, Some(612), true)
        );
        assert_eq!(
            head.last_modified.as_ref().unwrap(),
            b"Sat, 21 Nov 2026 00:00:00 GMT"
        );
    }

    #[test]
    fn an_old_server_closes_unless_it_says_otherwise() {
        let keeps = |text: &str| parse_head(text.as_bytes()).unwrap().unwrap().keep_alive;
        assert!(!keeps("HTTP/1.0 200 OK\r\n\r\n"));
        assert!(keeps("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\n\r\n"));
        assert!(keeps("HTTP/1.1 200 OK\n\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: x, close\r\n\r\n"));
    }

    #[test]
    fn what_is_no_response_is_named() {
        for text in [
            "SSH-2.0-OpenSSH",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ] {
            let complaint = parse_head(text.as_bytes()).unwrap_err();
            assert!(
                complaint.starts_with("no HTTP response"),
                "{text} {complaint}"
            );
        }
    }

    #[test]
    fn not_modified_has_no_body_whatever_it_announces() {
        let head = parse_head(b"HTTP/1.1 304 NM\r\nContent-Length: 9\r\n\r\n")
            .unwrap()
            .unwrap();
        assert!(Body::after(&head, false).is_complete());
    }

    proptest! {
        #[test]
        fn the_parser_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_head(&bytes);
            let _ = parse_head(&[b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat());
            let mut body = Body::ChunkSize(0, false);
            let _ = body.take(&bytes, |_| ());
        }

        #[test]
        fn chunks_give_their_data_however_they_are_cut(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5),
            cuts in prop::collection::vec(1usize..20, 1..50),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend(format!("{:x};name=value\r\n", chunk.len()).bytes());
                wire.extend(chunk);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\nTrailer: yes\r\n\r\nrest");
            let (mut body, mut found, mut at) = (Body::ChunkSize(0, false), Vec::new(), 0);
            for cut in cuts.into_iter().cycle() {
                if body.is_complete() {
                    break;
                }
                let end = (at + cut).min(wire.len());
                at += body.take(&wire[at..end], |data| found.extend_from_slice(data)).unwrap();
            }
            prop_assert_eq!(found, chunks.concat());
            prop_assert_eq!(&wire[at..], b"rest");
        }
    }
}
