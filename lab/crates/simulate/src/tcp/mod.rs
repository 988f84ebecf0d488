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

use crate::time::Span;

/// The parameters of an endpoint. Values and sources: `data/common.toml`.
#[derive(Clone, Copy, Debug)]
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
    pub minimum_rto: Span,
    /// Added to the estimate of the retransmission timeout.
    pub rto_slop: Span,
    /// Longest retransmission timeout.
    pub maximum_rto: Span,
    /// First timeout of a SYN.
    pub syn_rto: Span,
    /// How long an acknowledgment may wait for a second segment; `None` acknowledges each segment.
    pub delayed_ack: Option<Span>,
}
