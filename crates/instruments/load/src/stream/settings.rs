//! Settings of a bulk load.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::greeting::SEGMENT_LIMIT_BYTES;
use crate::error::LoadError;
use crate::sources::SourceAddresses;

/// The end that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// This machine, which is the machine under test.
    Send,
    /// The far end.
    Receive,
}

impl Direction {
    /// Name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// Settings of a bulk load to a far end.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of the far end.
    pub to: SocketAddr,
    /// Number of connections.
    pub connections: u32,
    /// Payload bytes of a segment.
    pub segment_bytes: u32,
    /// Bits of payload per second on all connections together, in equal shares; `None` is unlimited.
    pub rate_bps: Option<f64>,
    /// The end that sends.
    pub direction: Direction,
    /// Length of the measured window.
    pub duration: Duration,
    /// Time before the window.
    pub warmup: Duration,
    /// CPUs, with one thread each.
    pub cpus: Vec<usize>,
    /// Number of threads if `cpus` is empty. `None` is one thread per CPU.
    pub threads: Option<u32>,
    /// Congestion control; `None` is that of the machine.
    pub congestion: Option<String>,
    /// Source addresses of the connections.
    pub sources: SourceAddresses,
}

impl Settings {
    /// An unlimited load for ten seconds, with segments that fill an Ethernet frame.
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

    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// The error names the first invalid option.
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

/// Settings of a far end.
#[derive(Clone, Debug)]
pub struct FarEnd {
    /// Address of the listener; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Whether to end when all connections have closed.
    pub once: bool,
    /// CPUs, with one thread each.
    pub cpus: Vec<usize>,
    /// Congestion control of sent data; `None` is that of the machine.
    pub congestion: Option<String>,
}
