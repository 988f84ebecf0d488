//! What the fuzz targets share. `make fuzz` runs each target for a minute.

use perpacket_workload::{Reject, Request, TraceError, TraceSink};

/// Counts what a reader found in a trace.
#[derive(Default)]
pub struct Count {
    /// Lines or records that are requests.
    pub requests: u64,
    /// Lines or records that are not.
    pub rejects: u64,
}

impl TraceSink for Count {
    fn request(&mut self, _request: &Request<'_>) -> Result<(), TraceError> {
        self.requests += 1;
        Ok(())
    }

    fn reject(&mut self, _line: u64, _reason: Reject) {
        self.rejects += 1;
    }
}

/// Whether bytes start like gzip or zstd data, which the reader decompresses.
#[must_use]
pub fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}
