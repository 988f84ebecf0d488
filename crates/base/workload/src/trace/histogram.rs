//! Exact counts of small whole numbers. Memory grows with the largest value, not with the number of
//! values.

use std::collections::BTreeMap;

/// Values below this are counted in an array.
const ARRAY_LIMIT: usize = 4096;

/// Counts by value.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    small: Vec<u64>,
    large: BTreeMap<u64, u64>,
    count: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            small: vec![0; ARRAY_LIMIT],
            large: BTreeMap::new(),
            count: 0,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        self.count += 1;
        match self.small.get_mut(value as usize) {
            Some(count) if value < ARRAY_LIMIT as u64 => *count += 1,
            _ => *self.large.entry(value).or_default() += 1,
        }
    }

    /// Each value that occurred and its count, in ascending order of the values.
    fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let small = self
            .small
            .iter()
            .enumerate()
            .map(|(value, count)| (value as u64, *count));
        let large = self.large.iter().map(|(value, count)| (*value, *count));
        small.filter(|(_, count)| *count > 0).chain(large)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn total(&self) -> u128 {
        self.entries()
            .map(|(value, count)| u128::from(value) * u128::from(count))
            .sum()
    }

    /// Mean; `None` without values.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total() as f64 / self.count as f64)
    }

    /// Median; `None` without values. For an even number of values, it is halfway between the
    /// middle two.
    pub(crate) fn median(&self) -> Option<f64> {
        let low = self.at_rank(self.count.checked_sub(1)? / 2)?;
        let high = self.at_rank(self.count / 2)?;
        Some((low as f64 + high as f64) / 2.0)
    }

    /// The value at a rank. Ranks start at 0.
    fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut below = 0;
        self.entries()
            .find(|(_, count)| {
                below += count;
                below > rank
            })
            .map(|(value, _)| value)
    }

    /// The sum of the smallest values, as a fraction of the sum of all values. `share` is the
    /// fraction of values that count as the smallest. `None` if the sum of all values is zero. The
    /// value at the border counts in part.
    pub(crate) fn share_of_smallest(&self, share: f64) -> Option<f64> {
        self.share_of_first(self.entries(), share)
    }

    /// The same as [`Self::share_of_smallest`], for the largest values.
    pub(crate) fn share_of_largest(&self, share: f64) -> Option<f64> {
        let ascending: Vec<_> = self.entries().collect();
        self.share_of_first(ascending.into_iter().rev(), share)
    }

    fn share_of_first(&self, entries: impl Iterator<Item = (u64, u64)>, share: f64) -> Option<f64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let mut left = share * self.count as f64;
        let mut sum = 0.0;
        for (value, count) in entries {
            let taken = left.min(count as f64);
            sum += value as f64 * taken;
            left -= taken;
        }
        Some(sum / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.add(*value));
        histogram
    }

    #[test]
    fn the_smaller_half_of_one_to_four_has_three_tenths_of_the_sum() {
        let four = histogram(&[4, 2, 3, 1]);
        assert_eq!(four.share_of_smallest(0.5), Some(0.3));
        assert_eq!(four.share_of_largest(0.25), Some(0.4));
        assert_eq!(four.median(), Some(2.5));
        assert_eq!(four.mean(), Some(2.5));
        assert_eq!(histogram(&[]).median(), None);
        assert_eq!(histogram(&[0]).share_of_smallest(0.5), None);
    }

    proptest! {
        #[test]
        fn it_agrees_with_sorting(
            mut values in prop::collection::vec(prop_oneof![0u64..20, 4090u64..9000], 1..200)
        ) {
            let counted = histogram(&values);
            values.sort_unstable();
            let middle = values.len() / 2;
            let median = if values.len() % 2 == 1 {
                values[middle] as f64
            } else {
                (values[middle - 1] + values[middle]) as f64 / 2.0
            };
            prop_assert_eq!(counted.median(), Some(median));
            let sum: u64 = values.iter().sum();
            if values.len() % 2 == 0 && sum > 0 {
                let half: u64 = values[..middle].iter().sum();
                let share = counted.share_of_smallest(0.5).unwrap();
                prop_assert!((share - half as f64 / sum as f64).abs() < 1e-12);
            }
        }
    }
}
