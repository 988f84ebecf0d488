//! One level of caches below the first, in whichever form suits its number of ways.

use crate::{
    Line,
    cache::Cache,
    ordered::{self, OrderedCache},
    parameters::CacheShape,
};

/// A level below the first.
#[derive(Clone, Debug)]
pub(crate) enum Level {
    /// 16 ways, the usual number.
    Ordered(OrderedCache),
    /// Any other number of ways.
    Listed(Cache),
}

/// Calls the same method of whichever cache a level is.
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

    /// Whether `line` is here; changes nothing.
    #[inline]
    pub(crate) fn contains(&self, line: Line) -> bool {
        either!(self, cache => cache.contains(line))
    }

    /// Makes `line` the most recently used of its set if it is here; returns whether it is.
    #[inline]
    pub(crate) fn promote(&mut self, line: Line) -> bool {
        either!(self, cache => cache.promote(line))
    }

    /// Inserts a `line` that is not here as the most recently used of its set; returns the line
    /// that it evicts.
    #[inline]
    pub(crate) fn insert(&mut self, line: Line) -> Option<Line> {
        either!(self, cache => cache.insert(line))
    }

    /// Removes `line` if it is here; returns whether it was.
    #[inline]
    pub(crate) fn remove(&mut self, line: Line) -> bool {
        either!(self, cache => cache.remove(line))
    }
}
