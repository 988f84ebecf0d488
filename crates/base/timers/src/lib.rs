//! Timers for many connections or streams, set and cancelled in constant time.
//!
//! [`TimerWheel`] is a hierarchical timing wheel (Varghese and Lauck, SOSP 1987): six levels of 64
//! slots, each level 64 times coarser than the one below. The levels are the digits of the tick in
//! base 64. A timer is in the level of the highest digit in which its due tick differs from the
//! current tick. As the due tick comes closer, the timer moves to finer levels. Timers are entries
//! of one array and are linked by index, so setting a timer allocates nothing. A heap would need a
//! logarithmic number of comparisons for each timer that moves.
//!
//! The wheel reads no clock: the caller passes the time in nanoseconds of any monotonic clock.

#![forbid(unsafe_code)]

/// Length of a tick in nanoseconds, as a power of two: 16.4 us. A timer fires at most one tick
/// late.
const TICK_SHIFT: u32 = 14;
/// Bits of a level's digit.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 6;
/// The longest delay in ticks: 13 days. A later timer fires after this delay.
const RANGE_TICKS: u64 = 1 << (DIGIT_BITS * LEVELS as u32);
/// Maximum number of timers in a slot that [`TimerWheel::next_ns`] compares.
const COMPARED_TIMERS: usize = 4;
const NONE: u32 = u32::MAX;

/// One timer: its due time and its links.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due_tick: u64,
    next: u32,
    previous: u32,
    /// Level x 64 + slot, or [`NONE`] if the timer is not set.
    position: u32,
}

const UNSET: Entry = Entry {
    due_tick: 0,
    next: NONE,
    previous: NONE,
    position: NONE,
};

/// A set of timers, numbered from 0.
#[derive(Debug)]
pub struct TimerWheel {
    now_tick: u64,
    entries: Vec<Entry>,
    heads: [[u32; SLOTS]; LEVELS],
    occupied: [u64; LEVELS],
}

impl TimerWheel {
    /// A wheel that starts at a time and has room for `timers` timers. No timer is set.
    pub fn new(now_ns: u64, timers: usize) -> Self {
        Self {
            now_tick: now_ns >> TICK_SHIFT,
            entries: vec![UNSET; timers],
            heads: [[NONE; SLOTS]; LEVELS],
            occupied: [0; LEVELS],
        }
    }

    /// The time at which a timer fires, in nanoseconds; `None` if it is not set.
    #[inline]
    pub fn due_ns(&self, timer: u32) -> Option<u64> {
        let entry = self.entries.get(timer as usize)?;
        (entry.position != NONE).then_some(entry.due_tick << TICK_SHIFT)
    }

    /// Sets a timer and replaces its earlier time. If the time is in the past, the timer fires at
    /// the next [`Self::expire`] that is at least one tick later. If the number is above the
    /// wheel's capacity, the wheel grows.
    #[inline]
    pub fn set(&mut self, timer: u32, due_ns: u64) {
        if timer as usize >= self.entries.len() {
            self.entries.resize(timer as usize + 1, UNSET);
        }
        self.cancel(timer);
        let due_tick = due_ns.div_ceil(1 << TICK_SHIFT);
        // The timers of the current slot have fired. A timer added to it now would wait for one
        // cycle of the level.
        let due_tick = due_tick.clamp(self.now_tick + 1, self.now_tick + RANGE_TICKS - 1);
        self.entries[timer as usize].due_tick = due_tick;
        self.link(timer, due_tick);
    }

    /// Cancels a timer. If the timer is not set, nothing happens.
    #[inline]
    pub fn cancel(&mut self, timer: u32) {
        let Some(&Entry {
            next,
            previous,
            position,
            ..
        }) = self.entries.get(timer as usize)
        else {
            return;
        };
        if position == NONE {
            return;
        }
        let (level, slot) = (position as usize / SLOTS, position as usize % SLOTS);
        if previous == NONE {
            self.heads[level][slot] = next;
            if next == NONE {
                self.occupied[level] &= !(1 << slot);
            }
        } else {
            self.entries[previous as usize].next = next;
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        self.entries[timer as usize].position = NONE;
    }

    /// A time before which no timer fires, in nanoseconds; `None` if no timer is set. It is exactly
    /// the time of the next timer, unless several timers share a coarse slot.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        let (level, slot, tick) = self.next_slot()?;
        let next_tick = match level {
            0 => tick,
            // If this returned the start of the slot, the caller would wake up once more for each
            // finer level.
            _ => self.first_due_tick(level, slot).unwrap_or(tick),
        };
        Some(next_tick << TICK_SHIFT)
    }

    /// The first due tick of a slot with few timers.
    fn first_due_tick(&self, level: usize, slot: usize) -> Option<u64> {
        let mut timer = self.heads[level][slot];
        let mut first = u64::MAX;
        for _ in 0..COMPARED_TIMERS {
            if timer == NONE {
                return Some(first);
            }
            let entry = &self.entries[timer as usize];
            first = first.min(entry.due_tick);
            timer = entry.next;
        }
        (timer == NONE).then_some(first)
    }

