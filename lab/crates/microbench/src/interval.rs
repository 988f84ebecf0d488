//! The number of repetitions of a measurement, and the median of the repetitions with its interval.
//!
//! An interrupt or another program can slow a repetition by any amount. So the estimate is the median
//! and not the mean. Its interval comes from order statistics, which assume no distribution.

use std::time::{Duration, Instant};

/// Confidence of the intervals, as a fraction. With fewer than six repetitions the confidence is
/// lower.
pub const CONFIDENCE: f64 = 0.95;

/// Maximum number of repetitions of one point.
pub const MAX_REPETITIONS: usize = 256;

/// Smallest number of repetitions with which an interval of order statistics reaches
/// [`CONFIDENCE`].
const MIN_REPETITIONS: usize = 6;

/// A sample median with the confidence interval of the true median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median, in the unit of the repetitions.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Repetitions.
    pub n: usize,
}

impl Median {
    /// Half the interval's width as a share of the value.
    pub fn relative_half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value.abs()
    }
}

/// Sorts `values` and returns their median; `None` without values.
///
/// The interval lies between the k-th smallest and the k-th largest value. Its confidence is
/// 1 - 2 P(Binomial(n, 1/2) < k), and k is the largest that reaches [`CONFIDENCE`]. If none does, the
/// interval is the whole range.
pub fn median(values: &mut [f64]) -> Option<Median> {
    let n = values.len();
    values.sort_unstable_by(f64::total_cmp);
    let (first, last) = (*values.first()?, *values.last()?);
    let middle = values[n / 2];
    let value = if n % 2 == 1 {
        middle
    } else {
        f64::midpoint(values[n / 2 - 1], middle)
    };
    let mut probability = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = probability;
    let (mut low, mut high) = (first, last);
    for rank in 1..n / 2 {
        probability *= (n - rank + 1) as f64 / rank as f64;
        below += probability;
        if 1.0 - 2.0 * below < CONFIDENCE {
            break;
        }
        (low, high) = (values[rank], values[n - 1 - rank]);
    }
    Some(Median {
        value,
        low,
        high,
        n,
    })
}

/// The limits of the repetitions of a point.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest half width of an interval that counts as narrow enough, as a share of the median.
    pub precision: f64,
    /// Time after which the repetitions end. There are always at least two.
    pub time: Duration,
}

/// Storage for the repetitions of one point. All points reuse it, so that none allocates memory.
#[derive(Debug)]
pub struct Repetitions {
    values: Vec<f64>,
}

impl Default for Repetitions {
    fn default() -> Self {
        Self {
            values: Vec::with_capacity(MAX_REPETITIONS),
        }
    }
}

impl Repetitions {
    /// Repeats `measure` until the interval of its median is narrow enough or the time is up.
    ///
    /// The interval is computed only after 6, 12, 24, ... repetitions. With a check after each
    /// repetition, the measurement would often stop at an interval that is narrow by chance.
    ///
    /// # Errors
    /// The first error of `measure`.
    pub fn until_precise<E>(
        &mut self,
        limits: Limits,
        mut measure: impl FnMut() -> Result<f64, E>,
    ) -> Result<Option<Median>, E> {
        self.values.clear();
        let begin = Instant::now();
        let mut check_at = MIN_REPETITIONS;
        loop {
            self.values.push(measure()?);
            let n = self.values.len();
            let late = n >= 2 && begin.elapsed() >= limits.time;
            if n < check_at && !late {
                continue;
            }
            check_at = (2 * n).min(MAX_REPETITIONS);
            let current = median(&mut self.values);
            let is_precise = current.is_some_and(|median| {
                n >= MIN_REPETITIONS && median.relative_half_width() <= limits.precision
            });
            if is_precise || late || n >= MAX_REPETITIONS {
                return Ok(current);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn the_interval_of_ten_values_lies_between_the_second_and_the_ninth() {
        // Conover, Practical Nonparametric Statistics: 1 - 2 (1 + 10) / 1024 = 0.979.
        let mut values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let median = median(&mut values).unwrap();
        assert_eq!(
            (median.value, median.low, median.high, median.n),
            (5.5, 2.0, 9.0, 10)
        );
    }

    #[test]
    fn the_interval_of_five_values_is_their_whole_range() {
        let median = median(&mut [5.0, 1.0, 4.0, 2.0, 30.0]).unwrap();
        assert_eq!((median.value, median.low, median.high), (4.0, 1.0, 30.0));
    }

    #[test]
    fn no_values_have_no_median() {
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn equal_repetitions_end_at_six_and_scattered_ones_at_the_maximum() {
        let limits = Limits {
            precision: 0.02,
            time: Duration::from_secs(60),
        };
        let mut repetitions = Repetitions::default();
        let known = repetitions.until_precise(limits, || Ok::<_, Infallible>(7.0));
        assert_eq!(known.unwrap().unwrap().n, 6);
        let mut odd = false;
        let scattered = repetitions.until_precise(limits, || {
            odd = !odd;
            Ok::<_, Infallible>(if odd { 1.0 } else { 2.0 })
        });
        assert_eq!(scattered.unwrap().unwrap().n, MAX_REPETITIONS);
    }

    #[test]
    fn a_point_without_time_has_two_repetitions() {
        let limits = Limits {
            precision: 0.02,
            time: Duration::ZERO,
        };
        let current = Repetitions::default().until_precise(limits, || Ok::<_, Infallible>(1.0));
        assert_eq!(current.unwrap().unwrap().n, 2);
    }
}
