//! Levels of caches in front of DRAM.

use crate::{
    CacheSize, Counters, HierarchyParameters, Line, MAX_LEVELS, ParameterError, Policy,
    cache::Cache, dram::Dram, in_flight::InFlight, level::Level, parameters::PAGE_BYTES,
    two_levels::TwoLevels,
};

/// The result of a demand access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The level that answered: 0 is the first; the number of levels means DRAM. A line that is
    /// still on its way counts for the level that it will be in.
    pub level: u8,
    /// Cycles for which the processor stalled, beyond the latency of the first level: that latency
    /// is part of the processor's rate of one instruction per cycle, so a first-level hit stalls 0.
    pub stall_cycles: u32,
}

/// The sums of several demand accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cycles for which the processor stalled.
    pub stall_cycles: u64,
    /// Accesses that the first level could not answer, and those that the second could not either.
    pub misses: [u64; 2],
}

/// A memory hierarchy and its contents.
///
/// Times are in processor cycles and may not decrease from call to call.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    first: Cache,
    /// The first level for instructions.
    instructions: Option<Cache>,
    /// The levels below the first, from above.
    further: Box<[Level]>,
    policy: Policy,
    /// Stall of a hit in each level.
    hit_stall_cycles: [u32; MAX_LEVELS],
    /// Lines in a page less one, if next-line prefetch is on.
    next_line_page_mask: Option<u32>,
    dram: Dram,
    in_flight: InFlight,
    counters: Counters,
}

impl Hierarchy {
    /// An empty hierarchy.
    ///
    /// # Errors
    ///
    /// Names the first parameter that is out of its range.
    pub fn new(parameters: &HierarchyParameters) -> Result<Self, ParameterError> {
        let shapes = parameters.shapes()?;
        let first_latency_cycles = parameters.levels[0].latency_cycles;
        let mut hit_stall_cycles = [0; MAX_LEVELS];
        for (stall_cycles, level) in hit_stall_cycles.iter_mut().zip(&parameters.levels) {
            *stall_cycles = level.latency_cycles - first_latency_cycles;
        }
        Ok(Self {
            first: Cache::new(shapes[0]),
            instructions: None,
            further: shapes[1..].iter().copied().map(Level::new).collect(),
            policy: parameters.policy,
            hit_stall_cycles,
            next_line_page_mask: parameters
                .next_line_prefetch
                .then_some(PAGE_BYTES / parameters.line_bytes - 1),
            dram: Dram::new(&parameters.dram, first_latency_cycles),
            in_flight: InFlight::new(),
            counters: Counters::default(),
        })
    }

    /// Adds a cache for instructions beside the first level; fetches that it cannot answer go to the
    /// levels below. Lines have 64 bytes.
    ///
    /// # Errors
    ///
    /// The number of sets is not a power of two, or the levels are inclusive.
    pub fn with_instruction_cache(mut self, size: CacheSize) -> Result<Self, ParameterError> {
        if self.policy == Policy::Inclusive {
            return Err(ParameterError::new(
                "l1i.size_kib",
                size.size_kib,
                "expected levels that are exclusive or independent",
            ));
        }
        self.instructions = Some(Cache::new(size.shape("l1i")?));
        Ok(self)
    }

    /// One demand access, read or write, to `line` at `now`.
    ///
    /// Afterwards the line is the most recently used of its first-level set.
    #[inline]
    pub fn access(&mut self, line: Line, now: u64) -> Access {
        debug_assert_ne!(line, Line::EMPTY, "line number reserved for empty ways");
        if self.in_flight.all_arrived(now) && self.first.promote_from_first_two(line) {
            self.counters.answered[0] += 1;
            return Access {
                level: 0,
                stall_cycles: 0,
            };
        }
        self.access_further(line, now)
    }

    /// A fetch of instructions in `line` at `now`: as [`access`](Self::access), but through the
    /// instruction cache. Without one it is free.
    pub fn fetch(&mut self, line: Line, now: u64) -> Access {
        let Some(instructions) = &mut self.instructions else {
            return Access {
                level: 0,
                stall_cycles: 0,
            };
        };
        std::mem::swap(&mut self.first, instructions);
        let access = self.access(line, now);
        if let Some(data) = &mut self.instructions {
            std::mem::swap(&mut self.first, data);
        }
        access
    }

    /// Demand accesses to `lines`: the first at `now`, each other as soon as the one before it is
    /// done.
    ///
    /// The result is that of one call of [`access`](Self::access) a line; in the hierarchy of
    /// `two_levels.rs` it takes less than half the time.
    #[inline(never)]
    pub fn access_all(&mut self, lines: &[Line], now: u64) -> Tally {
        if let Some(two_levels) = self.two_levels(now) {
            return two_levels.access_all(lines, now);
        }
        let mut tally = Tally::default();
        for line in lines {
            let access = self.access(*line, now + tally.stall_cycles);
            tally.stall_cycles += u64::from(access.stall_cycles);
            tally.misses[0] += u64::from(access.level >= 1);
            tally.misses[1] += u64::from(access.level >= 2);
        }
        tally
    }

