//! Message bodies: by length, in chunks or until close (RFC 9112, sections 6 and 7.1).
//!
//! Chunks are read strictly: each line ends in CR LF. If two servers in a chain disagree about the
//! end of a request, an attacker can smuggle a second request through the first server.

use crate::status::Status;

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The body has this length in bytes. The length is 0 if there is no body.
    Length(u64),
    /// The body arrives in chunks.
    Chunked,
    /// The body ends when the connection closes. Only a response can have such a body.
    UntilClose,
}

/// The reason why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The body, or its announced length, exceeds the limit.
    TooLong,
    /// Chunk extensions and trailers exceed [`OVERHEAD_BYTES`].
    TooMuchOverhead,
    /// The byte is not allowed at this position in a chunk's size line or end.
    UnexpectedByte(u8),
}

impl BodyError {
    /// The status with which a server rejects the request.
    pub fn status(self) -> Status {
        match self {
            Self::TooLong => Status::ContentTooLarge,
            Self::TooMuchOverhead => Status::HeaderFieldsTooLarge,
            Self::UnexpectedByte(_) => Status::BadRequest,
        }
    }
}

/// Maximum number of bytes of chunk extensions and trailers in one body.
pub const OVERHEAD_BYTES: u32 = 16_384;

/// Extracts a body from input that arrives in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyReader {
    state: State,
    /// Bytes that the body may still have. A chunk's size is subtracted before its data arrives.
    budget_bytes: u64,
    overhead_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Bytes left of a body with a length.
    Length(u64),
    UntilClose,
    /// Digits of a chunk's size, and whether one was read.
    Size(u64, bool),
    /// After the digits, before CR.
    Extension(u64),
    /// Expects the LF after a chunk's size.
    SizeEnd(u64),
    /// Bytes left of a chunk.
    Data(u64),
    /// Expects CR after a chunk's data.
    DataReturn,
    /// Expects LF after a chunk's data.
    DataEnd,
    /// A trailer line, and whether it has any byte.
    Trailer(bool),
    /// Expects the LF of a trailer line.
    TrailerEnd(bool),
    Complete,
}

impl BodyReader {
    /// A reader for a body of at most `limit_bytes`.
    ///
    /// # Errors
    /// The announced length exceeds the limit.
    pub fn new(framing: Framing, limit_bytes: u64) -> Result<Self, BodyError> {
        let state = match framing {
            Framing::Length(0) => State::Complete,
            Framing::Length(length) if length > limit_bytes => return Err(BodyError::TooLong),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size(0, false),
            Framing::UntilClose => State::UntilClose,
        };
        Ok(Self {
            state,
            budget_bytes: limit_bytes,
            overhead_bytes: 0,
        })
    }

    /// Whether the whole body was read.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Whether the body ends when the connection closes.
    pub fn ends_at_close(&self) -> bool {
        self.state == State::UntilClose
    }

