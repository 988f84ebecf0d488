//! One direction of the wire: a rate, a latency, and a sender that sends one frame after the other.

use crate::tcp::Segment;
use crate::time::{Span, Time};

/// One direction.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    rate_bps: u64,
    latency: Span,
    free_at: Time,
}

impl Link {
    /// A direction of `rate_mbps` (10^6 b/s) and one-way `latency`.
    pub const fn new(rate_mbps: u32, latency: Span) -> Self {
        Self {
            rate_bps: rate_mbps as u64 * 1_000_000,
            latency,
            free_at: Time::ZERO,
        }
    }

    /// Sends a segment not before `ready`; returns when its last bit arrives.
    pub fn send(&mut self, segment: &Segment, ready: Time) -> Time {
        let start = ready.max(self.free_at);
        self.free_at = start + Span::of_bytes(segment.wire_bytes(), self.rate_bps);
        self.free_at + self.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Flags, Sequence};

    #[test]
    fn frames_follow_one_another_at_the_rate() {
        let mut link = Link::new(1_000, Span::from_us(50));
        let segment = Segment {
            sequence: Sequence(0),
            acknowledgment: Sequence(0),
            window_bytes: 0,
            length_bytes: 1460,
            flags: Flags::ACK,
        };
        let first = link.send(&segment, Time::ZERO);
        let second = link.send(&segment, Time::ZERO);
        assert_eq!(
            first,
            Time::ZERO + Span::from_ns(12_304) + Span::from_us(50)
        );
        assert_eq!(second.since(first), Span::from_ns(12_304));
    }
}
