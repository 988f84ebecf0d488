//! One thread of a load: its event loop, and the times at which each connection starts a request.
//!
//! Each socket is registered once, edge-triggered, for all events. A request then costs a send, a
//! receive and a share of an `epoll_wait`. Arrivals of an open loop are checked between any two
//! events, so that a batch of responses delays an arrival by at most one response.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use perpacket_linux::clock::thread_cpu_ns;
use perpacket_linux::epoll::{EDGES, Epoll, Event};
use perpacket_timers::TimerWheel;
use rustix::thread::set_current_timer_slack;

use super::arrivals::Arrivals;
use super::connection::{Connection, State, Wait, WindowCounts, connect};
use super::counts::Counts;
use super::errors::RequestError;
use super::request_log::RequestLog;
use super::run_state::{Counters, NEVER, RunState};
use super::schedule::Schedule;
use super::session::Operation;
use super::sessions::ThreadSessions;
use super::shard::Shard;
use super::thread_result::ThreadResult;
use crate::error::LoadError;
use crate::limits;
use perpacket_http::date::DATE_BYTES;

/// Events per `epoll_wait`.
const EVENTS: usize = 256;
/// Longest sleep: the delay after which a thread notices the stop flag.
const LONGEST_SLEEP_NS: u64 = 50_000_000;
/// Bytes per read.
const BUFFER_BYTES: usize = 262_144;
/// Pause of a connection after a failed request. It doubles with each failure in a row.
const FIRST_PAUSE_NS: u64 = 1_000_000;
/// The maximum number of doublings of that pause.
const PAUSE_DOUBLINGS: u32 = 7;

/// The load of one thread.
pub(crate) struct Worker {
    pub(super) run: Arc<RunState>,
    pub(super) index: usize,
    pub(super) epoll: Epoll,
    pub(super) connections: Vec<Connection>,
    /// Number of the first connection among those of all threads.
    first_connection: usize,
    pub(super) timers: TimerWheel,
    pub(super) sessions: ThreadSessions,
    pub(super) schedule: Option<Schedule>,
    /// Arrival time of the next request or session.
    next_arrival_ns: u64,
    /// Open connections without a request. The peer may have closed some of them.
    pub(super) idle: Vec<u32>,
    /// Connections without a session.
    pub(super) free: Vec<u32>,
    /// Requests left to begin.
    pub(super) budget: u64,
    /// Requests begun.
    pub(super) begun: u64,
    /// Whether the last arrival found every connection busy.
    pub(super) all_busy: bool,
    pub(super) in_flight: u64,
    measuring: bool,
    pub(super) cpu_begin_ns: u64,
    pub(super) counts: Counts,
    pub(super) log: Option<RequestLog>,
    pub(super) buffer: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    /// Dates of the client's copies, for conditional requests.
    pub(super) copies: HashMap<u32, [u8; DATE_BYTES]>,
    /// Digests of the objects' bodies.
    pub(super) digests: HashMap<u32, u32>,
    pub(super) conditionals: perpacket_workload::Stream,
    pub(super) answered_ns: u64,
}

impl Worker {
    /// Creates the state of a thread. The main thread runs this, so that it can report errors
    /// before the start.
    pub(crate) fn new(
        run: Arc<RunState>,
        index: usize,
        threads: u32,
        first_connection: usize,
        connections: usize,
        sessions: ThreadSessions,
        log: Option<RequestLog>,
    ) -> Result<Self, LoadError> {
        let spec = &run.spec;
        let shard = spec.shard().split(index as u32, threads);
        let own = Shard {
            index: index as u32,
            shards: threads,
        };
        let schedule = match spec.arrivals() {
            Arrivals::Requests { per_s, process } | Arrivals::Sessions { per_s, process } => {
                Some(Schedule::new(per_s, process, shard, spec.seed.seed))
            }
            _ => None,
        };

        let seed = spec.seed.seed ^ u64::from(shard.index);
        Ok(Self {
            index,
            epoll: Epoll::new().map_err(LoadError::system("epoll"))?,
            connections: (0..connections).map(|_| Connection::default()).collect(),
            first_connection,
            timers: TimerWheel::new(0, connections),
            sessions,
            next_arrival_ns: schedule.as_ref().map_or(NEVER, Schedule::next_ns),
            schedule,
            idle: Vec::with_capacity(connections),
            free: (0..connections as u32).rev().collect(),
            budget: spec
                .requests
                .map_or(u64::MAX, |requests| own.share(requests.get().into())),
            begun: 0,
            all_busy: false,
            in_flight: 0,
            measuring: run.window_begin_ns == 0,
            cpu_begin_ns: 0,
            counts: run.zero_counts(),
            log,
            buffer: vec![0; BUFFER_BYTES],
            scratch: Vec::with_capacity(2048),
            copies: HashMap::new(),
            digests: HashMap::new(),
            conditionals: perpacket_workload::Stream::new(seed, "conditional requests"),
            answered_ns: 0,
            run,
        })
    }

