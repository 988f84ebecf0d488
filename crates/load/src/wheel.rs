//! One timer for each of many connections, set and cancelled in constant time.
//!
//! A hierarchical timing wheel (Varghese and Lauck, SOSP 1987): six levels of 64 slots, each level
//! 64 times coarser than the one below. A timer waits in the slot of the highest digit in which its
//! time differs from now, and falls to finer levels as that time nears. Timers are entries of one
//! array linked by index, so nothing is allocated after the start. A heap would cost a comparison
//! tree for each of the thousands of connections that a paced load moves every few milliseconds.

/// Nanoseconds of a tick, as a power of two: 16.4 us. A timer is late by one tick at most.
const TICK_SHIFT: u32 = 14;
/// Bits of a level's digit.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 6;
/// Longest time that can be waited for, in ticks: 13 days.
const RANGE_TICKS: u64 = 1 << (DIGIT_BITS * LEVELS as u32);
const NONE: u32 = u32::MAX;

/// A timer's place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due_tick: u64,
    next: u32,
    previous: u32,
    /// Level x 64 + slot, or [`NONE`].
    place: u32,
}

/// Timers numbered from 0.
#[derive(Debug)]
pub(crate) struct Wheel {
    now_tick: u64,
    entries: Vec<Entry>,
    heads: [[u32; SLOTS]; LEVELS],
    occupied: [u64; LEVELS],
}

impl Wheel {
    /// A wheel of `timers` timers, none of them set, at time 0.
    pub(crate) fn new(timers: usize) -> Self {
        let unset = Entry {
            due_tick: 0,
            next: NONE,
            previous: NONE,
            place: NONE,
        };
        Self {
            now_tick: 0,
            entries: vec![unset; timers],
            heads: [[NONE; SLOTS]; LEVELS],
            occupied: [0; LEVELS],
        }
    }

    /// When a timer will fire, in nanoseconds, if it is set.
    #[inline]
    pub(crate) fn due_ns(&self, timer: u32) -> Option<u64> {
        let entry = &self.entries[timer as usize];
        (entry.place != NONE).then_some(entry.due_tick << TICK_SHIFT)
    }

    /// Sets a timer, in place of what it was set to. One in the past fires at the next expiry.
    #[inline]
    pub(crate) fn set(&mut self, timer: u32, due_ns: u64) {
        self.cancel(timer);
        let due_tick = due_ns.div_ceil(1 << TICK_SHIFT);
        // A slot that has been passed is looked at only a turn later.
        let due_tick = due_tick.clamp(self.now_tick + 1, self.now_tick + RANGE_TICKS - 1);
        self.entries[timer as usize].due_tick = due_tick;
        self.link(timer, due_tick);
    }

    /// Unsets a timer.
    #[inline]
    pub(crate) fn cancel(&mut self, timer: u32) {
        let Entry {
            next,
            previous,
            place,
            ..
        } = self.entries[timer as usize];
        if place == NONE {
            return;
        }
        let (level, slot) = (place as usize / SLOTS, place as usize % SLOTS);
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
        self.entries[timer as usize].place = NONE;
    }

    /// When to look again, in nanoseconds: no timer fires before.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.next_slot().map(|(.., tick)| tick << TICK_SHIFT)
    }

    /// Moves the time on and collects the timers that are due, unsetting them.
    pub(crate) fn expire(&mut self, now_ns: u64, fired: &mut Vec<u32>) {
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
                entry.place = NONE;
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

    /// Puts a timer at the head of the slot of its time.
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
        entry.place = (level * SLOTS + slot) as u32;
        self.occupied[level] |= 1 << slot;
    }

    /// Level, slot and tick of the first slot that holds a timer.
    #[inline]
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        // A finer level's timers all lie before the next slot of a coarser one.
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
    fn a_timer_that_is_set_again_fires_once_and_a_cancelled_one_never() {
        let mut wheel = Wheel::new(2);
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

    proptest! {
        /// Never early, at most a tick late, each exactly once, however time moves.
        #[test]
        fn timers_fire_in_time(
            dues in prop::collection::vec(0u64..400_000_000_000, 1..60),
            steps in prop::collection::vec(1u64..30_000_000_000, 1..40),
        ) {
            let mut wheel = Wheel::new(dues.len());
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
