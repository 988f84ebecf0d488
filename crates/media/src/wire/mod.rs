//! What both ends of a media stream must agree on: RTP, RTCP, RTSP and SDP as bytes, the media
//! that need no codec, and streams made from a seed whose every byte a receiver can know.
//!
//! Nothing here opens a socket or file or looks at a clock: the server and the load generator pass
//! in bytes and times, so that both are tested against the same formats without a network.

mod header;
pub mod media;
mod reception;
pub mod rtcp;
pub mod rtsp;
pub mod sdp;
pub mod synthesis;
pub mod transport_stream;
mod wav;

pub use header::{HEADER_BYTES, Header, HeaderError};
pub use media::{Media, MediaError};
pub use reception::{Arrival, Reception};
