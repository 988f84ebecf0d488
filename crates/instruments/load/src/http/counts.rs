//! The counts of one thread in the measured window.

use std::collections::BTreeMap;

use super::errors::ErrorCounts;
use super::exchange::is_redirect;
use super::pages::PageCounts;
use super::session::OPERATIONS;
use crate::latency::Latency;

/// Counts and histograms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Complete responses of any status.
    pub requests: u64,
    /// Responses that are as expected.
    pub sound: u64,
    /// Bytes of all responses, incomplete ones and heads included.
    pub bytes: u64,
    pub body_bytes: u64,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by operation.
    pub operations: [u64; OPERATIONS],
    /// Answers by page of an application.
    pub pages: Option<PageCounts>,
    /// Failed requests.
    pub errors: ErrorCounts,
    /// Connections opened.
    pub opened: u64,
    /// Requests sent again because the server had closed an idle connection.
    pub reopened: u64,
    /// Times from the send to the end of the response.
    pub service: Latency,
    /// Times from the intended start to the end of the response.
    pub response: Latency,
    /// How late this client started its requests.
    pub lag: Latency,
    /// Sum of response times, in nanoseconds.
    pub response_sum_ns: u128,
    /// Longest lag since the last progress report.
    pub recent_lag_ns: u64,
}

impl Counts {
    /// Zero counts. `pages` is the number of pages of the application, or 0 without an application.
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            pages: (pages > 0).then(|| PageCounts::new(pages)),
            ..Self::default()
        }
    }

    /// Responses that are redirects.
    pub(crate) fn redirects(&self) -> u64 {
        let redirects = self
            .statuses
            .iter()
            .filter(|(status, _)| is_redirect(**status));
        redirects.map(|(_, count)| count).sum()
    }

    /// Adds the counts of another thread.
    pub(crate) fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.sound += other.sound;
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
        for (status, more) in other.statuses {
            *self.statuses.entry(status).or_default() += more;
        }
        for (own, more) in self.operations.iter_mut().zip(other.operations) {
            *own += more;
        }
        if let (Some(pages), Some(more)) = (&mut self.pages, &other.pages) {
            pages.merge(more);
        }
        self.errors.merge(other.errors);
        self.opened += other.opened;
        self.reopened += other.reopened;
        self.service.add(&other.service);
        self.response.add(&other.response);
        self.lag.add(&other.lag);
        self.response_sum_ns += other.response_sum_ns;
    }
}
