//! The parts of an MPEG transport stream (ISO/IEC 13818-1) that pacing needs: packet boundaries and
//! program clock references.

/// Bytes of a packet (section 2.4.3.2).
pub const PACKET_BYTES: usize = 188;

/// Packets in one RTP packet: as many as fit an Ethernet frame (RFC 2250, section 2).
pub const PACKETS_PER_RTP: usize = 7;

/// The first byte of every packet.
pub const SYNC: u8 = 0x47;

/// Ticks of the program clock in a second.
pub const CLOCK_HZ: u64 = 27_000_000;

/// Clock references wrap here: a base of 33 bits at 90 kHz, times 300.
pub const CLOCK_WRAP: u64 = (1 << 33) * 300;

/// A program clock reference found in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReference {
    /// Offset of its packet in the searched bytes.
    pub offset: usize,
    /// PID of its packet. Each program has a clock of its own.
    pub pid: u16,
    /// The clock in 27 MHz ticks, below [`CLOCK_WRAP`].
    pub ticks: u64,
}

/// Whether each of the first packets in `bytes` starts with a sync byte.
pub fn is_transport_stream(bytes: &[u8]) -> bool {
    bytes.len() >= PACKET_BYTES
        && bytes
            .iter()
            .step_by(PACKET_BYTES)
            .take(5)
            .all(|&byte| byte == SYNC)
}

/// The clock references of whole packets. `bytes` must start with a packet. Packets without a sync
/// byte are skipped.
pub fn clock_references(bytes: &[u8]) -> impl DoubleEndedIterator<Item = ClockReference> + '_ {
    bytes
        .chunks_exact(PACKET_BYTES)
        .enumerate()
        .filter_map(|(index, packet)| {
            let has_adaptation = packet[3] & 0x20 != 0;
            // Section 2.4.3.4: the field is long enough for flags and clock, and PCR_flag is set.
            if packet[0] != SYNC || !has_adaptation || packet[4] < 7 || packet[5] & 0x10 == 0 {
                return None;
            }
            let field: &[u8; 6] = packet[6..].first_chunk()?;
            let high = u64::from(u32::from_be_bytes([field[0], field[1], field[2], field[3]]));
            let base = high << 1 | u64::from(field[4] >> 7);
            let extension = u64::from(field[4] & 1) << 8 | u64::from(field[5]);
            Some(ClockReference {
                offset: index * PACKET_BYTES,
                pid: u16::from_be_bytes([packet[1] & 0x1f, packet[2]]),
                ticks: base * 300 + extension,
            })
        })
}

/// Encodes a clock reference in the six bytes of an adaptation field.
pub(crate) fn clock_field(ticks: u64) -> [u8; 6] {
    let ticks = ticks % CLOCK_WRAP;
    let (base, extension) = (ticks / 300, ticks % 300);
    // Six reserved bits between base and extension are ones.
    let all = base << 15 | 0x3f << 9 | extension;
    let [_, _, field @ ..] = all.to_be_bytes();
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_clock_reference_is_read_back(ticks in 0..CLOCK_WRAP, pid in 0u16..0x2000) {
            let mut packet = [0xff; PACKET_BYTES];
            packet[0] = SYNC;
            packet[1..3].copy_from_slice(&pid.to_be_bytes());
            packet[3..6].copy_from_slice(&[0x30, 7, 0x10]);
            packet[6..12].copy_from_slice(&clock_field(ticks));
            let reference = clock_references(&packet).next();
            let expected = ClockReference { offset: 0, pid, ticks };
            prop_assert_eq!(reference, Some(expected));
        }

        #[test]
        fn any_bytes_are_accepted(bytes: Vec<u8>) {
            prop_assert!(clock_references(&bytes).count() * PACKET_BYTES <= bytes.len());
        }
    }
}
