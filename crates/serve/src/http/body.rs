//! Request bodies: by length or in chunks (RFC 9112, sections 6 and 7.1).
//!
//! Framing is strict, each line ends in CR LF: what one server of a chain reads leniently and
//! another does not is how requests are smuggled.

use super::status::Status;

/// How a request's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// Most bytes of chunk extensions and trailers of one body: they carry nothing for this server.
const OVERHEAD_BYTES: u32 = 16_384;

/// Takes a body out of the bytes that come in.
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: State,
    limit_bytes: u64,
    overhead_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of a body with a length.
    Length(u64),
    /// Digits of a chunk's size; whether there was one yet.
    Size(u64, bool),
    /// What follows a chunk's size, kept.
    Extension(u64),
    SizeEnd(u64),
    Data(u64),
    DataReturn,
    DataEnd,
    /// A trailer; whether its line has any byte yet.
    Trailer(bool),
    TrailerEnd(bool),
    Done,
}

impl BodyReader {
    /// A reader for a body of at most `limit_bytes`.
    ///
    /// # Errors
    /// 413 if the body says that it is longer.
    pub fn new(framing: Framing, limit_bytes: u64) -> Result<Self, Status> {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) if length > limit_bytes => {
                return Err(Status::CONTENT_TOO_LARGE);
            }
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size(0, false),
        };
        Ok(Self {
            state,
            limit_bytes,
            overhead_bytes: 0,
        })
    }

    /// Whether all of the body was read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Appends to `body` what belongs to it of `input`; returns how many bytes of `input` are
    /// done with. What follows the body is not touched.
    ///
    /// # Errors
    /// 400 for malformed chunks, 413 for a body that grew too long, 431 for endless trailers.
    pub fn read(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, Status> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            match self.state {
                State::Length(left) => {
                    let taken = take(&input[at..], left, body);
                    at += taken;
                    self.state = match left - taken as u64 {
                        0 => State::Done,
                        left => State::Length(left),
                    };
                }
                State::Data(left) => {
                    let taken = take(&input[at..], left, body);
                    at += taken;
                    self.state = match left - taken as u64 {
                        0 => State::DataReturn,
                        left => State::Data(left),
                    };
                }
                _ => {
                    self.state = self.next_of_framing(input[at], body.len() as u64)?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// The state after one byte of what stands around the chunks.
    fn next_of_framing(&mut self, byte: u8, have_bytes: u64) -> Result<State, Status> {
        let malformed = Err(Status::BAD_REQUEST);
        Ok(match (self.state, byte) {
            (State::Size(size, _), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                if size >> 60 != 0 {
                    return Err(Status::CONTENT_TOO_LARGE);
                }
                State::Size(size << 4 | u64::from(digit), true)
            }
            (State::Size(size, true), b';' | b'\r' | b' ' | b'\t') => {
                if have_bytes.saturating_add(size) > self.limit_bytes {
                    return Err(Status::CONTENT_TOO_LARGE);
                }
                match byte {
                    b'\r' => State::SizeEnd(size),
                    _ => State::Extension(size),
                }
            }
            (State::Extension(size), b'\r') => State::SizeEnd(size),
            (State::Extension(_), b'\n') => return malformed,
            (State::Extension(size), _) => {
                self.count_overhead()?;
                State::Extension(size)
            }
            (State::SizeEnd(0), b'\n') => State::Trailer(false),
            (State::SizeEnd(size), b'\n') => State::Data(size),
            (State::DataReturn, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size(0, false),
            (State::Trailer(any), b'\r') => State::TrailerEnd(any),
            (State::Trailer(_), b'\n') => return malformed,
            (State::Trailer(_), _) => {
                self.count_overhead()?;
                State::Trailer(true)
            }
            (State::TrailerEnd(true), b'\n') => State::Trailer(false),
            (State::TrailerEnd(false), b'\n') => State::Done,
            _ => return malformed,
        })
    }

    fn count_overhead(&mut self) -> Result<(), Status> {
        self.overhead_bytes += 1;
        if self.overhead_bytes > OVERHEAD_BYTES {
            return Err(Status::HEADER_TOO_LARGE);
        }
        Ok(())
    }
}

/// Moves up to `left` bytes of `input` to `body`; returns how many.
fn take(input: &[u8], left: u64, body: &mut Vec<u8>) -> usize {
    let taken = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
    body.extend_from_slice(&input[..taken]);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8], pieces: usize) -> Result<(Vec<u8>, usize, bool), Status> {
        let mut reader = BodyReader::new(Framing::Chunked, 1000).unwrap();
        let (mut body, mut used) = (Vec::new(), 0);
        for piece in text.chunks(pieces.max(1)) {
            let taken = reader.read(piece, &mut body)?;
            used += taken;
            if taken < piece.len() {
                break;
            }
        }
        Ok((body, used, reader.is_done()))
    }

    #[test]
    fn chunks_are_joined_however_they_arrive_and_the_next_request_is_left() {
        let text = b"4\r\nWiki\r\n5;a=b\r\npedia\r\n0\r\nTrailer: x\r\n\r\nGET / ";
        for pieces in 1..text.len() {
            let expected = (b"Wikipedia".to_vec(), text.len() - 6, true);
            assert_eq!(read(text, pieces), Ok(expected), "pieces of {pieces}");
        }
    }

    #[test]
    fn framing_that_another_server_may_read_otherwise_is_refused() {
        for text in [
            &b"4\nWiki\r\n0\r\n\r\n"[..],
            b"4\r\nWikiX\r\n",
            b"\r\n",
            b"-4\r\n",
            b"0x4\r\nWiki\r\n",
            b"4;a\nWiki",
        ] {
            assert_eq!(read(text, 64), Err(Status::BAD_REQUEST), "{text:?}");
        }
        assert_eq!(
            read(b"FFFFFFFFFFFFFFFFF\r\n", 64),
            Err(Status::CONTENT_TOO_LARGE)
        );
        assert_eq!(read(b"3e9\r\n", 64), Err(Status::CONTENT_TOO_LARGE));
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
