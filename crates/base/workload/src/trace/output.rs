//! The destination of a trace: a file, compressed or not.

use std::io::{self, BufWriter, Write};

use flate2::write::GzEncoder;

use crate::trace::error::TraceError;
use crate::trace::format::Compression;

/// Compresses and writes a trace. Equal input results in equal bytes, because the compression
/// headers contain no time and no name.
pub(crate) enum Output<W: Write> {
    Plain(BufWriter<W>),
    Gzip(BufWriter<GzEncoder<W>>),
    Zstd(BufWriter<zstd::Encoder<'static, W>>),
}

impl<W: Write> Output<W> {
    pub(crate) fn new(destination: W, compression: Compression) -> Result<Self, TraceError> {
        Ok(match compression {
            Compression::None => Self::Plain(BufWriter::new(destination)),
            Compression::Gzip => Self::Gzip(BufWriter::new(GzEncoder::new(
                destination,
                flate2::Compression::default(),
            ))),
            Compression::Zstd => Self::Zstd(BufWriter::new(
                zstd::Encoder::new(destination, zstd::DEFAULT_COMPRESSION_LEVEL)
                    .map_err(TraceError::Write)?,
            )),
        })
    }

    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        match self {
            Self::Plain(writer) => writer.write_all(bytes),
            Self::Gzip(writer) => writer.write_all(bytes),
            Self::Zstd(writer) => writer.write_all(bytes),
        }
        .map_err(TraceError::Write)
    }

    /// Ends the compressed stream and flushes. Without this call the file is incomplete.
    pub(crate) fn finish(self) -> Result<(), TraceError> {
        let flushed = |error: io::IntoInnerError<_>| error.into_error();
        let finished = match self {
            Self::Plain(mut writer) => writer.flush(),
            Self::Gzip(writer) => writer
                .into_inner()
                .map_err(flushed)
                .and_then(GzEncoder::finish)
                .and_then(|mut destination| destination.flush()),
            Self::Zstd(writer) => writer
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(zstd::Encoder::finish)
                .and_then(|mut destination| destination.flush()),
        };
        finished.map_err(TraceError::Write)
    }
}
