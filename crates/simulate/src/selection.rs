//! Which connections the host offers to the NIC (OSDI 2006, section 3.3, and beyond).
//!
//! A policy is asked when a connection is established and at each enqueue to its send buffer. Two
//! policies go beyond the paper; both look at how the traffic of ended connections was spread over
//! their lengths, and choose the length above which connections carry the share of the traffic
//! that the NIC has room for:
//!
//! - `lifetime` hands a connection off once it has lived past that length: with a heavy tail, what
//!   has lasted lasts longer still. Its threshold follows from the traffic, where `threshold n`
//!   fixes one.
//! - `oracle` knows the future: it hands off at establishment the connections that will be longer.
//!   No real system can. It is the best choice at establishment by length alone; a policy that
//!   decides later may still carry more, because it never holds a connection before it is busy.

use crate::settings::SelectionPolicy;

/// Lengths are kept in classes of an eighth of an octave.
const CLASSES: usize = 8 * 24;
/// Ended connections after which the past fades by half, so that the policy follows the traffic.
const MEMORY: u32 = 4096;
/// Ended connections before which nothing is known.
const ENOUGH: u32 = 64;

/// The enqueues of ended connections, by length.
#[derive(Clone, Debug)]
struct Lengths {
    connections: [f64; CLASSES],
    enqueues: [f64; CLASSES],
    ended: u32,
}

impl Lengths {
    fn class(enqueues: u32) -> usize {
        let enqueues = enqueues.max(1);
        let octave = enqueues.ilog2();
        // The three bits below the leading one.
        let eighth = ((enqueues << 3) >> octave) & 7;
        (octave * 8 + eighth) as usize
    }

    fn least_of(class: usize) -> u32 {
        let (octave, eighth) = ((class / 8) as u32, (class % 8) as u32);
        ((8 + eighth) << octave).div_ceil(8)
    }

    fn add(&mut self, enqueues: u32) {
        let class = Self::class(enqueues).min(CLASSES - 1);
        self.connections[class] += 1.0;
        self.enqueues[class] += f64::from(enqueues);
        self.ended += 1;
        if self.ended.is_multiple_of(MEMORY) {
            for value in self.connections.iter_mut().chain(&mut self.enqueues) {
                *value /= 2.0;
            }
        }
    }

    /// The least length such that connections at least as long carry at most `share` of the
    /// traffic; with `beyond`, only what they send past that length counts.
    fn least_length(&self, share: f64, beyond: bool) -> u32 {
        let room = share * self.enqueues.iter().sum::<f64>();
        let (mut connections, mut enqueues) = (0.0, 0.0);
        for class in (0..CLASSES).rev() {
            let least = Self::least_of(class);
            connections += self.connections[class];
            enqueues += self.enqueues[class];
            let before = if beyond {
                connections * f64::from(least - 1)
            } else {
                0.0
            };
            if enqueues - before > room {
                return Self::least_of(class + 1);
            }
        }
        1
    }
}

/// The policy with what it has learnt.
#[derive(Clone, Debug)]
pub struct Selection {
    policy: SelectionPolicy,
    threshold: u32,
    lengths: Lengths,
    /// The length above which to hand off, and after how many ended connections it was found.
    least_length: (u32, u32),
}

impl Selection {
    /// A policy that knows nothing yet.
    #[must_use]
    pub const fn new(policy: SelectionPolicy, threshold: u32) -> Self {
        Self {
            policy,
            threshold,
            lengths: Lengths {
                connections: [0.0; CLASSES],
                enqueues: [0.0; CLASSES],
                ended: 0,
            },
            least_length: (1, 0),
        }
    }

    /// A connection has been established that will make `future_enqueues`; `room_share` is the
    /// share of connections that the NIC may hold. Whether to offer it now.
    pub fn at_establishment(&mut self, future_enqueues: u32, room_share: f64) -> bool {
        match self.policy {
            SelectionPolicy::Fcfs => true,
            SelectionPolicy::Oracle => {
                self.learn(room_share);
                self.lengths.ended < ENOUGH || future_enqueues >= self.least_length.0
            }
            SelectionPolicy::Threshold | SelectionPolicy::Lifetime => false,
        }
    }

    /// A connection makes its `enqueues`-th enqueue to the send buffer. Whether to offer it now.
    pub fn at_send(&mut self, enqueues: u32, room_share: f64) -> bool {
        match self.policy {
            SelectionPolicy::Threshold => enqueues == self.threshold,
            SelectionPolicy::Lifetime => {
                self.learn(room_share);
                self.lengths.ended >= ENOUGH && enqueues >= self.least_length.0
            }
            SelectionPolicy::Fcfs | SelectionPolicy::Oracle => false,
        }
    }

    /// A connection has ended after `enqueues`.
    pub fn ended(&mut self, enqueues: u32) {
        if matches!(
            self.policy,
            SelectionPolicy::Lifetime | SelectionPolicy::Oracle
        ) {
            self.lengths.add(enqueues);
        }
    }

    fn learn(&mut self, room_share: f64) {
        const EVERY: u32 = 64;
        let ended = self.lengths.ended;
        if ended >= self.least_length.1 + EVERY {
            let beyond = self.policy == SelectionPolicy::Lifetime;
            let least = self
                .lengths
                .least_length(room_share.clamp(0.0, 1.0), beyond);
            self.least_length = (least, ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_the_lengths_from_its_least_on() {
        for enqueues in 1..100_000 {
            let class = Lengths::class(enqueues);
            assert!(Lengths::least_of(class) <= enqueues, "{enqueues}");
            assert!(enqueues < Lengths::least_of(class + 1), "{enqueues}");
        }
    }

    #[test]
    fn the_n_th_enqueue_is_offered_once() {
        let mut selection = Selection::new(SelectionPolicy::Threshold, 4);
        assert!(!selection.at_establishment(100, 0.5));
        let offered: Vec<u32> = (1..10).filter(|&n| selection.at_send(n, 0.5)).collect();
        assert_eq!(offered, [4]);
    }

    #[test]
    fn the_oracle_takes_the_connections_that_fill_the_nic() {
        let mut selection = Selection::new(SelectionPolicy::Oracle, 0);
        for _ in 0..100 {
            for _ in 0..9 {
                selection.ended(10);
            }
            selection.ended(100);
        }
        // The tenth with 100 enqueues carries 100 of 190: they fit in 0.6 of the NIC, not in 0.5.
        assert!(!selection.at_establishment(10, 0.6));
        assert!(selection.at_establishment(100, 0.6));
        let mut full = selection.clone();
        full.least_length = (1, 0);
        assert!(!full.at_establishment(100, 0.5));
    }
}
