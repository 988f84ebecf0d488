//! The number of packets that a server sends for a response.

/// Largest segment on Ethernet without options: 1500 B less the headers of IPv4 and TCP.
pub const SEGMENT_BYTES: u64 = 1460;

/// Number of packets that a server sends for a response with this body. The header, which is
/// written before the file is sent, is one packet. The body is in full segments.
///
/// With this count, the fifteen-second sessions of day 6 of the World Cup logs have the published
/// shares of packets: 8.7 % for the shorter half, and 62.7 % for the longest tenth. Acknowledgments
/// would double the packets of every session, which would change no share.
#[inline]
pub fn response_packets(body_bytes: u64) -> u64 {
    1 + body_bytes.div_ceil(SEGMENT_BYTES)
}
