//! What a thread found, and what it left undone when its window ended.

use rustix::thread::ClockId;

use super::connection::{Connection, State};
use super::settings::Arrivals;
use super::step::Script;
use super::tally::Tally;
use super::worker::Worker;
use crate::error::LoadError;

/// What a thread found.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub tally: Tally,
    /// Processor time of the window, in nanoseconds.
    pub cpu_ns: u64,
    /// When it stopped.
    pub end_ns: u64,
    /// Requests (or sessions, where they arrive) whose time came and that were not sent.
    pub unsent: u64,
    /// Some of them because no connection was free.
    pub was_full: bool,
    /// Requests begun from the start on, the warm-up's included.
    pub begun: u64,
    /// Requests under way at the end.
    pub unfinished: u64,
    /// The longest that one of them had waited, from its intended start.
    pub oldest_unfinished_ns: u64,
    /// By connection: bytes, responses and failures of the window.
    pub connections: Vec<(u64, u64, u64)>,
}

impl Worker {
    /// What was found until now.
    pub(super) fn finish(mut self, now: u64) -> Result<Outcome, LoadError> {
        let cpu_ns = thread_cpu_ns().saturating_sub(self.cpu_begin_ns);
        let end_ns = now.min(self.run.window_end_ns);
        let unsent = self.unsent(end_ns);
        self.tell();
        if let Some(log) = &mut self.log {
            log.finish()?;
        }
        let waiting = |own: &&Connection| matches!(own.state, State::Busy | State::Connecting);
        let oldest = self
            .connections
            .iter()
            .filter(waiting)
            .map(|own| own.intended_ns)
            .min();
        Ok(Outcome {
            cpu_ns,
            end_ns,
            unsent,
            was_full: unsent > 0 && self.is_full,
            begun: self.begun,
            unfinished: self.in_flight,
            oldest_unfinished_ns: oldest.map_or(0, |intended| end_ns.saturating_sub(intended)),
            connections: self
                .connections
                .iter()
                .map(|own| (own.window_bytes, own.window_requests, own.window_faults))
                .collect(),
            tally: self.tally,
        })
    }

    /// Counts what should have been sent before `end_ns` and was not.
    fn unsent(&mut self, end_ns: u64) -> u64 {
        if let Some(schedule) = &mut self.schedule {
            return match self.budget {
                0 => 0,
                budget => schedule.take_until(end_ns).min(budget),
            };
        }
        if !matches!(self.run.settings.arrivals, Arrivals::Recorded { .. }) {
            return 0;
        }
        let mut unsent = 0;
        for connection in 0..self.connections.len() {
            let waits = matches!(
                self.connections[connection].state,
                State::Busy | State::Connecting
            );
            let mut is_first = waits;
            while let Some(step) = self.connections[connection].script.step() {
                if !is_first && self.at_speed(step.due_ns) < end_ns {
                    unsent += 1;
                }
                is_first = false;
                self.connections[connection].script.advance();
            }
        }
        let mut script = Script::default();
        while self.next_recorded_ns() < end_ns && self.feed.next_session(&mut script) {
            let due = script
                .steps
                .iter()
                .filter(|step| self.at_speed(step.due_ns) < end_ns);
            unsent += due.count() as u64;
        }
        unsent
    }
}

/// Processor time of the calling thread.
pub(super) fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
