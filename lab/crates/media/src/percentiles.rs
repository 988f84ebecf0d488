//! Percentiles of the lateness of packets.

use hdrhistogram::{Counter, Histogram};
use serde::Serialize;

/// Percentiles in microseconds; 0 without packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// Highest.
    pub max: f64,
}

impl Percentiles {
    /// The percentiles of a histogram. `unit_us` is the unit of its values.
    pub(crate) fn of<C: Counter>(histogram: &Histogram<C>, unit_us: f64) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 * unit_us;
        Self {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 * unit_us,
        }
    }

    /// Limits percentiles to a highest value. A histogram rounds up, so its percentiles may be higher
    /// than those of a finer one.
    pub(crate) fn at_most(self, largest: f64) -> Self {
        Self {
            p50: self.p50.min(largest),
            p99: self.p99.min(largest),
            p999: self.p999.min(largest),
            max: self.max.min(largest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stream_is_later_than_the_run() {
        let mut fine = Histogram::<u64>::new(3).unwrap();
        let mut coarse = Histogram::<u16>::new(1).unwrap();
        fine.record(19_679).unwrap();
        coarse.record(19_679).unwrap();
        let (whole, part) = (Percentiles::of(&fine, 1.0), Percentiles::of(&coarse, 1.0));
        assert!(part.max > whole.max);
        assert_eq!(part.at_most(whole.max), whole.at_most(whole.max));
    }
}
