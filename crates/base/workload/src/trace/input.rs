//! The decompressed bytes of a trace, in a window that slides over the file.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use crate::trace::error::TraceError;
use crate::trace::format::Compression;

/// Size of a read in bytes. It is large enough to hide the cost of a call, and small enough for the
/// L2 cache.
const BLOCK_BYTES: usize = 256 * 1024;

/// A window over the decompressed bytes of a source.
pub(crate) struct Input<R: Read> {
    source: Source<R>,
    window: Vec<u8>,
    start: usize,
    end: usize,
    /// Decompressed bytes before `start`.
    offset: u64,
}

impl<R: Read> Input<R> {
    /// Detects the compression from the first bytes.
    pub(crate) fn new(mut source: R) -> Result<Self, TraceError> {
        let mut magic = [0; 4];
        let mut known = 0;
        while known < magic.len() {
            match source.read(&mut magic[known..]) {
                Ok(0) => break,
                Ok(count) => known += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Read { offset: 0, source }),
            }
        }
        let magic = &magic[..known];
        let bytes = Counted {
            inner: BufReader::with_capacity(BLOCK_BYTES, Cursor::new(magic.to_vec()).chain(source)),
            consumed: 0,
        };
        let source = match Compression::of_magic(magic) {
            Compression::None => Source::Plain(bytes),
            Compression::Gzip => Source::Gzip(Box::new(MultiGzDecoder::new(bytes))),
            Compression::Zstd => Source::Zstd(
                zstd::Decoder::with_buffer(bytes)
                    .map_err(|source| TraceError::Read { offset: 0, source })?,
            ),
        };
        Ok(Self {
            source,
            window: vec![0; BLOCK_BYTES],
            start: 0,
            end: 0,
            offset: 0,
        })
    }

    /// The bytes of the window.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.window[self.start..self.end]
    }

    /// Decompressed bytes before the window.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Drops bytes from the front of the window.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads more bytes into the window. Returns false at the end of the file, or if the window is
    /// full.
    pub(crate) fn extend(&mut self) -> Result<bool, TraceError> {
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.source.read(&mut self.window[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(error)),
            }
        }
    }

    /// Distinguishes damaged compressed data from a failure to read.
    fn failure(&self, source: io::Error) -> TraceError {
        // Errors of the operating system have a code. Errors of the decompressor have none.
        match &self.source {
            Source::Gzip(decoder) if source.raw_os_error().is_none() => TraceError::Compression {
                compression: Compression::Gzip,
                offset: decoder.get_ref().consumed,
                source,
            },
            Source::Zstd(decoder) if source.raw_os_error().is_none() => TraceError::Compression {
                compression: Compression::Zstd,
                offset: decoder.get_ref().consumed,
                source,
            },
            _ => TraceError::Read {
                offset: self.offset + self.end as u64,
                source,
            },
        }
    }
}

/// The whole source: the bytes that were read for the detection, followed by the rest.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

enum Source<R: Read> {
    Plain(Counted<Whole<R>>),
    Gzip(Box<MultiGzDecoder<Counted<Whole<R>>>>),
    Zstd(zstd::Decoder<'static, Counted<Whole<R>>>),
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// Counts the bytes that a decompressor reads, to locate damage.
struct Counted<R> {
    inner: BufReader<R>,
    consumed: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.consumed += count as u64;
        Ok(count)
    }
}

impl<R: Read> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.consumed += count as u64;
        self.inner.consume(count);
    }
}
