//! The bus between the NIC and the host's memory.

use crate::settings;
use crate::time::{Span, Time};

/// The bus moves one frame at a time, in the order of requests. The processor's read of a register of
/// the NIC waits for the frames that were requested before.
#[derive(Clone, Copy, Debug)]
pub struct IoBus {
    rate_bps: u64,
    /// The time of a frame besides that of its bytes.
    overhead: Span,
    free_at: Time,
}

impl IoBus {
    /// The bus of a machine, if it has one.
    pub fn new(settings: settings::IoBus) -> Option<Self> {
        (settings.rate_mbps > 0).then(|| Self {
            rate_bps: u64::from(settings.rate_mbps) * 1_000_000,
            overhead: Span::from_ns(settings.overhead_ns.into()),
            free_at: Time::ZERO,
        })
    }

    /// Moves a frame, requested at `now`; returns when it has been moved.
    pub fn transfer(&mut self, bytes: u64, now: Time) -> Time {
        let start = self.free_at.max(now);
        self.free_at = start + self.overhead + Span::of_bytes(bytes, self.rate_bps);
        self.free_at
    }

    /// The time for which a read of a register at `now` waits.
    pub fn wait(&self, now: Time) -> Span {
        self.free_at.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 512 B at 4,096 Mb/s take 1 us.
    #[test]
    fn frames_follow_one_another_and_a_read_waits_for_all() {
        let settings = settings::IoBus {
            rate_mbps: 4_096,
            overhead_ns: 500,
        };
        let mut bus = IoBus::new(settings).expect("a bus with a rate");
        let at = |ns| Time::ZERO + Span::from_ns(ns);
        assert_eq!(bus.transfer(512, at(0)), at(1_500));
        assert_eq!(bus.transfer(512, at(200)), at(3_000));
        assert_eq!(bus.wait(at(1_000)), Span::from_ns(2_000));
        assert_eq!(bus.wait(at(4_000)), Span::ZERO);
        assert_eq!(bus.transfer(512, at(4_000)), at(5_500));
    }
}
