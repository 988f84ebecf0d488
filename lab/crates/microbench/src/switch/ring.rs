//! A ring of threads or processes that pass a token.
//!
//! Every member sleeps on a lock of its own. The member with the token reads its working set and
//! opens the next member's lock. If all members run on one CPU, each pass is one switch, because
//! the next member runs only when the previous member sleeps.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use perpacket_linux::memory::{CacheAligned, SharedTable};
use rustix::thread::futex;

/// The state of a lock: another member has the token.
const CLOSED: u32 = 0;
/// The state of a lock: its member has the token.
const OPEN: u32 = 1;
/// The state of a lock: the ring has ended.
const ENDED: u32 = 2;

/// Longest sleep, so that a lost token does not block the ring for ever.
const LONGEST_SLEEP_S: i64 = 5;

/// The event that ended a member's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The member has the token.
    Token,
    /// The ring has ended.
    Ended,
    /// The time is up.
    Timeout,
}

/// The locks of all members.
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

    pub fn members(&self) -> usize {
        self.locks.len()
    }

    /// Waits for the token at a member's lock.
    pub fn wait(&self, member: usize) -> Wake {
        let state = self.lock(member);
        loop {
            // Exchange the state instead of storing it, so that the end of the ring is not
            // overwritten.
            match state.compare_exchange(OPEN, CLOSED, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Wake::Token,
                Err(ENDED) => return Wake::Ended,
                Err(_) => {}
            }
            let longest = futex::Timespec {
                tv_sec: LONGEST_SLEEP_S,
                tv_nsec: 0,
            };
            if futex::wait(state, self.flags, CLOSED, Some(&longest))
                == Err(rustix::io::Errno::TIMEDOUT)
            {
                return Wake::Timeout;
            }
        }
    }

    /// Passes the token to a member.
    pub fn pass_to(&self, member: usize) {
        self.open(member, OPEN);
    }

    /// Ends the ring for all members.
    pub fn end(&self) {
        for member in 0..self.members() {
            self.open(member, ENDED);
        }
    }

    /// Passes the token on until the ring is over.
    pub fn follow(&self, member: usize, working_set: &[u64]) {
        let next = (member + 1) % self.members();
        loop {
            match self.wait(member) {
                Wake::Token => {
                    read(working_set);
                    self.pass_to(next);
                }
                Wake::Ended => return,
                // The machine may have been suspended, so the leader decides whether the token is
                // lost.
                Wake::Timeout => {}
            }
        }
    }

    /// Sends the token round as member 0. Returns false if the token did not come back.
    pub fn lead(&self, rounds: usize, working_set: &[u64]) -> bool {
        let next = 1 % self.members();
        (0..rounds).all(|_| {
            self.pass_to(next);
            let wake = self.wait(0);
            read(working_set);
            wake == Wake::Token
        })
    }

    /// Makes the calls of a pass without a switch: opens a lock, wakes nobody, and waits at a lock
    /// that is open, which returns at once.
    pub fn pass_alone(&self, passes: usize, working_set: &[u64]) {
        let state = self.lock(0);
        for _ in 0..passes {
            self.pass_to(0);
            // This returns without a wait.
            let _ = futex::wait(state, self.flags, CLOSED, None);
            // Returns without a wait.
            self.wait(0);
            read(working_set);
        }
    }

    fn open(&self, member: usize, state: u32) {
        let lock = self.lock(member);
        // Store the larger of the old and the new state, so that a late token cannot overwrite the
        // end of the ring.
        lock.fetch_max(state, Ordering::Release);
        // Waking cannot fail at a mapped address.
        let _ = futex::wake(lock, self.flags, 1);
    }

    fn lock(&self, member: usize) -> &AtomicU32 {
        &self.locks[member]
    }
}

/// Reads a working set, as a member with work to do would.
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
                    while ring.wait(member) == Wake::Token {
                        order.lock().unwrap().push(member);
                        ring.pass_to((member + 1) % 3);
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
