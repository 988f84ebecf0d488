//! One line a request, on demand: what a percentile cannot tell.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::LoadError;

/// Bytes a thread gathers before it takes the file's lock.
const GATHERED_BYTES: usize = 65_536;
/// The file's first line. Times are microseconds from the run's start.
const COLUMNS: &str =
    "intended_us,sent_us,done_us,status,bytes,operation,object,connection,error\n";

/// A log that all threads write to.
#[derive(Clone, Debug)]
pub(crate) struct RequestLog {
    path: PathBuf,
    file: Arc<Mutex<BufWriter<File>>>,
    gathered: Vec<u8>,
    failed: bool,
}

/// What is told of one request.
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
        let failed = |source| LoadError::File {
            path: path.to_owned(),
            source,
        };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        file.write_all(COLUMNS.as_bytes()).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(Mutex::new(file)),
            gathered: Vec::with_capacity(GATHERED_BYTES + 256),
            failed: false,
        })
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        let us = |ns: u64| ns as f64 / 1000.0;
        // Writing to a vector cannot fail.
        let _ = writeln!(
            self.gathered,
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
        if self.gathered.len() >= GATHERED_BYTES {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.failed |= file.write_all(&self.gathered).is_err();
        self.gathered.clear();
    }

    /// Writes out what is left.
    ///
    /// # Errors
    /// Something could not be written, now or before.
    pub(crate) fn finish(&mut self) -> Result<(), LoadError> {
        self.hand_on();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = file.flush();
        let result = match self.failed {
            true => Err(std::io::ErrorKind::WriteZero.into()),
            false => flushed,
        };
        result.map_err(|source| LoadError::File {
            path: self.path.clone(),
            source,
        })
    }
}
