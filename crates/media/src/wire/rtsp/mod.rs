//! RTSP 1.0 (RFC 2326) as bytes: messages, interleaved frames, and the two headers with a grammar
//! of their own.

mod message;
mod range;
mod status;
mod transport;

pub use message::{Frame, Limits, Malformed, Message, Request, Response, Unit, frame_head, split};
pub use range::{Range, RangeError};
pub use status::Status;
pub use transport::{Lower, Transport, TransportError};
