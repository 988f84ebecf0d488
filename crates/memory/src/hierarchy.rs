//! Levels of caches in front of DRAM.

use crate::{
    Counters, HierarchyParameters, Line, MAX_LEVELS, ParameterError, Policy,
    cache::{Cache, Touch},
    dram::Dram,
    in_flight::InFlight,
    parameters::PAGE_BYTES,
};

/// How a demand access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The level that answered: 0 is the first; the number of levels means DRAM. A line that is
    /// still on its way counts as answered by the level it will be in.
    pub level: u8,
    /// Cycles that the processor stood still, beyond the latency of the first level: that latency
    /// is part of the processor's rate of one instruction per cycle, so a first-level hit stalls 0.
    pub stall_cycles: u32,
}

/// A memory hierarchy with what it holds.
///
/// Times are in processor cycles and may not decrease from call to call.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// The first `levels` are in use.
    caches: [Cache; MAX_LEVELS],
    levels: usize,
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
    /// Builds an empty hierarchy.
    ///
    /// # Errors
    ///
    /// Names the first parameter that is outside of what is allowed.
    pub fn new(parameters: &HierarchyParameters) -> Result<Self, ParameterError> {
        let shapes = parameters.shapes()?;
        let first_latency_cycles = parameters.levels[0].latency_cycles;
        let mut caches = [const { None }; MAX_LEVELS];
        let mut hit_stall_cycles = [0; MAX_LEVELS];
        for (index, (level, shape)) in parameters.levels.iter().zip(shapes).enumerate() {
            caches[index] = Some(Cache::new(shape));
            hit_stall_cycles[index] = level.latency_cycles - first_latency_cycles;
        }
        Ok(Self {
            caches: caches.map(Option::unwrap_or_default),
            levels: parameters.levels.len(),
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

    /// One demand access, read or write, to `line` at `now`.
    ///
    /// Afterwards the line is the most recently used of its first-level set.
    #[inline]
    pub fn access(&mut self, line: Line, now: u64) -> Access {
        debug_assert_ne!(line, Line::EMPTY, "line number reserved for empty ways");
        if self.in_flight.all_arrived(now) && self.caches[0].promote_from_first_two(line) {
            self.counters.answered[0] += 1;
            return Access {
                level: 0,
                stall_cycles: 0,
            };
        }
        self.access_further(line, now)
    }

    /// An access that the two most recent ways of the first level do not settle.
    #[inline(never)]
    fn access_further(&mut self, line: Line, now: u64) -> Access {
        let level = self.bring(line);
        let hit_stall_cycles = self.stall_cycles(level, now);
        if level == self.levels {
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

    /// Asks at `now` for a `line` that will be needed, without waiting for it.
    ///
    /// The line takes its place in the caches as if accessed, and can be used as soon as a demand
    /// access at `now` could have used it; an access before that waits for the rest. A software
    /// prefetch starts no next-line prefetch.
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
        let mut found = false;
        for cache in &mut self.caches[..self.levels] {
            found |= cache.remove(line);
        }
        self.in_flight.remove(line);
        self.counters.invalidations += u64::from(found);
    }

    /// Whether `level` (0 is the first) holds `line`; changes nothing.
    #[must_use]
    pub fn holds(&self, level: usize, line: Line) -> bool {
        self.caches[..self.levels]
            .get(level)
            .is_some_and(|cache| cache.holds(line))
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Stall of an access at `now` that `level` answers; a read from DRAM takes its turn.
    #[inline]
    fn stall_cycles(&mut self, level: usize, now: u64) -> u32 {
        match self.hit_stall_cycles[..self.levels].get(level) {
            Some(stall_cycles) => *stall_cycles,
            None => self.dram.read(now),
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

    /// Takes `line` out of the level that has it and puts it in the first; each level's victim
    /// moves down by one.
    #[inline]
    fn move_up(&mut self, line: Line) -> usize {
        let [first, further @ ..] = &mut self.caches[..self.levels] else {
            return 0;
        };
        if first.promote(line) {
            return 0;
        }
        let found = further.iter_mut().position(|cache| cache.remove(line));
        let mut moving = first.insert(line);
        for cache in further.iter_mut() {
            let Some(victim) = moving else { break };
            moving = cache.insert(victim);
        }
        found.unwrap_or(further.len()) + 1
    }

    /// Copies `line` from the level that has it into those above, the lowest first, as the line
    /// passes them; if inclusive, what a level evicts leaves the levels above it too.
    #[inline]
    fn fill_up<const INCLUSIVE: bool>(&mut self, line: Line) -> usize {
        let Some((last, above)) = self.caches[..self.levels].split_last_mut() else {
            return 0;
        };
        let mut found = above.iter_mut().position(|cache| cache.promote(line));
        if found.is_none() {
            match last.touch(line) {
                Touch::Hit => found = Some(above.len()),
                Touch::Miss { evicted } => purge::<INCLUSIVE>(above, evicted),
            }
        }
        for level in (0..found.unwrap_or(above.len()).min(above.len())).rev() {
            let evicted = above[level].insert(line);
            purge::<INCLUSIVE>(&mut above[..level], evicted);
        }
        found.unwrap_or(above.len() + 1)
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
        let Some((last, above)) = self.caches[..self.levels].split_last_mut() else {
            return;
        };
        let elsewhere = |line| above.iter().any(|cache| cache.holds(line));
        if last.holds(next) || self.policy == Policy::Exclusive && elsewhere(next) {
            return;
        }
        let evicted = last.insert(next);
        if self.policy == Policy::Inclusive {
            purge::<true>(above, evicted);
        }
        self.dram.read(now);
        self.counters.next_line_prefetches += 1;
    }
}

/// If inclusive, takes the line that a level `evicted` out of the levels `above` it.
#[inline]
fn purge<const INCLUSIVE: bool>(above: &mut [Cache], evicted: Option<Line>) {
    match evicted {
        Some(victim) if INCLUSIVE => {
            for cache in above {
                cache.remove(victim);
            }
        }
        _ => {}
    }
}
