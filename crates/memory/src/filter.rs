//! A filter that drops repeated accesses. They cannot change a cache behind the filter.

/// The last accessed key for each of `SIZE` indices.
///
/// An access is repeated if the last access to its index had the same key. The line is then the
/// most recently used line of its set in every cache with least-recently-used replacement and at
/// least `SIZE` sets. So the access is a hit that changes nothing. The keys may be virtual line
/// numbers although the caches use physical ones, because the index consists of bits of the offset
/// in a page. Call [`clear`](Self::clear) each time a line leaves a cache for another reason than
/// an access of the same processor. Call it also each time a virtual address gets a new mapping.
#[derive(Clone, Debug)]
pub struct Filter<const SIZE: usize> {
    last: [u64; SIZE],
}

/// Drops accesses to lines. The filter is exact for caches of at least 64 sets.
pub type LineFilter = Filter<64>;

/// Drops accesses to pages. The filter is exact for translation buffers of at least 16 sets.
pub type PageFilter = Filter<16>;

impl<const SIZE: usize> Default for Filter<SIZE> {
    fn default() -> Self {
        const { assert!(SIZE.is_power_of_two()) }
        Self {
            last: [u64::MAX; SIZE],
        }
    }
}

impl<const SIZE: usize> Filter<SIZE> {
    /// Whether an access to `key` is repeated. `key` must not be `u64::MAX`.
    #[inline]
    pub fn repeats(&mut self, key: u64) -> bool {
        let last = &mut self.last[key as usize & (SIZE - 1)];
        std::mem::replace(last, key) == key
    }

    /// Forgets all accesses.
    pub fn clear(&mut self) {
        self.last = [u64::MAX; SIZE];
    }
}
