//! TCP as a state machine without input and output. Callers pass segments and the time, and receive
//! segments and notifications for the application.
//!
//! Both ends of every simulated connection are an [`Endpoint`]: the client's, and the server's,
//! which runs on the host or, after a handoff, on the NIC. Payload is counted, not carried.

mod endpoint;
mod receiver;
mod round_trip;
mod segment;
mod sender;

pub use endpoint::{Endpoint, Reaction, State};
pub use round_trip::RoundTrip;
pub use segment::{Flags, Segment, Sequence};

use serde::{Deserialize, Deserializer};

use crate::time::Span;

/// The parameters of an endpoint: `tcp.*`. Values and sources: `data/common.toml`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Largest payload of a segment, bytes.
    pub mss_bytes: u32,
    /// Maximum number of bytes that the application has queued and the peer has not yet
    /// acknowledged.
    pub send_buffer_bytes: u32,
    /// Maximum number of bytes that the peer has sent and the application has not yet read.
    pub receive_buffer_bytes: u32,
    /// First congestion window, segments.
    pub initial_window_segments: u32,
    /// Shortest retransmission timeout.
    #[serde(rename = "minimum_rto_ms", deserialize_with = "milliseconds")]
    pub minimum_rto: Span,
    /// Added to the estimate of the retransmission timeout.
    #[serde(rename = "rto_slop_ms", deserialize_with = "milliseconds")]
    pub rto_slop: Span,
    /// Longest retransmission timeout.
    #[serde(rename = "maximum_rto_ms", deserialize_with = "milliseconds")]
    pub maximum_rto: Span,
    /// First timeout of a SYN.
    #[serde(rename = "syn_rto_ms", deserialize_with = "milliseconds")]
    pub syn_rto: Span,
    /// Whether an acknowledgment waits for a second segment. If not, each segment is acknowledged.
    pub delayed_ack: bool,
    /// How long an acknowledgment may wait.
    #[serde(rename = "delayed_ack_ms", deserialize_with = "milliseconds")]
    pub ack_delay: Span,
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    f64::deserialize(deserializer).map(Span::from_ms)
}
