//! A filter that drops repeated accesses. They cannot change a cache behind the filter.

/// Maximum number of indices of a filter.
const MAX_INDICES: usize = 512;

/// The last accessed key for each index.
///
/// The index of a key is its lowest bits. An access is repeated if the last access to its index had
/// the same key. The line or page is then the most recently used one of its set in every cache with
/// least-recently-used replacement and at least as many sets as the filter has indices. So the
/// access is a hit that changes nothing. Call [`clear`](Self::clear) each time a line leaves a cache
/// for another reason than an access of the same processor.
#[derive(Clone, Debug)]
pub struct Filter {
    mask: usize,
    last: [u32; MAX_INDICES],
}

impl Filter {
    /// A filter for caches of at least `sets` sets. A smaller filter drops fewer accesses. One that
    /// would be larger than the largest filter has the size of the largest.
    ///
    /// # Panics
    ///
    /// `sets` is not a power of two.
    pub fn new(sets: u32) -> Self {
        assert!(sets.is_power_of_two(), "{sets} sets");
        Self {
            mask: MAX_INDICES.min(sets as usize) - 1,
            last: [u32::MAX; MAX_INDICES],
        }
    }

    /// Whether an access to `key` is repeated. `key` must not be `u32::MAX`.
    #[inline]
    pub fn repeats(&mut self, key: u32) -> bool {
        let last = &mut self.last[(key as usize & self.mask) % MAX_INDICES];
        std::mem::replace(last, key) == key
    }

    /// Whether an access to `key` would be repeated. Changes nothing.
    #[inline]
    #[must_use]
    pub const fn is_last(&self, key: u32) -> bool {
        self.last[(key as usize & self.mask) % MAX_INDICES] == key
    }

    /// Forgets all accesses.
    pub fn clear(&mut self) {
        self.last = [u32::MAX; MAX_INDICES];
    }
}
