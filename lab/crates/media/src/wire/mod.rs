//! The formats that server and clients share: RTP, RTCP, RTSP and SDP as bytes, stored media that
//! need no codec, and synthesized streams.
//!
//! Nothing here opens a socket or a file or reads a clock. The callers pass in bytes and times, so
//! tests need no network. `docs/media-wire.md` compares this code with published crates.

mod header;
pub mod layout;
mod reception;
pub mod rtcp;
pub mod rtsp;
pub mod sdp;
pub mod synthesis;
pub mod transport_stream;
mod wav;

pub use header::{HEADER_BYTES, Header, HeaderError};
pub use layout::{LayoutError, PacketLayout};
pub use reception::{Arrival, Reception};
