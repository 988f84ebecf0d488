//! Separate first-level caches for instructions and data in front of shared second levels.
//!
//! Unless the second level is inclusive, the contents of the first level do not depend on it. So
//! one pass over the accesses counts the misses of many second levels of different sizes.

use serde::{Deserialize, Serialize};

use crate::{
    Line, ParameterError, Policy,
    cache::Cache,
    level::Level,
    parameters::{CacheShape, PAGE_BYTES, shape},
};

const LINE_BYTES: u32 = 64;

/// Maximum number of second levels behind one first level. Each uses a bit in [`Missed`].
pub const MAX_SECOND_LEVELS: usize = 16;

/// Size and associativity of one cache with lines of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSize {
    /// Capacity in KiB.
    pub size_kib: u32,
    /// Lines in a set. The number of sets, capacity / (ways * 64), must be a power of two.
    pub ways: u32,
}

impl CacheSize {
    pub(crate) fn shape(self, path: &str) -> Result<CacheShape, ParameterError> {
        shape(self.size_kib, self.ways, LINE_BYTES, path)
    }
}

/// The caches of one processor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SplitParameters {
    /// Size of the instruction cache and of the data cache.
    pub first: CacheSize,
    /// The second levels. Each is simulated as the only one behind the first level. With
    /// [`Policy::Inclusive`] there is one, otherwise there are up to [`MAX_SECOND_LEVELS`].
    pub second: Vec<CacheSize>,
    /// The relation between the contents of the levels.
    pub policy: Policy,
    /// Whether an access that the second level cannot answer also loads the next line of the same
    /// page into the second level.
    pub next_line_prefetch: bool,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The fetch of an instruction.
    Instruction,
    /// A load or a store.
    Data,
}

/// The caches that did not contain a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed(u32);

impl Missed {
    const FIRST: u32 = 1;
    const PURGED: u32 = 1 << 31;

    const fn second_bit(index: usize) -> u32 {
        2 << index
    }

    /// Whether every cache contained the line.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the first level missed.
    pub const fn first(self) -> bool {
        self.0 & Self::FIRST != 0
    }

    /// Whether the second level with this index missed too.
    pub const fn second(self, index: usize) -> bool {
        self.0 & Self::second_bit(index) != 0
    }

    /// Whether another line left the first level because an inclusive second level evicted it. A
    /// [`Filter`](crate::Filter) in front of the caches must then be cleared.
    pub const fn purged(self) -> bool {
        self.0 & Self::PURGED != 0
    }
}

/// The caches and their contents.
#[derive(Clone, Debug)]
pub struct Split {
    first: [Cache; 2],
    second: Box<[Level]>,
    policy: Policy,
    next_line_prefetch: bool,
}

impl Split {
    /// Empty caches.
    ///
    /// # Errors
    ///
    /// The error names the first parameter that is out of its range.
    pub fn new(parameters: &SplitParameters) -> Result<Self, ParameterError> {
        let most = match parameters.policy {
            Policy::Inclusive => 1,
            Policy::Exclusive | Policy::NonInclusive => MAX_SECOND_LEVELS,
        };
        let number = parameters.second.len();
        if number > most {
            return Err(ParameterError::new(
                "second",
                format!("{number} caches"),
                format!("expected at most {most} behind one first level with this policy"),
            ));
        }
        let first = Cache::new(parameters.first.shape("first")?);
        let second = parameters.second.iter().enumerate().map(|(index, size)| {
            let shape = size.shape(&format!("second[{index}]"))?;
            Ok(Level::new(shape))
        });
        Ok(Self {
            first: [first.clone(), first],
            second: second.collect::<Result<_, _>>()?,
            policy: parameters.policy,
            next_line_prefetch: parameters.next_line_prefetch,
        })
    }

