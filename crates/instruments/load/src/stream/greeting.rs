//! The first bytes of each connection: whether the far end sends on it, and how.

/// Identifies the protocol and its version.
const MAGIC: [u8; 4] = *b"PPS1";
pub(crate) const GREETING_BYTES: usize = 24;
/// Longest segment: 64 KiB, which the kernel divides into segments of the path's size.
pub(crate) const SEGMENT_LIMIT_BYTES: u32 = 65_536;

/// The direction of a connection, and its segments and rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Greeting {
    pub far_end_sends: bool,
    pub segment_bytes: u32,
    /// Bits per second; 0 is unlimited.
    pub rate_bps: f64,
}

impl Greeting {
    /// Encodes the greeting, big-endian.
    pub(crate) fn encode(self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(self.far_end_sends);
        bytes[8..12].copy_from_slice(&self.segment_bytes.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rate_bps.to_bits().to_be_bytes());
        bytes
    }

    /// Decodes a greeting; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8; GREETING_BYTES]) -> Option<Self> {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[8..12]);
        let mut long = [0; 8];
        long.copy_from_slice(&bytes[16..]);
        let greeting = Self {
            far_end_sends: bytes[4] == 1,
            segment_bytes: u32::from_be_bytes(word),
            rate_bps: f64::from_bits(u64::from_be_bytes(long)),
        };
        let valid = bytes[..4] == MAGIC
            && bytes[4] <= 1
            && (1..=SEGMENT_LIMIT_BYTES).contains(&greeting.segment_bytes)
            && (0.0..=1e15).contains(&greeting.rate_bps);
        valid.then_some(greeting)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_encoded_greeting_decodes_to_itself(far_end_sends: bool, segment_bytes in 1..SEGMENT_LIMIT_BYTES, rate_bps in 0.0..1e12f64) {
            let greeting = Greeting { far_end_sends, segment_bytes, rate_bps };
            prop_assert_eq!(Greeting::decode(&greeting.encode()), Some(greeting));
        }

        #[test]
        fn other_bytes_are_not_a_greeting(bytes: [u8; GREETING_BYTES]) {
            prop_assume!(bytes[..4] != MAGIC);
            prop_assert_eq!(Greeting::decode(&bytes), None);
        }
    }
}
