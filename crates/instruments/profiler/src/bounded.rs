//! Sums by name, for names that come and go. The busiest names have sums of their own, and all
//! other names share one sum.
//!
//! A machine may see thousands of interfaces and control groups in a month. A time series database
//! stores a series for each name, so their number has a limit. Every amount is added exactly once.
//! While a name has a sum, the sum never decreases.

use std::collections::{BTreeMap, HashMap};

/// A name loses its sum after this many rounds without work.
const IDLE_ROUNDS: u32 = 10;

/// A name replaces another if it is busier by this factor. With a smaller factor, names with nearly
/// equal work would replace each other in every round.
const REPLACEMENT_FACTOR: f64 = 2.0;

/// The sums of a limited number of names, and the sum of all other names.
#[derive(Clone, Debug)]
pub struct Bounded<V> {
    limit: usize,
    named: BTreeMap<String, Slot<V>>,
    other: V,
    /// Work of the names without a sum, in this round.
    outside: HashMap<String, f64>,
}

#[derive(Clone, Debug, Default)]
struct Slot<V> {
    sum: V,
    work: f64,
    idle_rounds: u32,
}

impl<V: Default> Bounded<V> {
    /// Empty sums for at most `limit` names.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            named: BTreeMap::new(),
            other: V::default(),
            outside: HashMap::new(),
        }
    }

    /// The sum of a name. The caller adds to the sum. `work` is the name's work in this round.
    pub fn entry(&mut self, name: &str, work: f64) -> &mut V {
        if !self.named.contains_key(name) {
            if self.named.len() >= self.limit {
                *self.outside.entry(name.to_owned()).or_default() += work;
                return &mut self.other;
            }
            self.named.insert(name.to_owned(), Slot::default());
        }
        let slot = self.named.entry(name.to_owned()).or_default();
        slot.work += work;
        &mut slot.sum
    }

    /// Ends a round. Idle names lose their sums. If a name without a sum was busier than the least
    /// busy name with a sum, it replaces that name. A new sum begins at zero.
    pub fn end_round(&mut self) {
        for slot in self.named.values_mut() {
            slot.idle_rounds = if slot.work > 0.0 {
                0
            } else {
                slot.idle_rounds + 1
            };
        }
        self.named.retain(|_, slot| slot.idle_rounds < IDLE_ROUNDS);
        let mut waiting: Vec<(String, f64)> = self.outside.drain().collect();
        waiting.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        for (name, work) in waiting {
            if self.named.len() >= self.limit {
                let least = self
                    .named
                    .iter()
                    .min_by(|one, other| one.1.work.total_cmp(&other.1.work))
                    .map(|(name, slot)| (name.clone(), slot.work));
                match least {
                    Some((loser, least)) if work > REPLACEMENT_FACTOR * least => {
                        self.named.remove(&loser)
                    }
                    _ => break,
                };
            }
            let slot = Slot {
                work,
                ..Slot::default()
            };
            self.named.insert(name, slot);
        }
        for slot in self.named.values_mut() {
            slot.work = 0.0;
        }
    }

    /// The names with their sums, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.named
            .iter()
            .map(|(name, slot)| (name.as_str(), &slot.sum))
    }

    /// The sum of all other names.
    #[must_use]
    pub const fn other(&self) -> &V {
        &self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_busiest_names_replace_the_others_after_a_round() {
        let mut sums: Bounded<f64> = Bounded::new(2);
        for (name, work) in [("a", 1.0), ("b", 10.0), ("c", 100.0), ("d", 3.0)] {
            *sums.entry(name, work) += work;
        }
        assert_eq!(sums.iter().collect::<Vec<_>>(), [("a", &1.0), ("b", &10.0)]);
        assert_eq!(*sums.other(), 103.0);
        sums.end_round();
        assert_eq!(sums.iter().collect::<Vec<_>>(), [("b", &10.0), ("c", &0.0)]);
    }

    #[test]
    fn an_idle_name_loses_its_sum() {
        let mut sums: Bounded<u64> = Bounded::new(2);
        *sums.entry("veth1", 1.0) += 1;
        for _ in 0..=IDLE_ROUNDS {
            *sums.entry("eth0", 1.0) += 1;
            sums.end_round();
        }
        let names: Vec<_> = sums.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["eth0"]);
    }

    proptest! {
        #[test]
        fn the_number_of_names_is_bounded_and_a_sum_never_decreases(
            limit in 1_usize..5,
            amounts in proptest::collection::vec((0_u8..12, 0_u32..100, any::<bool>()), 1..200),
        ) {
            let mut sums: Bounded<u64> = Bounded::new(limit);
            let mut before: BTreeMap<String, u64> = BTreeMap::new();
            for (name, amount, ends_round) in amounts {
                *sums.entry(&name.to_string(), f64::from(amount)) += u64::from(amount);
                for (name, &sum) in sums.iter() {
                    prop_assert!(sum >= before.get(name).copied().unwrap_or(0));
                }
                if ends_round {
                    sums.end_round();
                }
                before = sums.iter().map(|(name, &sum)| (name.to_owned(), sum)).collect();
                prop_assert!(before.len() <= limit);
            }
        }
    }
}