    /// Advances the time. Appends the due timers to `fired`, in order of time, and clears them.
    pub fn expire(&mut self, now_ns: u64, fired: &mut Vec<u32>) {
        let now_tick = now_ns >> TICK_SHIFT;
        while let Some((level, slot, tick)) = self.next_slot()
            && tick <= now_tick
        {
            self.now_tick = tick;
            let mut timer = core::mem::replace(&mut self.heads[level][slot], NONE);
            self.occupied[level] &= !(1 << slot);
            while timer != NONE {
                let entry = &mut self.entries[timer as usize];
                let (next, due_tick) = (entry.next, entry.due_tick);
                entry.position = NONE;
                if due_tick <= tick {
                    fired.push(timer);
                } else {
                    self.link(timer, due_tick);
                }
                timer = next;
            }
        }
        self.now_tick = self.now_tick.max(now_tick);
    }

    /// Links a timer at the head of its slot.
    fn link(&mut self, timer: u32, due_tick: u64) {
        let differing = (self.now_tick ^ due_tick) | (SLOTS as u64 - 1);
        let level = ((63 - differing.leading_zeros()) / DIGIT_BITS).min(LEVELS as u32 - 1);
        let slot = (due_tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        let level = level as usize;
        let head = core::mem::replace(&mut self.heads[level][slot], timer);
        if head != NONE {
            self.entries[head as usize].previous = timer;
        }
        let entry = &mut self.entries[timer as usize];
        entry.next = head;
        entry.previous = NONE;
        entry.position = (level * SLOTS + slot) as u32;
        self.occupied[level] |= 1 << slot;
    }

    /// Level, slot and first tick of the earliest slot that has a timer.
    #[inline]
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        // All timers of a finer level are due before the next slot of a coarser one begins.
        let level = (0..LEVELS).find(|level| self.occupied[*level] != 0)?;
        let shift = level as u32 * DIGIT_BITS;
        let now_slot = (self.now_tick >> shift) as u32 % SLOTS as u32;
        let ahead = self.occupied[level].rotate_right(now_slot).trailing_zeros();
        let slot = (now_slot + ahead) as usize % SLOTS;
        let turn_ticks = 1u64 << (shift + DIGIT_BITS);
        let mut tick = (self.now_tick & !(turn_ticks - 1)) + ((slot as u64) << shift);
        if slot < now_slot as usize {
            // Only the coarsest level wraps around.
            tick += turn_ticks;
        }
        Some((level, slot, tick))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_timer_set_twice_fires_once_and_a_cancelled_timer_never_fires() {
        let mut wheel = TimerWheel::new(0, 2);
        wheel.set(0, 1_000_000);
        wheel.set(0, 5_000_000);
        wheel.set(1, 2_000_000);
        wheel.cancel(1);
        let mut fired = Vec::new();
        wheel.expire(4_900_000, &mut fired);
        assert!(fired.is_empty(), "{fired:?}");
        wheel.expire(5_100_000, &mut fired);
        assert_eq!(fired, [0]);
        wheel.expire(1_000_000_000, &mut fired);
        assert_eq!(fired, [0]);
        assert_eq!(wheel.next_ns(), None);
    }

    #[test]
    fn a_wheel_grows_and_starts_at_any_time() {
        let month_ns = 30 * 86_400 * 1_000_000_000;
        let mut wheel = TimerWheel::new(month_ns, 0);
        assert_eq!(wheel.due_ns(7), None);
        wheel.cancel(7);
        wheel.set(7, month_ns + 20_000_000);
        let mut fired = Vec::new();
        wheel.expire(month_ns + 19_000_000, &mut fired);
        assert!(fired.is_empty(), "{fired:?}");
        wheel.expire(month_ns + 20_100_000, &mut fired);
        assert_eq!(fired, [7]);
    }

    proptest! {
        /// If only one timer is set, a caller that sleeps until `next_ns` wakes up once.
        #[test]
        fn one_timer_needs_one_wake_up(now in 0u64..1_000_000_000, delay in 0u64..500_000_000_000) {
            let mut wheel = TimerWheel::new(now, 1);
            wheel.set(0, now + delay);
            let wake_ns = wheel.next_ns().unwrap();
            prop_assert!(wake_ns >= now + delay);
            prop_assert!(wake_ns <= now + delay + 2 * (1 << TICK_SHIFT));
            let mut fired = Vec::new();
            wheel.expire(wake_ns, &mut fired);
            prop_assert_eq!(fired, [0]);
        }

        /// Each timer fires exactly once, never early and at most one tick late.
        #[test]
        fn every_timer_fires_in_time(
            dues in prop::collection::vec(0u64..400_000_000_000, 1..60),
            steps in prop::collection::vec(1u64..30_000_000_000, 1..40),
        ) {
            let mut wheel = TimerWheel::new(0, dues.len());
            for (timer, due_ns) in dues.iter().enumerate() {
                wheel.set(timer as u32, *due_ns);
            }
            let mut seen = vec![false; dues.len()];
            let (mut before, mut now) = (0, 0);
            for step in steps {
                now += step;
                if let Some(next) = wheel.next_ns() {
                    let first = dues.iter().zip(&seen).filter(|(_, seen)| !**seen)
                        .map(|(due, _)| *due).min();
                    prop_assert!(next <= first.unwrap().max(before) + 2 * (1 << TICK_SHIFT));
                }
                let mut fired = Vec::new();
                wheel.expire(now, &mut fired);
                for timer in fired {
                    prop_assert!(!seen[timer as usize]);
                    seen[timer as usize] = true;
                    prop_assert!(dues[timer as usize] <= now);
                }
                for (due_ns, seen) in dues.iter().zip(&seen) {
                    prop_assert!(*seen || due_ns + 2 * (1 << TICK_SHIFT) > now);
                }
                before = now;
            }
        }
    }
}
