//! Sequences of accesses to the most usual hierarchy. It has two inclusive levels: the first has
//! two ways, and the second has 16. All software prefetches must have arrived.
//!
//! An access has the effects that [`Hierarchy`](crate::Hierarchy) describes. Here the number of
//! levels, their forms and the policy are known at compile time, which halves the instructions of
//! an access.

use crate::{Counters, Line, cache::Pairs, dram::Dram, hierarchy::Tally, ordered::OrderedCache};

pub(crate) struct TwoLevels<'a> {
    pub(crate) first: Pairs<'a>,
    pub(crate) second: &'a mut OrderedCache,
    /// Stall of a hit in the second level.
    pub(crate) hit_stall_cycles: u32,
    /// Number of lines in a page minus one; 0 without next-line prefetch.
    pub(crate) next_line_page_mask: u32,
    pub(crate) dram: &'a mut Dram,
    pub(crate) counters: &'a mut Counters,
}

impl TwoLevels<'_> {
    /// Accesses the lines one after another from `now` on.
    #[inline]
    pub(crate) fn access_all(mut self, lines: &[Line], now: u64) -> Tally {
        let mut tally = Tally::default();
        for &line in lines {
            debug_assert_ne!(line, Line::EMPTY, "line number reserved for empty ways");
            self.access(line, now, &mut tally);
        }
        let [first_misses, second_misses] = tally.misses;
        let answered = &mut self.counters.answered;
        answered[0] += lines.len() as u64 - first_misses;
        answered[1] += first_misses - second_misses;
        answered[2] += second_misses;
        self.counters.stall_cycles += tally.stall_cycles;
        tally
    }

    #[inline(always)]
    fn access(&mut self, line: Line, started: u64, tally: &mut Tally) {
        if self.first.promote(line) {
            return;
        }
        tally.misses[0] += 1;
        if self.second.promote(line) {
            tally.stall_cycles += u64::from(self.hit_stall_cycles);
        } else {
            tally.misses[1] += 1;
            let now = started + tally.stall_cycles;
            self.fill_second(line);
            self.first.insert(line);
            tally.stall_cycles += u64::from(self.dram.read(now));
            // Prefetch only now, because the prefetch may evict a line in the same set of the first
            // level.
            self.prefetch_next_line(line, now);
            return;
        }
        self.first.insert(line);
    }

    #[inline(always)]
    fn prefetch_next_line(&mut self, line: Line, now: u64) {
        let next = Line(line.0 + 1);
        let ends_page = next.0 & self.next_line_page_mask == 0;
        if ends_page || next == Line::EMPTY || self.second.contains(next) {
            return;
        }
        self.fill_second(next);
        self.dram.read(now);
        self.counters.next_line_prefetches += 1;
    }

    /// Puts a line into the second level. The evicted line leaves the first level too.
    #[inline(always)]
    fn fill_second(&mut self, line: Line) {
        if let Some(victim) = self.second.insert(line) {
            self.first.remove(victim);
        }
    }
}
