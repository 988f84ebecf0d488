//! Lines of software prefetches that may not have arrived yet.
//!
//! A prefetched line enters the caches at once. This table has the time from which the line can be
//! used. The table is read only while a line has not arrived, so without software prefetch it costs
//! one comparison per access.

use crate::Line;
use rustc_hash::FxHashMap;

/// If the table has more lines than this, the lines that have arrived are removed.
const SWEEP_ABOVE: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    arrives_at: FxHashMap<Line, u64>,
    /// Time at which the last of the lines arrives.
    all_arrived_at: u64,
    sweep_above: usize,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        Self {
            arrives_at: FxHashMap::default(),
            all_arrived_at: 0,
            sweep_above: SWEEP_ABOVE,
        }
    }

    /// Whether all lines have arrived at `now`.
    #[inline]
    pub(crate) fn all_arrived(&self, now: u64) -> bool {
        now >= self.all_arrived_at
    }

    /// Records that `line` can be used without a stall from `arrives_at` on. If the table already
    /// has a later arrival of `line`, from another prefetch, the later arrival stays.
    pub(crate) fn insert(&mut self, line: Line, arrives_at: u64, now: u64) {
        if self.arrives_at.len() >= self.sweep_above {
            self.arrives_at.retain(|_, arrives_at| *arrives_at > now);
            // Doubling the limit makes the mean cost of a prefetch constant.
            self.sweep_above = SWEEP_ABOVE.max(2 * self.arrives_at.len());
        }
        let noted = self.arrives_at.entry(line).or_insert(arrives_at);
        *noted = arrives_at.max(*noted);
        self.all_arrived_at = self.all_arrived_at.max(arrives_at);
    }

    /// Cycles from `now` until `line` arrives, or 0 if it is not in the table. Removes the line,
    /// because the caller waits for it.
    #[inline(never)]
    pub(crate) fn wait_for(&mut self, line: Line, now: u64) -> u32 {
        let Some(arrives_at) = self.arrives_at.remove(&line) else {
            return 0;
        };
        u32::try_from(arrives_at.saturating_sub(now)).unwrap_or(u32::MAX)
    }

    pub(crate) fn remove(&mut self, line: Line) {
        if !self.arrives_at.is_empty() {
            self.arrives_at.remove(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_never_accessed_do_not_accumulate() {
        let mut in_flight = InFlight::new();
        for now in 0..10_000 {
            in_flight.insert(Line(now), u64::from(now) + 100, u64::from(now));
        }
        assert!(in_flight.arrives_at.len() <= SWEEP_ABOVE);
        assert_eq!(in_flight.wait_for(Line(9_950), 10_000), 50, "still there");
        assert!(!in_flight.all_arrived(10_098));
        assert!(in_flight.all_arrived(10_099));
    }

    #[test]
    fn the_table_has_room_for_many_lines_on_their_way() {
        let mut in_flight = InFlight::new();
        for line in 0..10_000 {
            in_flight.insert(Line(line), 100, 0);
        }
        for line in 0..10_000 {
            assert_eq!(in_flight.wait_for(Line(line), 40), 60);
        }
    }
}
