//! One level of caches below the first. The number of ways determines its data structure.

use crate::{
    Line,
    cache::Cache,
    ordered::{self, OrderedCache},
    parameters::CacheShape,
};

/// A level below the first.
#[derive(Clone, Debug)]
pub(crate) enum Level {
    /// A cache of 16 ways, the usual number.
    Ordered(OrderedCache),
    /// A cache with another number of ways.
    Listed(Cache),
}

/// Calls a method of the level's cache. The cache may be of either kind.
macro_rules! either {
    ($level:ident, $cache:ident => $call:expr) => {
        match $level {
            Level::Ordered($cache) => $call,
            Level::Listed($cache) => $call,
        }
    };
}

impl Level {
    pub(crate) fn new(shape: CacheShape) -> Self {
        if shape.ways == ordered::WAYS {
            Self::Ordered(OrderedCache::new(shape.sets))
        } else {
            Self::Listed(Cache::new(shape))
        }
    }

    /// Whether the level contains `line`. Changes nothing.
    #[inline]
    pub(crate) fn contains(&self, line: Line) -> bool {
        either!(self, cache => cache.contains(line))
    }

    /// If the level contains `line`, makes it the most recently used line of its set. Returns
    /// whether it does.
    #[inline]
    pub(crate) fn promote(&mut self, line: Line) -> bool {
        either!(self, cache => cache.promote(line))
    }

    /// Inserts a `line` that the level does not contain, as the most recently used line of its set.
    /// Returns the evicted line.
    #[inline]
    pub(crate) fn insert(&mut self, line: Line) -> Option<Line> {
        either!(self, cache => cache.insert(line))
    }

    /// Removes `line` if the level contains it. Returns whether it did.
    #[inline]
    pub(crate) fn remove(&mut self, line: Line) -> bool {
        either!(self, cache => cache.remove(line))
    }
}