    /// Runs until the window ends, the work is done, or the stop flag is set.
    pub(crate) fn run(mut self) -> Result<ThreadResult, LoadError> {
        let cpus = self.run.spec.runs_on.list();
        if !cpus.is_empty() {
            limits::pin(cpus[self.index % cpus.len()])?;
        }
        // With the default timer slack, the kernel may wake a thread 50 us late (prctl(2)).
        set_current_timer_slack(NonZeroU64::new(1))
            .map_err(io::Error::from)
            .map_err(LoadError::system("timer slack"))?;
        self.cpu_begin_ns = thread_cpu_ns();
        let mut events = Vec::with_capacity(EVENTS);
        let mut fired = Vec::new();
        self.start();
        let mut now = self.now();
        while !self.is_over(now) {
            self.start_arrivals(now);
            self.timers.expire(now, &mut fired);
            for slot in fired.drain(..) {
                self.timer_expired(slot);
            }
            self.publish_progress();
            self.wait_for_events(&mut events)?;
            for event in events.drain(..) {
                let data = event.data.u64();
                let (slot, generation) = (data as u32, (data >> 32) as u32);
                now = self.handle_event(slot, generation, event.flags);
                if now >= self.next_arrival_ns {
                    self.start_arrivals(now);
                }
            }
            now = self.now();
            if !self.measuring && now >= self.run.window_begin_ns {
                self.begin_window();
            }
        }
        self.finish(now)
    }