    /// The hierarchy as the one of `two_levels.rs`, if it has that form and no prefetch is under way.
    #[inline]
    fn two_levels(&mut self, now: u64) -> Option<TwoLevels<'_>> {
        if self.policy != Policy::Inclusive || !self.in_flight.all_arrived(now) {
            return None;
        }
        let [Level::Ordered(second)] = &mut *self.further else {
            return None;
        };
        Some(TwoLevels {
            first: self.first.pairs()?,
            second,
            hit_stall_cycles: self.hit_stall_cycles[1],
            next_line_page_mask: self.next_line_page_mask.unwrap_or(0),
            dram: &mut self.dram,
            counters: &mut self.counters,
        })
    }

    /// An access to a line that is not in the two most recent ways of the first level.
    #[inline(never)]
    fn access_further(&mut self, line: Line, now: u64) -> Access {
        let level = self.bring(line);
        let hit_stall_cycles = self.stall_cycles(level, now);
        if level > self.further.len() {
            self.prefetch_next_line(line, now);
        }
        let wait_cycles = if self.in_flight.all_arrived(now) {
            0
        } else {
            self.in_flight.wait_for(line, now)
        };
        let stall_cycles = hit_stall_cycles.max(wait_cycles);
        self.counters.late_prefetches += u64::from(wait_cycles > 0);
        self.counters.answered[level] += 1;
        self.counters.stall_cycles += u64::from(stall_cycles);
        Access {
            level: level as u8,
            stall_cycles,
        }
    }

    /// Requests a `line` at `now` without waiting for it.
    ///
    /// The line enters the caches as if accessed. It arrives when it would arrive for a demand
    /// access at `now`. An access before that waits for the rest of the time. A software prefetch
    /// starts no next-line prefetch.
    pub fn prefetch(&mut self, line: Line, now: u64) {
        debug_assert_ne!(line, Line::EMPTY, "line number reserved for empty ways");
        let level = self.bring(line);
        if level == 0 {
            return;
        }
        self.counters.software_prefetches += 1;
        let arrives_at = now.saturating_add(u64::from(self.stall_cycles(level, now)));
        self.in_flight.insert(line, arrives_at, now);
    }

    /// Drops `line` from every level, because a device has written to it.
    pub fn invalidate(&mut self, line: Line) {
        let mut found = self.first.remove(line);
        for cache in &mut self.further {
            found |= cache.remove(line);
        }
        self.in_flight.remove(line);
        self.counters.invalidations += u64::from(found);
    }

    /// Whether `level` (0 is the first) contains `line`; changes nothing.
    #[must_use]
    pub fn contains(&self, level: usize, line: Line) -> bool {
        match level.checked_sub(1) {
            None => self.first.contains(line),
            Some(index) => (self.further.get(index)).is_some_and(|cache| cache.contains(line)),
        }
    }

    /// Counts since the hierarchy was built.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Stall of an access at `now` that `level` answers; a read from DRAM waits for the channel.
    #[inline]
    fn stall_cycles(&mut self, level: usize, now: u64) -> u32 {
        if level > self.further.len() {
            self.dram.read(now)
        } else {
            self.hit_stall_cycles[level]
        }
    }

    /// Brings `line` to the front of its first-level set; returns the level that had it, which is
    /// the number of levels if none had.
    #[inline]
    fn bring(&mut self, line: Line) -> usize {
        match self.policy {
            Policy::Exclusive => self.move_up(line),
            Policy::Inclusive => self.fill_up::<true>(line),
            Policy::NonInclusive => self.fill_up::<false>(line),
        }
    }

    /// Moves `line` from the level that has it to the first; each level's victim moves down by one.
    #[inline]
    fn move_up(&mut self, line: Line) -> usize {
        if self.first.promote(line) {
            return 0;
        }
        let found = self.further.iter_mut().position(|cache| cache.remove(line));
        let mut moving = self.first.insert(line);
        for cache in &mut self.further {
            let Some(victim) = moving else { break };
            moving = cache.insert(victim);
        }
        found.unwrap_or(self.further.len()) + 1
    }

    /// Copies `line` from the level that has it into those above, the lowest first, as the line
    /// passes them. An inclusive level's victims leave the levels above it too.
    #[inline]
    fn fill_up<const INCLUSIVE: bool>(&mut self, line: Line) -> usize {
        if self.first.promote(line) {
            return 0;
        }
        let found = self
            .further
            .iter_mut()
            .position(|cache| cache.promote(line));
        let found = found.unwrap_or(self.further.len());
        for level in (0..found).rev() {
            let evicted = self.further[level].insert(line);
            if INCLUSIVE {
                self.purge_above(level, evicted);
            }
        }
        self.first.insert(line);
        found + 1
    }

    /// Removes the line that `further[level]` has `evicted` from the levels above it.
    #[inline]
    fn purge_above(&mut self, level: usize, evicted: Option<Line>) {
        if let Some(victim) = evicted {
            for cache in &mut self.further[..level] {
                cache.remove(victim);
            }
            self.first.remove(victim);
        }
    }

    /// Brings the line after `line` into the last level, after a demand access that DRAM answered.
    ///
    /// It can be used at once: DRAM streams it right behind the line the processor is waiting for
    /// (and the channel is busy with both).
    #[inline(never)]
    fn prefetch_next_line(&mut self, line: Line, now: u64) {
        let Some(page_mask) = self.next_line_page_mask else {
            return;
        };
        // The reserved number is the last one, so a line that may be accessed has a successor.
        let next = Line(line.0 + 1);
        if next.0 & page_mask == 0 || next == Line::EMPTY {
            return;
        }
        let last = self.further.len();
        // An exclusive hierarchy has a line in one level only.
        let first_of_interest = match self.policy {
            Policy::Exclusive => 0,
            Policy::Inclusive | Policy::NonInclusive => last,
        };
        if (first_of_interest..=last).any(|level| self.contains(level, next)) {
            return;
        }
        if let Some(index) = last.checked_sub(1) {
            let evicted = self.further[index].insert(next);
            if self.policy == Policy::Inclusive {
                self.purge_above(index, evicted);
            }
        } else {
            self.first.insert(next);
        }
        self.dram.read(now);
        self.counters.next_line_prefetches += 1;
    }
}
