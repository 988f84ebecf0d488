//! A ring of locks, and those who pass a token round it.
//!
//! Every member sleeps on a lock of its own. Who gets the token reads its working set and opens the
//! next member's lock. With all members on one processor each pass is one switch: who gave the
//! token away sleeps, and only then can the next run.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use perpacket_linux::memory::{CacheAligned, SharedTable};
use rustix::thread::futex;

/// The token is elsewhere.
const CLOSED: u32 = 0;
/// The token is here.
const OPEN: u32 = 1;
/// The ring is over.
const OVER: u32 = 2;

/// Longest sleep: a token that is lost does not hold the ring for ever.
const LONGEST_SLEEP_S: i64 = 5;

/// Why a member no longer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has the token.
    Token,
    /// The ring is over.
    Over,
    /// Nothing came in seconds.
    Nothing,
}

/// The locks of all members, and how the kernel is asked to wait on them.
#[derive(Debug)]
pub struct Ring {
    locks: SharedTable<CacheAligned<AtomicU32>>,
    flags: futex::Flags,
}

impl Ring {
    /// A ring for threads, or for processes if `shared`.
    pub fn new(members: usize, shared: bool) -> io::Result<Self> {
        let flags = if shared {
            futex::Flags::empty()
        } else {
            futex::Flags::PRIVATE
        };
        let locks = SharedTable::new(members)?;
        Ok(Self { locks, flags })
    }

    /// How many members it is for.
    pub fn members(&self) -> usize {
        self.locks.len()
    }

    /// Waits at a member's lock.
    pub fn take(&self, member: usize) -> Turn {
        let state = self.lock(member);
        loop {
            // Exchanged and not stored, so that the end is not overwritten.
            match state.compare_exchange(OPEN, CLOSED, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Turn::Token,
                Err(OVER) => return Turn::Over,
                Err(_) => {}
            }
            let longest = futex::Timespec {
                tv_sec: LONGEST_SLEEP_S,
                tv_nsec: 0,
            };
            if futex::wait(state, self.flags, CLOSED, Some(&longest))
                == Err(rustix::io::Errno::TIMEDOUT)
            {
                return Turn::Nothing;
            }
        }
    }

    /// Opens a member's lock.
    pub fn give(&self, member: usize) {
        self.open(member, OPEN);
    }

    /// Tells all members that the ring is over.
    pub fn end(&self) {
        for member in 0..self.members() {
            self.open(member, OVER);
        }
    }

    /// What a member does until the ring is over.
    pub fn follow(&self, member: usize, working_set: &[u64]) {
        let next = (member + 1) % self.members();
        loop {
            match self.take(member) {
                Turn::Token => {
                    read(working_set);
                    self.give(next);
                }
                Turn::Over => return,
                // Another ring may be running, or the machine was asleep: the leader judges.
                Turn::Nothing => {}
            }
        }
    }

    /// What member 0 does to send the token round so many times; false if it did not come back.
    pub fn lead(&self, rounds: usize, working_set: &[u64]) -> bool {
        let next = 1 % self.members();
        (0..rounds).all(|_| {
            self.give(next);
            let turn = self.take(0);
            read(working_set);
            turn == Turn::Token
        })
    }

    /// What passing costs where nobody sleeps: the same calls by one alone, who opens a lock, wakes
    /// nobody, and asks to wait at a lock that is open, which the kernel declines.
    pub fn pass_alone(&self, passes: usize, working_set: &[u64]) {
        let state = self.lock(0);
        for _ in 0..passes {
            self.give(0);
            // Declined at once, since the lock is open.
            let _ = futex::wait(state, self.flags, CLOSED, None);
            // Open, so taken without waiting.
            self.take(0);
            read(working_set);
        }
    }

    fn open(&self, member: usize, state: u32) {
        let lock = self.lock(member);
        // The end stays the end, should a token still be on its way.
        lock.fetch_max(state, Ordering::Release);
        // Waking cannot fail on an address that is mapped.
        let _ = futex::wake(lock, self.flags, 1);
    }

    fn lock(&self, member: usize) -> &AtomicU32 {
        &self.locks[member]
    }
}

/// Reads a working set, as a member with something to do would.
#[inline(never)]
fn read(working_set: &[u64]) {
    let words = black_box(working_set);
    black_box(
        words
            .iter()
            .fold(0_u64, |sum, word| sum.wrapping_add(*word)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_token_goes_round_in_order_and_the_ring_ends() {
        let ring = Ring::new(3, false).unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        thread::scope(|scope| {
            for member in [1, 2] {
                let (ring, order) = (&ring, &order);
                scope.spawn(move || {
                    while ring.take(member) == Turn::Token {
                        order.lock().unwrap().push(member);
                        ring.give((member + 1) % 3);
                    }
                });
            }
            assert!(ring.lead(4, &[]));
            ring.end();
        });
        assert_eq!(*order.lock().unwrap(), [1, 2, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn passing_alone_comes_back_without_another() {
        let ring = Ring::new(2, false).unwrap();
        ring.pass_alone(100, &[1, 2, 3]);
        assert_eq!(ring.lock(0).load(Ordering::Relaxed), CLOSED);
    }
}
