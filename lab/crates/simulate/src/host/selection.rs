//! The policies by which the host offers connections to the NIC (OSDI 2006, section 3.3, and two
//! more).
//!
//! A policy decides at two times: when a connection is established, and at each enqueue to its send
//! buffer. Two policies are not in the paper. Both estimate a threshold from ended connections,
//! such that the connections above it fill the NIC:
//!
//! - `lifetime` hands a connection off when it is longer than the threshold. With a heavy tail, a long
//!   connection is likely to last. The threshold follows from the traffic; that of `threshold n` is
//!   fixed.
//! - `oracle` knows the future. The time that a connection spends on the NIC is about proportional
//!   to its number of requests. The saving is proportional to its enqueues in that time, minus the
//!   cost of the handoff. So the oracle hands off the connections that will make the most enqueues
//!   per request. It hands them off when they are established. No real system can do this. The
//!   oracle shows the upper limit of what a better prediction could gain.

use perpacket_workload::PlannedRequest;

use crate::settings::SelectionPolicy;

/// Classes of ranks. The ranks from a power of two to the next form eight classes.
const CLASSES: usize = 8 * 24;
/// When this many connections have ended, all counts are halved, so that the policy follows the
/// traffic.
const MEMORY: u32 = 4096;
/// Number of connections that must have ended before a policy decides.
const ENOUGH: u32 = 64;

/// Number of enqueues that save about as much as the handoff costs.
const HANDOFF_ENQUEUES: u32 = 5;
/// The oracle ranks by enqueues per request, in multiples of 1/`WORTH_PARTS`.
const WORTH_PARTS: u32 = 16;

/// The future of a connection. Only the oracle reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Future {
    pub enqueues: u32,
    pub requests: u32,
}

impl Future {
    /// The future of a session on a server that enqueues files `enqueue_bytes` at a time.
    pub fn of_session(session: impl Iterator<Item = PlannedRequest>, enqueue_bytes: u32) -> Self {
        session.fold(Self::default(), |sum, request| Self {
            enqueues: sum
                .enqueues
                .saturating_add(1 + request.response_bytes.div_ceil(enqueue_bytes)),
            requests: sum.requests + 1,
        })
    }

    /// The savings by running the connection on the NIC, relative to its time there.
    fn saving(self) -> u32 {
        let saved = u64::from(self.enqueues.saturating_sub(HANDOFF_ENQUEUES));
        let saving = saved * u64::from(WORTH_PARTS) / u64::from(self.requests.max(1));
        saving.min(u64::from(u32::MAX)) as u32
    }
}

/// Ended connections by rank: their number, and their use of the NIC.
#[derive(Clone, Debug)]
struct Ranks {
    connections: [f64; CLASSES],
    used: [f64; CLASSES],
    ended: u32,
}

impl Ranks {
    fn class(rank: u32) -> usize {
        let rank = rank.max(1);
        let octave = rank.ilog2();
        // The three bits below the leading one.
        let eighth = ((u64::from(rank) << 3) >> octave) & 7;
        octave as usize * 8 + eighth as usize
    }

    fn least_of(class: usize) -> u32 {
        let (octave, eighth) = ((class / 8) as u32, (class % 8) as u32);
        ((8 + eighth) << octave).div_ceil(8)
    }

    fn add(&mut self, rank: u32, used: u32) {
        let class = Self::class(rank).min(CLASSES - 1);
        self.connections[class] += 1.0;
        self.used[class] += f64::from(used);
        self.ended += 1;
        if self.ended.is_multiple_of(MEMORY) {
            for value in self.connections.iter_mut().chain(&mut self.used) {
                *value /= 2.0;
            }
        }
    }

    /// The least length for which this holds: the enqueues that connections make from this length
    /// on are at most `share` of all enqueues. Here the rank of a connection is its length, and its
    /// use is its enqueues.
    fn least_length(&self, share: f64) -> u32 {
        let room = share * self.used.iter().sum::<f64>();
        let (mut connections, mut used) = (0.0, 0.0);
        for class in (0..CLASSES).rev() {
            connections += self.connections[class];
            used += self.used[class];
            if used - connections * f64::from(Self::least_of(class) - 1) > room {
                return Self::least_of(class + 1);
            }
        }
        1
    }

    /// The highest rank for which connections of this rank or above use at least `share` of the
    /// total use.
    fn filling_rank(&self, share: f64) -> u32 {
        let room = share * self.used.iter().sum::<f64>();
        let mut used = 0.0;
        for class in (0..CLASSES).rev() {
            used += self.used[class];
            if used >= room {
                return Self::least_of(class);
            }
        }
        1
    }
}

