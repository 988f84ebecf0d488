//! Levels of caches in front of DRAM.

use rustc_hash::FxHashSet;

use crate::{
    CacheSize, Counters, HierarchyParameters, Line, MAX_LEVELS, ParameterError, Policy,
    cache::Cache, dram::Dram, in_flight::InFlight, level::Level, parameters::PAGE_BYTES,
    two_levels::TwoLevels,
};

/// The result of a demand access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The level that answered. 0 is the first level. A value equal to the number of levels is
    /// DRAM. A prefetched line that has not arrived counts for the level that it will be in.
    pub level: u8,
    /// Cycles for which the processor stalled beyond the latency of the first level. That latency
    /// is part of the processor's rate of one instruction per cycle, so a hit in the first level
    /// stalls for 0 cycles.
    pub stall_cycles: u32,
}

/// The sums of several demand accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cycles for which the processor stalled.
    pub stall_cycles: u64,
    /// Accesses that the first level could not answer, and accesses that the second level could not
    /// answer either.
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
    /// The levels below the first, the highest one first.
    further: Box<[Level]>,
    policy: Policy,
    hit_stall_cycles: [u32; MAX_LEVELS],
    /// Number of lines in a page minus one, if next-line prefetch is on.
    next_line_page_mask: Option<u32>,
    dram: Dram,
    device_writes: Option<DeviceWrites>,
    in_flight: InFlight,
    counters: Counters,
}

/// Lines that a device has written and nothing has read since.
#[derive(Clone, Debug)]
struct DeviceWrites {
    unread: FxHashSet<Line>,
    /// Stall of the first read, beyond that of any read from DRAM.
    first_read_cycles: u32,
}

