//! Dense numbers from 0 for hosts, URIs and sparse identifiers.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};

use crate::trace::error::TraceError;

/// Numbers byte strings in order of first appearance. A known name allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    numbers: HashTable<Entry>,
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// The number of a name and the hash of the name. With the hash, most comparisons and rehashes of
/// names are unnecessary.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    number: u32,
}

impl Names {
    /// The number of a name.
    ///
    /// # Errors
    /// The memory is too small.
    #[inline]
    pub(crate) fn number(&mut self, name: &[u8]) -> Result<u32, TraceError> {
        let hash = hash(name);
        let known = self.numbers.find(hash, |entry| {
            entry.hash == hash && name_at(&self.text, &self.ends, entry.number) == name
        });
        if let Some(entry) = known {
            return Ok(entry.number);
        }
        let number = self.ends.len() as u32;
        self.text.try_reserve(name.len())?;
        self.ends.try_reserve(1)?;
        self.numbers.try_reserve(1, |entry| entry.hash)?;
        self.text.extend_from_slice(name);
        self.ends.push(self.text.len());
        self.numbers
            .insert_unique(hash, Entry { hash, number }, |entry| entry.hash);
        Ok(number)
    }
}

#[inline]
fn hash(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.finish()
}

#[inline]
fn name_at<'a>(text: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &text[start..ends[number]]
}

/// Identifiers below this limit are looked up in a table of at most 16 MiB. All clients and objects
/// of the World Cup logs are below the limit.
const TABLE_LIMIT: u32 = 1 << 22;
/// Marks an identifier without a number.
const NONE: u32 = u32::MAX;

/// Numbers 32-bit identifiers in order of first appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identifiers {
    table: Vec<u32>,
    rest: FxHashMap<u32, u32>,
    count: u32,
}

impl Identifiers {
    /// The number of an identifier.
    ///
    /// # Errors
    /// The memory is too small.
    #[inline]
    pub(crate) fn number(&mut self, identifier: u32) -> Result<u32, TraceError> {
        let slot = if identifier < TABLE_LIMIT {
            let at = identifier as usize;
            if at >= self.table.len() {
                let length = (at + 1).next_power_of_two();
                self.table.try_reserve(length - self.table.len())?;
                self.table.resize(length, NONE);
            }
            &mut self.table[at]
        } else {
            self.rest.try_reserve(1)?;
            self.rest.entry(identifier).or_insert(NONE)
        };
        if *slot == NONE {
            *slot = self.count;
            self.count += 1;
        }
        Ok(*slot)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_numbered_in_order_of_first_appearance(
            names in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3), 0..300)
        ) {
            let mut numbered = Names::default();
            let mut model: HashMap<Vec<u8>, u32> = HashMap::new();
            for name in names {
                let next = model.len() as u32;
                let expected = *model.entry(name.clone()).or_insert(next);
                prop_assert_eq!(numbered.number(&name).unwrap(), expected);
            }
        }

        #[test]
        fn identifiers_are_numbered_in_order_of_first_appearance(
            identifiers in prop::collection::vec(
                prop_oneof![0u32..50, (u32::MAX - 20)..=u32::MAX, TABLE_LIMIT - 2..TABLE_LIMIT + 2],
                0..300,
            )
        ) {
            let mut numbered = Identifiers::default();
            let mut model: HashMap<u32, u32> = HashMap::new();
            for identifier in identifiers {
                let next = model.len() as u32;
                let expected = *model.entry(identifier).or_insert(next);
                prop_assert_eq!(numbered.number(identifier).unwrap(), expected);
            }
        }
    }
}
