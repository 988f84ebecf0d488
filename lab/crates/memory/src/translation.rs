//! A translation look-aside buffer: a cache of pages.

use serde::{Deserialize, Serialize};

use crate::{
    Line, ParameterError,
    cache::Cache,
    parameters::{CacheShape, PAGE_BYTES},
};

/// Maximum number of entries of a buffer, so that a wrong size is an error.
const MAX_ENTRIES: u32 = 1 << 16;

/// Entries and associativity of a translation look-aside buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TranslationParameters {
    /// Number of entries. Each is a translation of a page of 4 KiB.
    pub entries: u32,
    /// Entries in a set. The number of sets, entries / ways, must be a power of two.
    pub ways: u32,
}

impl TranslationParameters {
    /// Number of sets of the buffer.
    ///
    /// # Errors
    ///
    /// The number is not a power of two.
    pub fn sets(self) -> Result<u32, ParameterError> {
        let Self { entries, ways } = self;
        let sets = entries.checked_div(ways).unwrap_or(0);
        if entries > MAX_ENTRIES || sets * ways != entries || !sets.is_power_of_two() {
            return Err(ParameterError::new(
                "tlb",
                format!("{entries} entries of {ways} ways"),
                format!(
                    "expected at most {MAX_ENTRIES} entries, and a power of two for entries / ways"
                ),
            ));
        }
        Ok(sets)
    }
}

/// A translation look-aside buffer with least-recently-used replacement in each set.
#[derive(Clone, Debug)]
pub struct TranslationBuffer {
    empty: Cache,
    cache: Cache,
}

impl TranslationBuffer {
    /// An empty buffer.
    ///
    /// # Errors
    ///
    /// The number of sets is not a power of two.
    pub fn new(parameters: TranslationParameters) -> Result<Self, ParameterError> {
        let empty = Cache::new(CacheShape {
            sets: parameters.sets()?,
            ways: parameters.ways as usize,
        });
        Ok(Self {
            cache: empty.clone(),
            empty,
        })
    }

    /// Performs one access to a page of 4 KiB. `line` is the number of a line of 64 bytes in the
    /// page. Returns whether the translation was missing.
    #[inline]
    pub fn misses(&mut self, line: Line) -> bool {
        let page = Line(line.0 / (PAGE_BYTES / 64));
        if self.cache.promote_from_first_two(page) || self.cache.promote(page) {
            return false;
        }
        self.cache.insert(page);
        true
    }

    /// Drops every translation.
    pub fn flush(&mut self) {
        self.cache.clone_from(&self.empty);
    }
}