impl Hierarchy {
    /// An empty hierarchy.
    ///
    /// # Errors
    ///
    /// The error names the first parameter that is out of its range.
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
            device_writes: None,
            in_flight: InFlight::new(),
            counters: Counters::default(),
        })
    }

    /// Adds a cache for instructions beside the first level. Fetches that it cannot answer go to
    /// the lower levels. Lines must have 64 bytes.
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

    /// Lets the first read of a line that a device has written stall for `cycles` more than any
    /// other read from DRAM. A prefetch is such a read too, and no access waits for that of a next
    /// line.
    #[must_use]
    pub fn with_device_writes(mut self, cycles: u32) -> Self {
        self.device_writes = (cycles > 0).then(|| DeviceWrites {
            unread: FxHashSet::default(),
            first_read_cycles: cycles,
        });
        self
    }

    /// Performs one demand access, read or write, to `line` at `now`.
    ///
    /// Afterwards, `line` is the most recently used line of its first-level set.
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

    /// Fetches instructions in `lines`, one after another from `now` on. Each fetch is an
    /// [`access`](Self::access) through the instruction cache. Without an instruction cache, a
    /// fetch has no cost.
    pub fn fetch_all(&mut self, lines: &[Line], now: u64) -> Tally {
        let Some(instructions) = &mut self.instructions else {
            return Tally::default();
        };
        std::mem::swap(&mut self.first, instructions);
        let tally = self.access_each(lines, now);
        if let Some(data) = &mut self.instructions {
            std::mem::swap(&mut self.first, data);
        }
        tally
    }

    /// Performs demand accesses to `lines`. The first starts at `now`, and each other starts when
    /// the previous one is done.
    ///
    /// The result is the same as with one call of [`access`](Self::access) for each line. In the
    /// hierarchy of `two_levels.rs`, this function needs less than half the time.
    #[inline(never)]
    pub fn access_all(&mut self, lines: &[Line], now: u64) -> Tally {
        if let Some(two_levels) = self.two_levels(now) {
            return two_levels.access_all(lines, now);
        }
        self.access_each(lines, now)
    }

    /// The accesses of [`access_all`](Self::access_all), one by one.
    fn access_each(&mut self, lines: &[Line], now: u64) -> Tally {
        let mut tally = Tally::default();
        for line in lines {
            let access = self.access(*line, now + tally.stall_cycles);
            tally.stall_cycles += u64::from(access.stall_cycles);
            tally.misses[0] += u64::from(access.level >= 1);
            tally.misses[1] += u64::from(access.level >= 2);
        }
        tally
    }

    /// The hierarchy in the form of `two_levels.rs`, if it has that form and no prefetch is under
    /// way.
    #[inline]
    fn two_levels(&mut self, now: u64) -> Option<TwoLevels<'_>> {
        if self.policy != Policy::Inclusive
            || self.device_writes.is_some()
            || !self.in_flight.all_arrived(now)
        {
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
        let hit_stall_cycles = self.stall_cycles(level, line, now);
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
    /// The line enters the caches as if it were accessed. It arrives at the time at which it would
    /// arrive for a demand access at `now`. An access before that time waits until then. A
    /// software prefetch starts no next-line prefetch.
    pub fn prefetch(&mut self, line: Line, now: u64) {
        debug_assert_ne!(line, Line::EMPTY, "line number reserved for empty ways");
        let level = self.bring(line);
        if level == 0 {
            return;
        }
        self.counters.software_prefetches += 1;
        let arrives_at = now.saturating_add(u64::from(self.stall_cycles(level, line, now)));
        self.in_flight.insert(line, arrives_at, now);
    }

    /// Drops `line` from every level, because a device has written to it. The next read of the line
    /// is the first after this write.
    pub fn invalidate(&mut self, line: Line) {
        let mut was_cached = self.first.remove(line);
        for cache in &mut self.further {
            was_cached |= cache.remove(line);
        }
        self.in_flight.remove(line);
        if let Some(writes) = &mut self.device_writes {
            writes.unread.insert(line);
        }
        self.counters.invalidations += u64::from(was_cached);
    }

    /// Whether `level` (0 is the first) contains `line`. Changes nothing.
    pub fn contains(&self, level: usize, line: Line) -> bool {
        match level.checked_sub(1) {
            None => self.first.contains(line),
            Some(index) => (self.further.get(index)).is_some_and(|cache| cache.contains(line)),
        }
    }

    /// Counts since the hierarchy was built.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Stall of an access to `line` at `now` that `level` answers. A read from DRAM waits for the
    /// channel.
    #[inline]
    fn stall_cycles(&mut self, level: usize, line: Line, now: u64) -> u32 {
        if level <= self.further.len() {
            return self.hit_stall_cycles[level];
        }
        let first_read_cycles = self.first_read_cycles(line);
        self.dram.read(now).saturating_add(first_read_cycles)
    }

    /// Stall of a read of `line` from DRAM because it is the first after a device has written the
    /// line. The next read is not the first.
    fn first_read_cycles(&mut self, line: Line) -> u32 {
        let Some(writes) = &mut self.device_writes else {
            return 0;
        };
        if writes.unread.remove(&line) {
            writes.first_read_cycles
        } else {
            0
        }
    }

    /// Moves `line` to the front of its first-level set. Returns the level that contained the line,
    /// or the number of levels if none did.
    #[inline]
    fn bring(&mut self, line: Line) -> usize {
        match self.policy {
            Policy::Exclusive => self.move_up(line),
            Policy::Inclusive => self.fill_up::<true>(line),
            Policy::NonInclusive => self.fill_up::<false>(line),
        }
    }

    /// Moves `line` from the level that contains it to the first level. The line that a level
    /// evicts moves down by one level.
    #[inline]
    fn move_up(&mut self, line: Line) -> usize {
        if self.first.promote(line) {
            return 0;
        }
        let level = self.further.iter_mut().position(|cache| cache.remove(line));
        let mut moving = self.first.insert(line);
        for cache in &mut self.further {
            let Some(victim) = moving else { break };
            moving = cache.insert(victim);
        }
        level.unwrap_or(self.further.len()) + 1
    }

    /// Copies `line` from the level that contains it into all levels above, the lowest first. A
    /// line that an inclusive level evicts leaves the levels above too.
    #[inline]
    fn fill_up<const INCLUSIVE: bool>(&mut self, line: Line) -> usize {
        if self.first.promote(line) {
            return 0;
        }
        let mut further = self.further.iter_mut();
        let depth = further.position(|cache| cache.promote(line));
        let depth = depth.unwrap_or(self.further.len());
        for level in (0..depth).rev() {
            let evicted = self.further[level].insert(line);
            if INCLUSIVE {
                self.purge_above(level, evicted);
            }
        }
        self.first.insert(line);
        depth + 1
    }

    /// Removes `evicted`, which `further[level]` has evicted, from the levels above that level.
    #[inline]
    fn purge_above(&mut self, level: usize, evicted: Option<Line>) {
        if let Some(victim) = evicted {
            for cache in &mut self.further[..level] {
                cache.remove(victim);
            }
            self.first.remove(victim);
        }
    }

    /// Loads the line after `line` into the last level, after a demand access that DRAM answered.
    ///
    /// The line can be used at once, because DRAM transfers it directly after the line for which
    /// the processor waits. The channel is busy with both.
    #[inline(never)]
    fn prefetch_next_line(&mut self, line: Line, now: u64) {
        let Some(page_mask) = self.next_line_page_mask else {
            return;
        };
        // The highest number is reserved, so a line that may be accessed has a successor.
        let next = Line(line.0 + 1);
        if next.0 & page_mask == 0 || next == Line::EMPTY {
            return;
        }
        let last = self.further.len();
        // In an exclusive hierarchy, a line is in one level only.
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
        self.first_read_cycles(next);
        self.counters.next_line_prefetches += 1;
    }
}
