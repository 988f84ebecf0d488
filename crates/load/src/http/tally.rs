//! What one thread counts during the measured window.

use super::fault::Faults;
use super::response::is_redirect;
use super::step::OPERATIONS;
use crate::error::LoadError;
use crate::latency::Latency;

/// Status codes have three digits.
const STATUSES: usize = 1000;

/// Counts and histograms.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Complete responses, whatever their status.
    pub requests: u64,
    /// Those among them with nothing to complain of.
    pub sound: u64,
    /// Bytes of them and of incomplete ones, heads included.
    pub bytes: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Responses by status.
    pub statuses: Vec<u64>,
    /// Responses by operation.
    pub operations: [u64; OPERATIONS],
    /// Failed requests.
    pub faults: Faults,
    /// Connections opened.
    pub opened: u64,
    /// Requests sent again because the server had closed the kept connection.
    pub reopened: u64,
    /// Time from sending a request to the end of its response.
    pub service: Latency,
    /// Time from when a request was meant to start to the end of its response.
    pub response: Latency,
    /// How late this client took a request up.
    pub lag: Latency,
    /// Sum of response times, in nanoseconds.
    pub response_sum_ns: u128,
    /// Longest lag since the progress was shown.
    pub recent_lag_ns: u64,
}

impl Tally {
    /// Nothing counted yet.
    pub(crate) fn new() -> Result<Self, LoadError> {
        Ok(Self {
            requests: 0,
            sound: 0,
            bytes: 0,
            body_bytes: 0,
            statuses: vec![0; STATUSES],
            operations: [0; OPERATIONS],
            faults: Faults::default(),
            opened: 0,
            reopened: 0,
            service: Latency::new()?,
            response: Latency::new()?,
            lag: Latency::new()?,
            response_sum_ns: 0,
            recent_lag_ns: 0,
        })
    }

    /// Responses that send the client to another location.
    pub(crate) fn redirects(&self) -> u64 {
        let counts = (0u16..).zip(&self.statuses);
        let redirects = counts.filter(|(status, _)| is_redirect(*status));
        redirects.map(|(_, count)| count).sum()
    }

    /// Forgets what the warm-up counted.
    pub(crate) fn clear(&mut self) {
        self.requests = 0;
        self.sound = 0;
        self.bytes = 0;
        self.body_bytes = 0;
        self.statuses.fill(0);
        self.operations = [0; OPERATIONS];
        self.faults = Faults::default();
        self.opened = 0;
        self.reopened = 0;
        self.service.clear();
        self.response.clear();
        self.lag.clear();
        self.response_sum_ns = 0;
    }

    /// Adds another thread's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.sound += other.sound;
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
        for (own, more) in self.statuses.iter_mut().zip(other.statuses) {
            *own += more;
        }
        for (own, more) in self.operations.iter_mut().zip(other.operations) {
            *own += more;
        }
        self.faults.merge(other.faults);
        self.opened += other.opened;
        self.reopened += other.reopened;
        self.service.add(&other.service);
        self.response.add(&other.response);
        self.lag.add(&other.lag);
        self.response_sum_ns += other.response_sum_ns;
    }
}
