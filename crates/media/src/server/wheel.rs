//! Deadlines of many streams: a wheel of short slots (Varghese and Lauck, SOSP 1987).
//!
//! Setting and taking a deadline costs the same whatever the number of streams. Deadlines are
//! absolute; one beyond the wheel's turn waits in its slot for the turn it belongs to.

/// Log2 of the nanoseconds in a slot: 262 us, far below the lateness that matters.
const SLOT_SHIFT: u32 = 18;

/// Slots in a turn, which takes 1.07 s.
const SLOTS: u64 = 4096;

/// Nanoseconds in a slot.
const SLOT_NS: u64 = 1 << SLOT_SHIFT;

/// A wheel of deadlines.
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Vec<Vec<Entry>>,
    occupied: [u64; SLOTS as usize / 64],
    /// Number of the first slot that has not been emptied.
    current: u64,
    spare: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    due_ns: u64,
    token: u64,
}

impl Wheel {
    /// A wheel that starts at a time.
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; SLOTS as usize / 64],
            current: now_ns >> SLOT_SHIFT,
            spare: Vec::new(),
        }
    }

    /// Asks for a token back at a time; at once, if the time has passed.
    pub(super) fn set(&mut self, due_ns: u64, token: u64) {
        // A deadline within a slot is served at the slot's end at the latest: rounding up would
        // make everything late by half a slot, so the current slot is looked at again and again.
        let slot = (due_ns >> SLOT_SHIFT).max(self.current) % SLOTS;
        self.slots[slot as usize].push(Entry { due_ns, token });
        self.occupied[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Moves the tokens that are due into `due`, in order of slots.
    pub(super) fn take_due(&mut self, now_ns: u64, due: &mut Vec<u64>) {
        let last = now_ns >> SLOT_SHIFT;
        // After a long pause one turn visits every slot.
        let first = self.current.max(last.saturating_sub(SLOTS - 1));
        for number in first..=last {
            let slot = (number % SLOTS) as usize;
            if self.occupied[slot / 64] & 1 << (slot % 64) == 0 {
                continue;
            }
            let mut entries =
                std::mem::replace(&mut self.slots[slot], std::mem::take(&mut self.spare));
            for entry in entries.drain(..) {
                if entry.due_ns <= now_ns {
                    due.push(entry.token);
                } else {
                    self.slots[slot].push(entry);
                }
            }
            self.spare = entries;
            if self.slots[slot].is_empty() {
                self.occupied[slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.current = last;
    }

    /// Nanoseconds until something may be due, at most a turn.
    pub(super) fn wait_ns(&self, now_ns: u64) -> u64 {
        let mut ahead = 0;
        while ahead < SLOTS {
            let slot = ((self.current + ahead) % SLOTS) as usize;
            let rest = self.occupied[slot / 64] >> (slot % 64);
            if rest & 1 == 0 {
                // On to the next occupied slot of this word of the bitmap, or to the next word.
                ahead += u64::from(rest.trailing_zeros()).min(64 - slot as u64 % 64);
                continue;
            }
            let end_ns = (self.current + ahead + 1) * SLOT_NS;
            let earliest = self.slots[slot].iter().map(|entry| entry.due_ns).min();
            if let Some(due_ns) = earliest.filter(|&due_ns| due_ns < end_ns) {
                return due_ns.saturating_sub(now_ns);
            }
            ahead += 1;
        }
        (SLOTS - 1) * SLOT_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every token comes back once, never before its time, and at the first look after it.
        #[test]
        fn deadlines_are_kept(
            dues in proptest::collection::vec(0u64..3_000_000_000, 1..60),
            steps in proptest::collection::vec(1u64..400_000_000, 1..40),
        ) {
            let mut wheel = Wheel::new(0);
            for (token, &due_ns) in dues.iter().enumerate() {
                wheel.set(due_ns, token as u64);
            }
            let mut now_ns = 0;
            let mut left: Vec<u64> = (0..dues.len() as u64).collect();
            let mut due = Vec::new();
            for step in steps.iter().copied().chain(std::iter::repeat_n(400_000_000, 9)) {
                now_ns += step;
                due.clear();
                wheel.take_due(now_ns, &mut due);
                for token in &due {
                    prop_assert!(dues[*token as usize] <= now_ns);
                    prop_assert!(left.contains(token));
                    left.retain(|kept| kept != token);
                }
                prop_assert!(left.iter().all(|&token| dues[token as usize] > now_ns));
            }
            prop_assert!(left.is_empty());
        }

        #[test]
        fn the_wait_never_passes_a_deadline(due in 0u64..5_000_000_000, now in 0u64..1_000_000_000) {
            let mut wheel = Wheel::new(now);
            wheel.set(due, 1);
            let wait_ns = wheel.wait_ns(now);
            prop_assert!(now + wait_ns <= due.max(now));
            // And it ends: waiting again and again arrives.
            let (mut at, mut out, mut looks) = (now, Vec::new(), 0);
            while out.is_empty() {
                at += wheel.wait_ns(at);
                wheel.take_due(at, &mut out);
                looks += 1;
                prop_assert!(looks < 10);
            }
            prop_assert_eq!(at, due.max(now));
        }
    }
}
