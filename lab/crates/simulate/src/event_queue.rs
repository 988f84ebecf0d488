//! The event queue: a hierarchical timing wheel ordered by (time, sequence).
//!
//! Eleven levels of 64 slots cover 64 bits of time. Write the event's time and the current time
//! with base-64 digits. The highest digit in which they differ is the event's level, and the
//! event's digit there is its slot. A pop uses the first occupied slot of the lowest occupied
//! level. If the level is above 0, the current time jumps to that slot's earliest event, and the
//! slot's events move to the levels below. So an event moves at most once a level, whatever the
//! number of waiting events. Pop and push need constant time. In a heap, their time grows with the
//! logarithm of the number of events.
//!
//! Events of equal time are always in the same slot, and slots are first-in first-out lists, so
//! equal times keep their order of insertion without a stored sequence number.
//!
//! The wheel of `crates/base/timers` cannot replace this queue, because it rounds times to ticks of 16 us.

use crate::time::Time;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 64usize.div_ceil(BITS as usize);
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node<E> {
    time: u64,
    next: u32,
    event: E,
}

#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

/// Events waiting for their time.
pub struct EventQueue<E> {
    now: u64,
    /// A bit for each level, set if the level has events.
    levels: u16,
    /// For each level, a bit for each slot, set if the slot has events.
    occupied: [u64; LEVELS],
    slots: Box<[[Slot; SLOTS]; LEVELS]>,
    nodes: Vec<Node<E>>,
    free: u32,
    len: usize,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        let empty = Slot {
            first: NONE,
            last: NONE,
        };
        Self {
            now: 0,
            levels: 0,
            occupied: [0; LEVELS],
            slots: Box::new([[empty; SLOTS]; LEVELS]),
            nodes: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// The number of events that wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no event waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Schedules `event`. A time before that of the last popped event counts as that time.
    #[inline]
    pub fn push(&mut self, time: Time, event: E) {
        debug_assert!(time.0 >= self.now, "an event in the past");
        let time = time.0.max(self.now);
        let node = Node {
            time,
            next: NONE,
            event,
        };
        let index = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        self.len += 1;
        self.link(index, time);
    }

    /// Removes the earliest event; of equal ones, the one pushed first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        if self.levels == 0 {
            return None;
        }
        let mut level = self.levels.trailing_zeros() as usize;
        let mut slot = self.occupied[level].trailing_zeros() as usize;
        if level > 0 {
            let Slot { first, last } = self.slots[level][slot];
            if first == last {
                self.now = self.nodes[first as usize].time;
            } else {
                self.spread(level, slot);
                level = 0;
                slot = (self.now & (SLOTS as u64 - 1)) as usize;
            }
        }
        let index = self.slots[level][slot].first;
        let Node { time, next, event } = self.nodes[index as usize];
        self.slots[level][slot].first = next;
        if next == NONE {
            self.clear(level, slot);
        }
        self.nodes[index as usize].next = self.free;
        self.free = index;
        self.len -= 1;
        self.now = time;
        Some((Time(time), event))
    }

    /// The events that wait, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        (0..LEVELS).flat_map(move |level| {
            (0..SLOTS)
                .filter(move |slot| self.occupied[level] & (1 << slot) != 0)
                .flat_map(move |slot| {
                    let first = self.slots[level][slot].first;
                    std::iter::successors(Some(first), |&index| {
                        Some(self.nodes[index as usize].next).filter(|&next| next != NONE)
                    })
                    .map(|index| &self.nodes[index as usize].event)
                })
        })
    }

    #[inline]
    fn link(&mut self, index: u32, time: u64) {
        let differing = time ^ self.now;
        let level = (63 - (differing | 1).leading_zeros()) / BITS;
        let digit = (time >> (level * BITS)) as usize & (SLOTS - 1);
        let level = level as usize;
        let slot = &mut self.slots[level][digit];
        if self.occupied[level] & (1 << digit) == 0 {
            slot.first = index;
            self.occupied[level] |= 1 << digit;
            self.levels |= 1 << level;
        } else {
            self.nodes[slot.last as usize].next = index;
        }
        slot.last = index;
    }

    fn clear(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Moves the current time to the slot's earliest event, and the slot's events to the levels below,
    /// in their order.
    fn spread(&mut self, level: usize, slot: usize) {
        let first = self.slots[level][slot].first;
        self.clear(level, slot);
        let mut earliest = u64::MAX;
        let mut index = first;
        while index != NONE {
            let node = &self.nodes[index as usize];
            earliest = earliest.min(node.time);
            index = node.next;
        }
        self.now = earliest;
        index = first;
        while index != NONE {
            let Node { time, next, .. } = self.nodes[index as usize];
            self.nodes[index as usize].next = NONE;
            self.link(index, time);
            index = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_keep_their_order_of_insertion() {
        let mut queue = EventQueue::new();
        for (time, event) in [
            (5_000, 'b'),
            (7, 'a'),
            (5_000, 'c'),
            (1 << 40, 'e'),
            (5_000, 'd'),
        ] {
            queue.push(Time(time), event);
        }
        let order: String = std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(order, "abcde");
    }

    proptest! {
        /// Compares the queue with a simple model: a vector stably sorted by time.
        #[test]
        fn pops_in_time_then_insertion_order(
            steps in prop::collection::vec((0u32..50, 0u64..1_000_000, prop::bool::weighted(0.4)), 1..400)
        ) {
            let mut queue = EventQueue::new();
            let mut model: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (number, (shift, delay, pop)) in steps.into_iter().enumerate() {
                let time = now + (delay >> (shift % 20)) * if shift > 40 { 1 << 30 } else { 1 };
                queue.push(Time(time), number);
                model.push((time, number));
                if pop {
                    model.sort();
                    let (time, event) = model.remove(0);
                    prop_assert_eq!(queue.pop(), Some((Time(time), event)));
                    now = time;
                }
            }
            model.sort();
            prop_assert_eq!(queue.len(), model.len());
            for (time, event) in model {
                prop_assert_eq!(queue.pop(), Some((Time(time), event)));
            }
            prop_assert!(queue.is_empty() && queue.pop().is_none());
        }
    }
}
