//! The result of one thread, and the requests that were left when its window ended.

use perpacket_linux::clock::thread_cpu_ns;

use super::arrivals::Arrivals;
use super::connection::{Connection, State, WindowCounts};
use super::counts::Counts;
use super::session::Session;
use super::worker::Worker;
use crate::error::LoadError;

#[derive(Debug)]
pub(crate) struct ThreadResult {
    pub counts: Counts,
    /// CPU time in the window, in nanoseconds.
    pub cpu_ns: u64,
    /// The time at which the thread stopped.
    pub end_ns: u64,
    /// Requests (sessions, with session arrivals) that were due and not sent.
    pub unsent: u64,
    /// Whether all connections were busy at the last arrival.
    pub all_busy: bool,
    /// Requests begun, the warm-up included.
    pub begun: u64,
    /// Requests without a complete response at the end.
    pub unfinished: u64,
    /// The longest wait of an unfinished request since its intended start.
    pub oldest_unfinished_ns: u64,
    /// The counts of each connection.
    pub connections: Vec<WindowCounts>,
}

impl Worker {
    /// Ends the thread and returns its result.
    pub(super) fn finish(mut self, now: u64) -> Result<ThreadResult, LoadError> {
        let cpu_ns = thread_cpu_ns().saturating_sub(self.cpu_begin_ns);
        let end_ns = now.min(self.run.window_end_ns);
        let unsent = self.unsent(end_ns);
        self.publish_progress();
        if let Some(log) = &mut self.log {
            log.finish()?;
        }
        let waiting =
            |connection: &&Connection| matches!(connection.state, State::Busy | State::Connecting);
        let oldest = self
            .connections
            .iter()
            .filter(waiting)
            .map(|connection| connection.intended_ns)
            .min();
        Ok(ThreadResult {
            cpu_ns,
            end_ns,
            unsent,
            all_busy: unsent > 0 && self.all_busy,
            begun: self.begun,
            unfinished: self.in_flight,
            oldest_unfinished_ns: oldest.map_or(0, |intended| end_ns.saturating_sub(intended)),
            connections: self
                .connections
                .iter()
                .map(|connection| connection.window)
                .collect(),
            counts: self.counts,
        })
    }

    /// Counts the requests that were due before `end_ns` and were not sent.
    fn unsent(&mut self, end_ns: u64) -> u64 {
        if let Some(schedule) = &mut self.schedule {
            return match self.budget {
                0 => 0,
                budget => schedule.advance_until(end_ns).min(budget),
            };
        }
        if !matches!(self.run.spec.arrivals(), Arrivals::Recorded { .. }) {
            return 0;
        }
        let mut unsent = 0;
        for connection in 0..self.connections.len() {
            let waits = matches!(
                self.connections[connection].state,
                State::Busy | State::Connecting
            );
            let mut is_first = waits;
            while let Some(request) = self.connections[connection].session.current() {
                if !is_first && self.at_speed(request.due_ns) < end_ns {
                    unsent += 1;
                }
                is_first = false;
                self.connections[connection].session.advance();
            }
        }
        let mut session = Session::default();
        while self.next_recorded_ns() < end_ns && self.sessions.next_session(&mut session) {
            let due = session
                .requests
                .iter()
                .filter(|request| self.at_speed(request.due_ns) < end_ns);
            unsent += due.count() as u64;
        }
        unsent
    }
}
