//! The retransmission timeout: Jacobson's estimator in the integer form of 4.4BSD (RFC 6298).

use super::Settings;
use crate::time::{Span, Time};

/// Smoothed round-trip time, its deviation, and the timeout that follows from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    smoothed: Option<Span>,
    deviation: Span,
    /// Timeouts in a row: each doubles the timeout (RFC 6298, section 5.5).
    backoff: u32,
}

impl RoundTrip {
    /// Updates the estimate with a measured round trip and ends any backoff.
    pub fn measure(&mut self, sent: Time, now: Time) {
        let sample = now.since(sent);
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.deviation = Span(sample.0 / 2);
            }
            Some(smoothed) => {
                let difference = sample.0.abs_diff(smoothed.0);
                self.deviation = Span(self.deviation.0 - self.deviation.0 / 4 + difference / 4);
                self.smoothed = Some(Span(smoothed.0 - smoothed.0 / 8 + sample.0 / 8));
            }
        }
        self.backoff = 0;
    }

    /// Ends any backoff: something new was acknowledged.
    pub const fn progress(&mut self) {
        self.backoff = 0;
    }

    /// Doubles the next timeout.
    pub const fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// The time to wait for an acknowledgment.
    pub fn timeout(&self, settings: &Settings) -> Span {
        let base = match self.smoothed {
            None => settings.syn_rto,
            Some(smoothed) => (smoothed + Span(4 * self.deviation.0) + settings.rto_slop)
                .max(settings.minimum_rto),
        };
        Span(base.0 << self.backoff.min(12)).min(settings.maximum_rto)
    }
}