/// The policy and its estimates.
#[derive(Clone, Debug)]
pub struct Selection {
    policy: SelectionPolicy,
    threshold: u32,
    ranks: Ranks,
    /// The least rank that is handed off, and the number of ended connections when it was computed.
    least: (u32, u32),
}

impl Selection {
    /// A policy before any connection has ended.
    pub const fn new(policy: SelectionPolicy, threshold: u32) -> Self {
        Self {
            policy,
            threshold,
            ranks: Ranks {
                connections: [0.0; CLASSES],
                used: [0.0; CLASSES],
                ended: 0,
            },
            least: (1, 0),
        }
    }

    /// Whether to offer a connection that has been established. `room_share` is the share of
    /// connections that the NIC may run.
    pub fn at_establishment(&mut self, future: Future, room_share: f64) -> bool {
        match self.policy {
            SelectionPolicy::Fcfs => true,
            SelectionPolicy::Oracle => {
                self.learn(room_share);
                self.ranks.ended < ENOUGH || future.saving() >= self.least.0
            }
            SelectionPolicy::Threshold | SelectionPolicy::Lifetime => false,
        }
    }

    /// Whether to offer a connection at its `enqueues`-th enqueue to the send buffer.
    pub fn at_send(&mut self, enqueues: u32, room_share: f64) -> bool {
        match self.policy {
            SelectionPolicy::Threshold => enqueues == self.threshold,
            SelectionPolicy::Lifetime => {
                self.learn(room_share);
                self.ranks.ended >= ENOUGH && enqueues >= self.least.0
            }
            SelectionPolicy::Fcfs | SelectionPolicy::Oracle => false,
        }
    }

    /// A connection with this future has ended after `enqueues`.
    pub fn ended(&mut self, enqueues: u32, future: Future) {
        match self.policy {
            SelectionPolicy::Lifetime => self.ranks.add(enqueues, enqueues),
            SelectionPolicy::Oracle => self.ranks.add(future.saving(), future.requests),
            SelectionPolicy::Fcfs | SelectionPolicy::Threshold => {}
        }
    }

    fn learn(&mut self, room_share: f64) {
        const EVERY: u32 = 64;
        let ended = self.ranks.ended;
        if ended >= self.least.1 + EVERY {
            let share = room_share.clamp(0.0, 1.0);
            let least = match self.policy {
                SelectionPolicy::Oracle => self.ranks.filling_rank(share),
                _ => self.ranks.least_length(share),
            };
            self.least = (least, ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_begins_at_its_least_length() {
        for enqueues in 1..100_000 {
            let class = Ranks::class(enqueues);
            assert!(Ranks::least_of(class) <= enqueues, "{enqueues}");
            assert!(enqueues < Ranks::least_of(class + 1), "{enqueues}");
        }
    }

    #[test]
    fn the_n_th_enqueue_is_offered_once() {
        let mut selection = Selection::new(SelectionPolicy::Threshold, 4);
        assert!(!selection.at_establishment(Future::default(), 0.5));
        let offered: Vec<u32> = (1..10).filter(|&n| selection.at_send(n, 0.5)).collect();
        assert_eq!(offered, [4]);
    }

    #[test]
    fn the_oracle_selects_the_connections_that_send_most_in_their_time() {
        let future = |enqueues, requests| Future { enqueues, requests };
        let (light, heavy) = (future(40, 10), future(105, 10));
        let mut selection = Selection::new(SelectionPolicy::Oracle, 0);
        for number in 0..1_000 {
            let ended = if number % 10 == 0 { heavy } else { light };
            selection.ended(ended.enqueues, ended);
        }
        let mut full = selection.clone();
        // There is room for one connection in ten. The tenth with the most enqueues fills it.
        assert!(selection.at_establishment(heavy, 0.1));
        assert!(!selection.at_establishment(light, 0.1));
        assert!(
            full.at_establishment(light, 0.5),
            "there is room for more than the heavy ones"
        );
    }

    #[test]
    fn a_connection_that_has_outlived_the_others_is_offered() {
        let mut selection = Selection::new(SelectionPolicy::Lifetime, 0);
        for number in 0..1_000 {
            let enqueues = if number % 10 == 0 { 1_000 } else { 10 };
            selection.ended(enqueues, Future::default());
        }
        assert!(!selection.at_send(10, 0.2));
        assert!(selection.at_send(900, 0.2));
    }
}
