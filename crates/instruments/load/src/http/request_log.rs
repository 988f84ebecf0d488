//! The request log: one line per request, for analyses that need more than percentiles.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use perpacket_linux::mailbox::lock;

use crate::error::LoadError;

/// Bytes that a thread buffers before it locks the file.
const BUFFER_BYTES: usize = 65_536;
/// The first line. Times are microseconds since the start.
const COLUMNS: &str =
    "intended_us,sent_us,done_us,status,bytes,operation,object,connection,error\n";

/// The request log of one thread. All threads share the file.
#[derive(Clone, Debug)]
pub(crate) struct RequestLog {
    path: PathBuf,
    file: Arc<Mutex<BufWriter<File>>>,
    buffer: Vec<u8>,
    failed: bool,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub intended_ns: u64,
    pub sent_ns: u64,
    pub done_ns: u64,
    pub status: u16,
    pub bytes: u64,
    pub operation: &'a str,
    pub object: u32,
    pub connection: u32,
    pub error: &'a str,
}

impl RequestLog {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> Result<Self, LoadError> {
        let failed = LoadError::file(path);
        let mut file = BufWriter::new(File::create(path).map_err(&failed)?);
        file.write_all(COLUMNS.as_bytes()).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(Mutex::new(file)),
            buffer: Vec::with_capacity(BUFFER_BYTES + 256),
            failed: false,
        })
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        let us = |ns: u64| ns as f64 / 1000.0;
        // Writing to a vector cannot fail.
        let _ = writeln!(
            self.buffer,
            "{:.3},{:.3},{:.3},{},{},{},{},{},{}",
            us(entry.intended_ns),
            us(entry.sent_ns),
            us(entry.done_ns),
            entry.status,
            entry.bytes,
            entry.operation,
            entry.object,
            entry.connection,
            entry.error
        );
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_buffer();
        }
    }

    fn write_buffer(&mut self) {
        let mut file = lock(&self.file);
        self.failed |= file.write_all(&self.buffer).is_err();
        self.buffer.clear();
    }

    /// Writes the rest of the buffer.
    ///
    /// # Errors
    /// This or an earlier write failed.
    pub(crate) fn finish(&mut self) -> Result<(), LoadError> {
        self.write_buffer();
        let mut file = lock(&self.file);
        let flushed = file.flush();
        let result = match self.failed {
            true => Err(std::io::ErrorKind::WriteZero.into()),
            false => flushed,
        };
        result.map_err(LoadError::file(&self.path))
    }
}
