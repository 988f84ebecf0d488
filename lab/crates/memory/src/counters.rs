//! Counts of a hierarchy.

use crate::MAX_LEVELS;

/// Counts since the hierarchy was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Demand accesses by the level that answered, as in [`Access::level`](crate::Access::level).
    /// Index 0 is the first level, and the index after the last level is DRAM.
    pub answered: [u64; MAX_LEVELS + 1],
    /// Cycles that demand accesses stalled.
    pub stall_cycles: u64,
    /// Demand accesses to a prefetched line that had not arrived. Each access waited until its line
    /// arrived.
    pub late_prefetches: u64,
    /// Software prefetches of lines that were not yet in the first level.
    pub software_prefetches: u64,
    /// Lines that next-line prefetch loaded.
    pub next_line_prefetches: u64,
    /// Calls of `invalidate` that found the line in a cache.
    pub invalidations: u64,
}

impl Counters {
    /// Demand accesses.
    pub fn accesses(&self) -> u64 {
        self.answered.iter().sum()
    }

    /// Demand accesses that `level` (0 is the first) could not answer, so that a lower level or
    /// DRAM answered.
    pub fn misses(&self, level: usize) -> u64 {
        self.answered.iter().skip(level + 1).sum()
    }
}
