//! Answers by page of an application.

use serde::Serialize;

use crate::latency::{Latency, LatencySummary};

/// The largest fraction of wrong answers that a valid run may have.
pub(super) const WRONG_ALLOWED: f64 = 0.001;

#[derive(Clone, Debug)]
pub(crate) struct PageCounts(Vec<PageCount>);

#[derive(Clone, Debug, Default)]
struct PageCount {
    right: u64,
    wrong: u64,
    /// Response times of right answers.
    response: Latency,
}

impl PageCounts {
    pub(crate) fn new(pages: usize) -> Self {
        Self(vec![PageCount::default(); pages])
    }

    /// Counts an answer. The response time of a wrong answer is not recorded.
    pub(crate) fn count(&mut self, page: u32, right_ns: Option<u64>) {
        let page = &mut self.0[page as usize];
        match right_ns {
            Some(right_ns) => {
                page.right += 1;
                page.response.record(right_ns);
            }
            None => page.wrong += 1,
        }
    }

    /// The smallest number of answers of any page.
    pub(crate) fn fewest(&self) -> u64 {
        let answers = self.0.iter().map(|page| page.right + page.wrong);
        answers.min().unwrap_or_default()
    }

    /// Adds the counts of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (page, more) in self.0.iter_mut().zip(&other.0) {
            page.right += more.right;
            page.wrong += more.wrong;
            page.response.add(&more.response);
        }
    }

    pub(crate) fn report(&self, names: Vec<String>, duration_s: f64) -> Vec<PageReport> {
        let named = names.into_iter().zip(&self.0);
        named
            .map(|(page, count)| PageReport {
                page,
                requests: count.right + count.wrong,
                wrong: count.wrong,
                requests_per_s: match duration_s > 0.0 {
                    true => count.right as f64 / duration_s,
                    false => 0.0,
                },
                response_us: count.response.summary(),
            })
            .collect()
    }
}

/// The answers to the requests of one page.
#[derive(Clone, Debug, Serialize)]
pub struct PageReport {
    /// Name of the page.
    pub page: String,
    /// Requests for the page, answered or not.
    pub requests: u64,
    /// Failed requests, and answers with another status or without the expected text.
    pub wrong: u64,
    /// Right answers per second.
    pub requests_per_s: f64,
    /// Microseconds to the end of right answers.
    pub response_us: LatencySummary,
}
