//! Histograms of times with bounded size and relative error (HDR, three significant digits).
//!
//! A histogram uses 270 KB for a run of any length. Its percentiles are exact to 0.1 %. The
//! histogram stores nanoseconds, but reports have microseconds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// Longest recorded time. A longer time counts as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

/// Summary of a histogram, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Times recorded.
    pub count: u64,
    pub mean: f64,
    /// Half of the times are at most this.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    pub p9999: f64,
    /// 99.999 %.
    pub p99999: f64,
    /// The longest.
    pub max: f64,
}

impl Default for Latency {
    fn default() -> Self {
        let empty = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS);
        Self(empty.unwrap_or_else(|_| unreachable!("constant bounds")))
    }
}

impl Latency {
    /// Counts a time in nanoseconds.
    #[inline]
    pub fn record(&mut self, time_ns: u64) {
        self.0.saturating_record(time_ns.max(1));
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        // Histograms with the same bounds can always be added.
        let _ = self.0.add(&other.0);
    }

    /// A quantile of the recorded times, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        us(self.0.value_at_quantile(share).min(self.0.max()))
    }

    /// The percentiles that reports contain.
    pub fn summary(&self) -> LatencySummary {
        if self.0.is_empty() {
            return LatencySummary::default();
        }
        LatencySummary {
            count: self.0.len(),
            mean: (self.0.mean() / 10.0).round() / 100.0,
            p50: self.quantile_us(0.5),
            p90: self.quantile_us(0.9),
            p95: self.quantile_us(0.95),
            p99: self.quantile_us(0.99),
            p999: self.quantile_us(0.999),
            p9999: self.quantile_us(0.9999),
            p99999: self.quantile_us(0.99999),
            max: us(self.0.max()),
        }
    }

    /// The histogram in HdrHistogram's V2 compressed encoding, as base64. Its unit is nanoseconds.
    ///
    /// # Errors
    /// The encoder failed.
    pub fn encode(&self) -> Result<String, LoadError> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(|error| LoadError::Usage(format!("histogram: {error}")))?;
        Ok(STANDARD.encode(bytes))
    }
}

/// Nanoseconds as microseconds.
fn us(time_ns: u64) -> f64 {
    time_ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    #[test]
    fn percentiles_are_exact_to_a_thousandth() {
        let mut latency = Latency::default();
        (1..=100_000).for_each(|value| latency.record(value * 1000));
        let summary = latency.summary();
        for (actual, expected) in [
            (summary.p50, 50_000.0),
            (summary.p99, 99_000.0),
            (summary.p99999, 99_999.0),
        ] {
            assert!(
                (actual / expected - 1.0).abs() < 1e-3,
                "{actual} {expected}"
            );
        }
        assert_eq!(summary.count, 100_000);
    }

    #[test]
    fn an_encoded_histogram_decodes_to_the_same_counts() {
        let mut latency = Latency::default();
        for value in [3_000, 5_000_000, 7] {
            latency.record(value);
        }
        let bytes = STANDARD.decode(latency.encode().unwrap()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!(read, latency.0);
    }
}