    /// Bytes left of a body with a length.
    pub fn left_bytes(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Complete => Some(0),
            _ => None,
        }
    }

    /// Passes the body's bytes in `input` to `data`. Returns how many bytes of `input` were
    /// consumed. Bytes after the body are not consumed.
    ///
    /// # Errors
    /// Chunks are malformed, too long, or have too much overhead.
    #[inline]
    pub fn read(&mut self, input: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, BodyError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Complete {
            let rest = &input[at..];
            let left = match self.state {
                State::Length(left) | State::Data(left) => left,
                State::UntilClose => rest.len() as u64,
                _ => {
                    self.state = self.after_framing_byte(rest[0])?;
                    at += 1;
                    continue;
                }
            };
            let count = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
            data(&rest[..count]);
            at += count;
            let left = left - count as u64;
            self.state = match self.state {
                State::Length(_) if left > 0 => State::Length(left),
                State::Length(_) => State::Complete,
                State::Data(_) if left > 0 => State::Data(left),
                State::Data(_) => State::DataReturn,
                state => state,
            };
        }
        Ok(at)
    }

    /// The state after one byte of a chunk's frame.
    fn after_framing_byte(&mut self, byte: u8) -> Result<State, BodyError> {
        let unexpected = Err(BodyError::UnexpectedByte(byte));
        Ok(match (self.state, byte) {
            (State::Size(size, _), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                if size >> 60 != 0 {
                    return Err(BodyError::TooLong);
                }
                State::Size(size << 4 | u64::from(digit), true)
            }
            (State::Size(size, true), b';' | b'\r' | b' ' | b'\t') => {
                self.budget_bytes = self
                    .budget_bytes
                    .checked_sub(size)
                    .ok_or(BodyError::TooLong)?;
                match byte {
                    b'\r' => State::SizeEnd(size),
                    _ => State::Extension(size),
                }
            }
            (State::Extension(size), b'\r') => State::SizeEnd(size),
            (State::SizeEnd(0), b'\n') => State::Trailer(false),
            (State::SizeEnd(size), b'\n') => State::Data(size),
            (State::DataReturn, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size(0, false),
            (State::Trailer(has_bytes), b'\r') => State::TrailerEnd(has_bytes),
            (State::Extension(_) | State::Trailer(_), b'\n') => return unexpected,
            (State::Extension(size), _) => {
                self.count_overhead()?;
                State::Extension(size)
            }
            (State::Trailer(_), _) => {
                self.count_overhead()?;
                State::Trailer(true)
            }
            (State::TrailerEnd(true), b'\n') => State::Trailer(false),
            (State::TrailerEnd(false), b'\n') => State::Complete,
            _ => return unexpected,
        })
    }

    fn count_overhead(&mut self) -> Result<(), BodyError> {
        self.overhead_bytes += 1;
        if self.overhead_bytes > OVERHEAD_BYTES {
            return Err(BodyError::TooMuchOverhead);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a chunked body of at most 1000 bytes, `step` bytes at a time. Returns the body, the
    /// number of bytes consumed, and whether the body is complete.
    fn read(text: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), BodyError> {
        let mut reader = BodyReader::new(Framing::Chunked, 1000).unwrap();
        let (mut body, mut used) = (Vec::new(), 0);
        for piece in text.chunks(step.max(1)) {
            let count = reader.read(piece, |data| body.extend_from_slice(data))?;
            used += count;
            if count < piece.len() {
                break;
            }
        }
        Ok((body, used, reader.is_complete()))
    }

    #[test]
    fn chunks_are_joined_and_the_next_request_stays_in_the_input() {
        let text = b"4\r\nWiki\r\n5;a=b\r\npedia\r\n0\r\nTrailer: x\r\n\r\nGET / ";
        for step in 1..text.len() {
            let expected = (b"Wikipedia".to_vec(), text.len() - 6, true);
            assert_eq!(read(text, step), Ok(expected), "{step} bytes at a time");
        }
    }

    #[test]
    fn ambiguous_framing_is_rejected() {
        for (text, byte) in [
            (&b"4\nWiki\r\n0\r\n\r\n"[..], b'\n'),
            (b"4\r\nWikiX\r\n", b'X'),
            (b"\r\n", b'\r'),
            (b"-4\r\n", b'-'),
            (b"0x4\r\nWiki\r\n", b'x'),
            (b"4;a\nWiki", b'\n'),
        ] {
            assert_eq!(
                read(text, 64),
                Err(BodyError::UnexpectedByte(byte)),
                "{text:?}"
            );
        }
        assert_eq!(read(b"FFFFFFFFFFFFFFFFF\r\n", 64), Err(BodyError::TooLong));
        assert_eq!(read(b"3e9\r\n", 64), Err(BodyError::TooLong));
        assert_eq!(
            read(&[b"1;".to_vec(), vec![b'a'; 20_000]].concat(), 64),
            Err(BodyError::TooMuchOverhead)
        );
    }

    #[test]
    fn a_body_ends_at_its_length_or_when_the_connection_closes() {
        let read = |framing| {
            let mut reader = BodyReader::new(framing, 10).unwrap();
            let mut body = Vec::new();
            let used = reader.read(b"12345", |data| body.extend_from_slice(data));
            assert_eq!(used, Ok(body.len()));
            (body, reader.is_complete())
        };
        assert_eq!(read(Framing::UntilClose), (b"12345".to_vec(), false));
        assert_eq!(read(Framing::Length(3)), (b"123".to_vec(), true));
        assert_eq!(read(Framing::Length(0)), (Vec::new(), true));
        assert_eq!(
            BodyReader::new(Framing::Length(11), 10),
            Err(BodyError::TooLong)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_no_body_outgrows_its_limit(
            bytes in prop::collection::vec(prop::sample::select(b"0123fF;\r\n x".to_vec()), 0..200)
        ) {
            if let Ok((body, used, _)) = read(&bytes, 7) {
                prop_assert!(body.len() <= 1000 && used <= bytes.len());
            }
        }
    }
}
