//! RTSP 1.0 (RFC 2326): messages, interleaved frames, and the headers Range and Transport.

mod message;
mod range;
mod status;
mod transport;

pub use message::{
    Frame, Limits, Malformed, Message, MessageOrFrame, Request, Response, frame_header, parse_next,
};
pub use range::{Range, RangeError};
pub use status::Status;
pub use transport::{LowerTransport, Transport, TransportError};
