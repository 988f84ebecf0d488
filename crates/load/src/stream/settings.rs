//! What a bulk load is, as its caller says it.

use std::net::SocketAddr;
use std::time::Duration;

use super::greeting::SEGMENT_LIMIT_BYTES;
use crate::error::LoadError;
use crate::sources::SourceAddresses;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// This machine: the one under test.
    Send,
    /// The far end.
    Receive,
}

impl Direction {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// A bulk load to a far end.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The far end.
    pub to: SocketAddr,
    /// Connections.
    pub connections: u32,
    /// Payload bytes of a segment.
    pub segment_bytes: u32,
    /// Bits of payload a second on all connections together, divided equally; without it as fast as
    /// it goes.
    pub rate_bps: Option<f64>,
    /// Who sends.
    pub direction: Direction,
    /// Length of the measured window.
    pub duration: Duration,
    /// What passes before it.
    pub warmup: Duration,
    /// Processors the threads are bound to, in turn; one thread each.
    pub cpus: Vec<usize>,
    /// Threads, where no processors are named; one a processor without.
    pub threads: Option<u32>,
    /// Congestion control; the machine's own without.
    pub congestion: Option<String>,
    /// Where connections come from.
    pub sources: SourceAddresses,
}

impl Settings {
    /// Unlimited, with segments that fill an Ethernet frame, for ten seconds.
    #[must_use]
    pub fn new(to: SocketAddr, connections: u32) -> Self {
        Self {
            to,
            connections,
            segment_bytes: 1460,
            rate_bps: None,
            direction: Direction::Send,
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            cpus: Vec::new(),
            threads: None,
            congestion: None,
            sources: SourceAddresses::default(),
        }
    }

    /// Checks what does not hang on the machine.
    ///
    /// # Errors
    /// Names the first option that cannot be.
    pub fn check(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        if !(1..=1_000_000).contains(&self.connections) {
            return usage(format!(
                "connections: {}: expected 1 to 1000000",
                self.connections
            ));
        }
        if !(1..=SEGMENT_LIMIT_BYTES).contains(&self.segment_bytes) {
            return usage(format!(
                "segment-bytes: {}: expected 1 to {SEGMENT_LIMIT_BYTES}",
                self.segment_bytes
            ));
        }
        if self
            .rate_bps
            .is_some_and(|rate| !(rate > 0.0 && rate <= 1e15))
        {
            return usage("rate: expected more than 0 b/s".to_owned());
        }
        if self.duration.is_zero() {
            return usage("duration: expected more than 0".to_owned());
        }
        if self.threads == Some(0) {
            return usage("threads: 0: expected at least one".to_owned());
        }
        Ok(())
    }
}

/// A far end.
#[derive(Clone, Debug)]
pub struct FarEnd {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// It ends when all connections it had have closed.
    pub once: bool,
    /// Processors the threads are bound to, in turn; one thread each.
    pub cpus: Vec<usize>,
    /// Congestion control of what it sends; the machine's own without.
    pub congestion: Option<String>,
}