    /// Performs one access to `line`. The line becomes the most recently used line of its
    /// first-level set.
    #[inline]
    pub fn access(&mut self, side: Side, line: Line) -> Missed {
        debug_assert_ne!(line, Line::EMPTY, "line number reserved for empty ways");
        if self.first[side as usize].promote_from_first_two(line) {
            return Missed::default();
        }
        self.access_further(side, line)
    }

    #[inline(never)]
    fn access_further(&mut self, side: Side, line: Line) -> Missed {
        if self.first[side as usize].promote(line) {
            return Missed::default();
        }
        let mut missed = match self.policy {
            Policy::Exclusive => self.move_up(side, line),
            Policy::Inclusive | Policy::NonInclusive => self.fill_up(side, line),
        };
        if self.next_line_prefetch && missed.0 & !(Missed::FIRST | Missed::PURGED) != 0 {
            self.prefetch_next_line(line, &mut missed);
        }
        missed
    }

    /// Moves `line` from each second level to the first level. The line that the first level evicts
    /// moves down.
    fn move_up(&mut self, side: Side, line: Line) -> Missed {
        let mut missed = Missed::FIRST;
        let victim = self.first[side as usize].insert(line);
        for (index, cache) in self.second.iter_mut().enumerate() {
            if !cache.remove(line) {
                missed |= Missed::second_bit(index);
            }
            if let Some(victim) = victim {
                put(cache, victim);
            }
        }
        Missed(missed)
    }

    /// Copies `line` into the second levels that miss it and into the first level.
    fn fill_up(&mut self, side: Side, line: Line) -> Missed {
        let mut missed = Missed(Missed::FIRST);
        for index in 0..self.second.len() {
            if !self.second[index].promote(line) {
                missed.0 |= Missed::second_bit(index);
                let evicted = self.second[index].insert(line);
                self.purge(evicted, &mut missed);
            }
        }
        self.first[side as usize].insert(line);
        missed
    }

    /// Loads the line after `line` into the second levels that missed `line`.
    fn prefetch_next_line(&mut self, line: Line, missed: &mut Missed) {
        let next = Line(line.0 + 1);
        if next.0.is_multiple_of(PAGE_BYTES / LINE_BYTES) || next == Line::EMPTY {
            return;
        }
        // An exclusive hierarchy does not copy a line that is in the first level.
        if self.policy == Policy::Exclusive && self.first.iter().any(|cache| cache.contains(next)) {
            return;
        }
        for index in 0..self.second.len() {
            if missed.second(index) && !self.second[index].contains(next) {
                let evicted = self.second[index].insert(next);
                self.purge(evicted, missed);
            }
        }
    }

    /// Removes a line from the first level, because an inclusive second level has evicted it.
    fn purge(&mut self, evicted: Option<Line>, missed: &mut Missed) {
        if self.policy != Policy::Inclusive {
            return;
        }
        let Some(victim) = evicted else { return };
        for cache in &mut self.first {
            if cache.remove(victim) {
                missed.0 |= Missed::PURGED;
            }
        }
    }

    /// Removes `line` from all caches, because a device has written it to memory.
    pub fn invalidate(&mut self, line: Line) {
        for cache in &mut self.first {
            cache.remove(line);
        }
        for cache in &mut self.second {
            cache.remove(line);
        }
    }

    /// Puts `line` into the second levels only, because a device has written it into the cache.
    pub fn allocate(&mut self, line: Line) {
        for cache in &mut self.first {
            cache.remove(line);
        }
        // `PURGED` is not reported, because a filter in front is cleared at every write of a device
        // anyway.
        let mut missed = Missed::default();
        for index in 0..self.second.len() {
            let evicted = put(&mut self.second[index], line);
            self.purge(evicted, &mut missed);
        }
    }
}

/// Makes `line` the most recently used line of its set, and inserts it if necessary. Returns the
/// evicted line.
fn put(cache: &mut Level, line: Line) -> Option<Line> {
    if cache.promote(line) {
        return None;
    }
    cache.insert(line)
}