    /// Nanoseconds since the start.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.run.now_ns()
    }

    fn is_over(&self, now: u64) -> bool {
        if now >= self.run.window_end_ns || self.run.stop.load(Ordering::Relaxed) {
            return true;
        }
        // Only a scheduled arrival starts a session on a free connection. So a closed loop or a log
        // is over when no arrival is scheduled and all connections are free.
        let is_self_paced = matches!(
            self.run.spec.arrivals(),
            Arrivals::Closed | Arrivals::Recorded { .. }
        );
        self.in_flight == 0
            && (self.budget == 0
                || is_self_paced
                    && self.next_arrival_ns == NEVER
                    && self.free.len() == self.connections.len())
    }

    /// Begins the sessions of a closed loop, or finds the first arrival of a log.
    fn start(&mut self) {
        match self.run.spec.arrivals() {
            Arrivals::Closed => {
                for slot in core::mem::take(&mut self.free).into_iter().rev() {
                    let now = self.now();
                    self.begin_session(slot, now);
                }
            }
            Arrivals::Recorded { .. } => self.next_arrival_ns = self.next_recorded_ns(),
            Arrivals::Requests { .. } | Arrivals::Sessions { .. } => {}
        }
    }

    /// The start of the log's next session, in the time of the run.
    pub(super) fn next_recorded_ns(&mut self) -> u64 {
        let due = self.sessions.next_due_ns();
        due.map_or(NEVER, |due_ns| self.at_speed(due_ns))
    }

    /// Converts a time of the log to the time of the run.
    pub(super) fn at_speed(&self, due_ns: u64) -> u64 {
        match self.run.spec.arrivals() {
            Arrivals::Recorded { speed } => (due_ns as f64 / speed) as u64,
            _ => due_ns,
        }
    }

    /// Starts the arrivals that are due while connections are free.
    fn start_arrivals(&mut self, now: u64) {
        while self.next_arrival_ns <= now && self.budget > 0 {
            let intended = self.next_arrival_ns;
            let arrivals = self.run.spec.arrivals();
            let Some(slot) = self.free_connection(arrivals) else {
                self.all_busy = true;
                return;
            };
            self.all_busy = false;
            if self.connections[slot as usize].session.current().is_none() {
                let session = &mut self.connections[slot as usize].session;
                if !self.sessions.next_session(session) {
                    self.free.push(slot);
                    self.next_arrival_ns = NEVER;
                    return;
                }
            }
            match &mut self.schedule {
                Some(schedule) => {
                    schedule.advance();
                    self.next_arrival_ns = schedule.next_ns();
                }
                None => self.next_arrival_ns = self.next_recorded_ns(),
            }
            self.begin_request(slot, intended);
        }
    }

    /// A free connection. If arrivals are requests and not sessions, open connections are used
    /// first.
    fn free_connection(&mut self, arrivals: Arrivals) -> Option<u32> {
        if matches!(arrivals, Arrivals::Requests { .. })
            && let Some(slot) = self.idle.pop()
        {
            return Some(slot);
        }
        self.free.pop()
    }

    /// Begins the next session on a connection of a closed loop.
    fn begin_session(&mut self, slot: u32, now: u64) {
        let session = &mut self.connections[slot as usize].session;
        if self.sessions.next_session(session) {
            self.schedule_request(slot, now);
        } else {
            self.free.push(slot);
        }
    }

    /// Starts the current request of a session when it is due.
    fn schedule_request(&mut self, slot: u32, now: u64) {
        let Some(request) = self.connections[slot as usize].session.current() else {
            return;
        };
        let due = match self.run.spec.arrivals() {
            Arrivals::Recorded { .. } => self.at_speed(request.due_ns),
            _ => now + request.due_ns,
        };
        if due > now {
            self.wait_until(slot, Wait::Start(due), due);
        } else {
            self.begin_request(slot, due);
        }
    }

    /// Begins the current request: connects if necessary, then sends it.
    pub(super) fn begin_request(&mut self, slot: u32, intended: u64) {
        if self.budget == 0 {
            return;
        }
        self.budget -= 1;
        self.begun += 1;
        let now = self.now();
        if self.run.spec.arrivals().are_open() {
            let lag = now.saturating_sub(intended);
            self.counts.lag.record(lag);
            self.counts.recent_lag_ns = self.counts.recent_lag_ns.max(lag);
        }
        let conditional_share = self.run.spec.conditional.0;
        let connection = &mut self.connections[slot as usize];
        connection.request = connection.session.current().unwrap_or_default();
        if conditional_share > 0.0
            && connection.request.operation == Operation::Get
            && self.conditionals.uniform() < conditional_share
        {
            connection.request.operation = Operation::Conditional;
        }
        connection.closing = connection.session.is_last();
        connection.retried = false;
        connection.intended_ns = intended;
        connection.wait = Wait::TimeOut;
        self.in_flight += 1;
        if connection.state == State::Closed {
            self.connect(slot, now);
        } else {
            self.send_request(slot, now);
        }
    }

    /// Opens a connection for the current request.
    pub(super) fn connect(&mut self, slot: u32, now: u64) {
        let paced = self.run.spec.line_speed_bps().is_some();
        let from = self
            .run
            .spec
            .sources()
            .address(self.first_connection + slot as usize);
        let connection = &mut self.connections[slot as usize];
        connection.progress_ns = now;
        connection.sent_ns = now;
        connection.reset_response();
        let data = u64::from(slot) | u64::from(connection.generation) << 32;
        let opened = connect(self.run.address, from, paced).and_then(|stream| {
            self.epoll.add(&stream, data, EDGES)?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => {
                connection.stream = Some(stream);
                connection.state = State::Connecting;
                self.counts.opened += 1;
                self.arm_timeout(slot, now);
            }
            Err(error) => {
                let error_kind = RequestError::of_connecting(&error);
                self.fail_request(slot, error_kind, now, || format!("connect: {error}"));
            }
        }
    }

    /// Sets the time-out of a request unless the timer is set. Progress does not move the timer.
    /// Instead, progress is checked when the timer fires, so that a normal request has no
    /// additional cost.
    pub(super) fn arm_timeout(&mut self, slot: u32, now: u64) {
        if self.timers.due_ns(slot).is_none() {
            self.timers
                .set(slot, now + self.run.spec.timeout.0.as_nanos() as u64);
        }
    }

    /// Sets the timer for something other than the time-out.
    pub(super) fn wait_until(&mut self, slot: u32, wait: Wait, until_ns: u64) {
        self.connections[slot as usize].wait = wait;
        self.timers.set(slot, until_ns);
    }

    /// Handles the expiry of a connection's timer.
    fn timer_expired(&mut self, slot: u32) {
        let now = self.now();
        let connection = &mut self.connections[slot as usize];
        match core::mem::replace(&mut connection.wait, Wait::TimeOut) {
            Wait::Start(due) => self.begin_request(slot, due),
            Wait::LineEnd => self.complete_request(slot, now),
            Wait::Line => {
                self.receive(slot);
                let waits = self.connections[slot as usize].wait != Wait::TimeOut;
                if !waits && self.connections[slot as usize].state == State::Busy {
                    self.arm_timeout(slot, now);
                }
            }
            Wait::TimeOut => {
                if !matches!(connection.state, State::Busy | State::Connecting) {
                    return;
                }
                let timeout_ns = self.run.spec.timeout.0.as_nanos() as u64;
                let due = connection.progress_ns + timeout_ns;
                if due > now {
                    self.timers.set(slot, due);
                } else {
                    let phase = match connection.state {
                        State::Connecting => "connecting",
                        _ if connection.response.is_some() => "in a body",
                        _ => "waiting for a response",
                    };
                    self.fail_request(slot, RequestError::TimedOut, now, || {
                        format!(
                            "{phase}: no byte for {:?}",
                            Duration::from_nanos(timeout_ns)
                        )
                    });
                }
            }
        }
    }

    /// Ends the current request, complete or failed, and schedules the next one.
    pub(super) fn end_request(&mut self, slot: u32, now: u64, failed: bool) {
        self.in_flight -= 1;
        let arrivals = self.run.spec.arrivals();
        let connection = &mut self.connections[slot as usize];
        let continues = connection.session.advance();
        if !continues {
            connection.close();
        }
        let pause_ns = match failed {
            true => FIRST_PAUSE_NS << connection.failed.min(PAUSE_DOUBLINGS),
            false => 0,
        };
        connection.failed = if failed { connection.failed + 1 } else { 0 };
        match arrivals {
            Arrivals::Requests { .. } if continues && connection.state == State::Idle => {
                self.idle.push(slot);
            }
            Arrivals::Requests { .. } => self.free.push(slot),
            Arrivals::Closed if !continues => {
                let session = &mut self.connections[slot as usize].session;
                if self.sessions.next_session(session) {
                    self.schedule_after_pause(slot, now, pause_ns);
                } else {
                    self.free.push(slot);
                }
            }
            _ if continues => self.schedule_after_pause(slot, now, pause_ns),
            _ => self.free.push(slot),
        }
    }

    fn schedule_after_pause(&mut self, slot: u32, now: u64, pause_ns: u64) {
        if pause_ns == 0 {
            return self.schedule_request(slot, now);
        }
        let request = self.connections[slot as usize].session.current();
        let request_due_ns = request.map_or(0, |request| request.due_ns);
        let due = match self.run.spec.arrivals() {
            Arrivals::Recorded { .. } => self.at_speed(request_due_ns),
            _ => now + request_due_ns.max(pause_ns),
        };
        self.wait_until(slot, Wait::Start(due), due.max(now + pause_ns));
    }

    /// Waits for events until the next timer or arrival.
    fn wait_for_events(&mut self, events: &mut Vec<Event>) -> Result<(), LoadError> {
        let now = self.now();
        let can_begin = !self.free.is_empty() || !self.idle.is_empty();
        let mut until = now + LONGEST_SLEEP_NS;
        if can_begin && self.budget > 0 {
            let spin_ns = self
                .run
                .spec
                .spin
                .map_or(0, |spin| spin.0.as_nanos() as u64);
            until = until.min(self.next_arrival_ns.saturating_sub(spin_ns));
        }
        if let Some(timer) = self.timers.next_ns() {
            until = until.min(timer);
        }
        until = until.min(self.run.window_end_ns);
        if !self.measuring {
            until = until.min(self.run.window_begin_ns);
        }
        let left = Duration::from_nanos(until.saturating_sub(now));
        (self.epoll.wait(events, Some(left))).map_err(LoadError::system("epoll"))
    }

    /// Ends the warm-up.
    fn begin_window(&mut self) {
        self.measuring = true;
        self.counts = self.run.zero_counts();
        self.cpu_begin_ns = thread_cpu_ns();
        for connection in &mut self.connections {
            connection.window = WindowCounts::default();
        }
    }

    /// Publishes progress for the main thread.
    pub(super) fn publish_progress(&mut self) {
        let counters = &self.run.counters[self.index];
        Counters::set(&counters.requests, self.counts.requests);
        Counters::set(&counters.errors, self.counts.errors.total());
        Counters::set(
            &counters.refused,
            self.counts.errors.count(RequestError::Refused),
        );
        Counters::set(
            &counters.response_sum_ns,
            self.counts.response_sum_ns as u64,
        );
        Counters::set(&counters.answered_ns, self.answered_ns);
        if self.counts.recent_lag_ns > 0 {
            counters
                .lag_max_ns
                .fetch_max(self.counts.recent_lag_ns, Ordering::Relaxed);
            self.counts.recent_lag_ns = 0;
        }
    }
}
