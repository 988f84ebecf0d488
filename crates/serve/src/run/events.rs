//! An epoll loop: one thread, its own listener, its own cache.
//!
//! A request on an open connection costs three system calls: wait, read, send. Connections are
//! registered once, edge-triggered, for reading and writing, and never again. Of all that are
//! ready a loop first takes in what they ask and answers what lies in the cache, then sends, then
//! does what takes longer: the kernel's code of one kind stays in the processor's nearest cache,
//! and no long answer holds back a short one. A loop that is faster than its clients finds one or
//! two ready each time it wakes, and pays a wait, and often a sleep and a wakeup, for each; with
//! `--coalesce` it lets them gather. What is done for a connection when it is ready stands in
//! [`super::engine`]; here is who is ready, who comes, and who has waited too long.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::thread::{nanosleep, set_current_timer_slack};

use super::connection::{Connection, Connections};
use super::engine::{DEFERRED_TIME, Engine, Fate};
use super::listener::{Reserve, accept, turn_away};
use super::tls::TlsSession;
use crate::answer::Worker;
use crate::files::helpers::{HelperDesk, Mailbox};

/// Tokens that are no connection's.
const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// Events taken at a time.
const EVENTS: usize = 256;

/// Connections taken for one event of the listener, so that clients already here get their turn.
const ACCEPTS: usize = 64;

/// How long no client is taken when there is nothing to turn one away with, in milliseconds.
const PAUSE_MS: u64 = 100;

/// Clients ready at a time that are not few: more of them save little more of the wait they share.
const GATHERED: usize = 32;

/// Open connections from which on more clients may come while a loop waits for them.
const GATHERED_OF: usize = 2 * GATHERED;

/// How late the kernel may wake a loop that waits for so little, in nanoseconds; its own default is
/// 50 microseconds (prctl(2), PR_SET_TIMERSLACK).
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1000).unwrap();

/// No wait at all.
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

struct Loop<'a> {
    engine: Engine,
    connections: Connections,
    epoll: OwnedFd,
    listener: &'a OwnedFd,
    mailbox: Arc<Mailbox>,
    tls: Option<&'a Arc<rustls::ServerConfig>>,
    reserve: Reserve,
    paused_until_ms: Option<u64>,
    /// Connections whose next request may take long.
    deferred: VecDeque<u64>,
    /// The helpers are done with something.
    has_outcomes: bool,
}

/// Runs the loop until `halt` is true and the mailbox rings.
pub fn run(
    worker: Worker,
    listener: &OwnedFd,
    mailbox: Arc<Mailbox>,
    desk: Option<HelperDesk>,
    tls: Option<&Arc<rustls::ServerConfig>>,
    halt: &AtomicBool,
) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut this = Loop {
        engine: Engine::new(worker, desk),
        connections: Connections::default(),
        epoll,
        listener,
        mailbox,
        tls,
        reserve: Reserve::new(),
        paused_until_ms: None,
        deferred: VecDeque::new(),
        has_outcomes: false,
    };
    let bell = EventData::new_u64(BELL);
    epoll::add(&this.epoll, this.mailbox.bell(), bell, EventFlags::IN)?;
    let client = EventData::new_u64(LISTENER);
    epoll::add(&this.epoll, listener, client, EventFlags::IN)?;
    let gather = gathering(this.engine.worker.site.settings.coalesce_us);
    let mut events = Vec::with_capacity(EVENTS);
    while !halt.load(Ordering::Relaxed) {
        events.clear();
        let timeout = this.timeout();
        this.wait(&mut events, timeout.as_ref())?;
        let few = (1..GATHERED).contains(&events.len()) && this.deferred.is_empty();
        if let Some(time) = gather.filter(|_| few && this.connections.len() >= GATHERED_OF) {
            this.engine.worker.counters().system_calls.add(1);
            // A signal ends it early, and nothing is lost.
            let _ = nanosleep(&time);
            this.wait(&mut events, Some(&AT_ONCE))?;
        }
        this.turn(&events)?;
    }
    Ok(())
}

/// How long to let clients gather, and a thread that wakes in time for it.
fn gathering(coalesce_us: u64) -> Option<Timespec> {
    if coalesce_us == 0 {
        return None;
    }
    // Without it the loop waits longer than asked, which is no reason not to serve.
    let _ = set_current_timer_slack(Some(TIMER_SLACK_NS));
    Some(Timespec {
        tv_sec: 0,
        tv_nsec: i64::try_from(coalesce_us * 1000).unwrap_or(0),
    })
}

impl Loop<'_> {
    /// Adds what is ready to the events.
    fn wait(&self, events: &mut Vec<Event>, timeout: Option<&Timespec>) -> io::Result<()> {
        self.engine.worker.counters().system_calls.add(1);
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what there is to do.
    fn turn(&mut self, events: &[Event]) -> io::Result<()> {
        self.engine.worker.clock.tick();
        self.engine.worker.defers = true;
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                LISTENER => self.accept_some()?,
                BELL => self.has_outcomes = true,
                _ => self.take_in(token, flags),
            }
        }
        for event in events {
            let token = event.data.u64();
            if !matches!(token, LISTENER | BELL) {
                self.advance(token);
            }
        }
        self.engine.worker.defers = false;
        self.go_on();
        let now_ms = self.engine.worker.clock.now_ms;
        if now_ms >= self.engine.next_deadline_ms {
            self.sweep();
        }
        if self.paused_until_ms.is_some_and(|until| now_ms >= until) {
            self.paused_until_ms = None;
            self.listen(EventFlags::IN)?;
        }
        Ok(())
    }

    /// How long to wait: until a connection may be overdue.
    fn timeout(&self) -> Option<Timespec> {
        if !self.deferred.is_empty() {
            return Some(AT_ONCE);
        }
        let until_ms = match self.paused_until_ms {
            Some(pause_ms) => self.engine.next_deadline_ms.min(pause_ms),
            None if self.connections.len() == 0 => return None,
            None => self.engine.next_deadline_ms,
        };
        let left_ms = until_ms.saturating_sub(self.engine.worker.clock.now_ms);
        // The coarse clock may be a tick behind: without some more the loop would wait twice.
        let left_ms = left_ms.min(3_600_000) as i64 + 10;
        Some(Timespec {
            tv_sec: left_ms / 1000,
            tv_nsec: left_ms % 1000 * 1_000_000,
        })
    }

    /// An event of a connection: notes it, and takes in what came.
    #[inline]
    fn take_in(&mut self, token: u64, flags: EventFlags) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            return self.close(token);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP) {
            connection.is_readable = true;
            // An end that comes with the last bytes has its edge with theirs: a short read must
            // not be taken for all there is.
            connection.is_half_closed |= flags.contains(EventFlags::RDHUP);
        }
        if self.engine.take_in(connection) == Fate::Ends {
            self.close(token);
        }
    }

    /// Does for a connection all that can be done now.
    #[inline]
    fn advance(&mut self, token: u64) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        match self.engine.advance(connection, token) {
            Fate::Stays => {}
            Fate::Later => {
                if !std::mem::replace(&mut connection.is_queued, true) {
                    self.deferred.push_back(token);
                }
            }
            Fate::Ends => self.close(token),
        }
    }

    /// Does what may take longer, when what is done before is sent.
    fn go_on(&mut self) {
        if std::mem::take(&mut self.has_outcomes) {
            self.take_outcomes();
        }
        let begin = Instant::now();
        for _ in 0..self.deferred.len() {
            let Some(token) = self.deferred.pop_front() else {
                return;
            };
            if let Some(connection) = self.connections.get(token) {
                connection.is_queued = false;
            }
            self.advance(token);
            if begin.elapsed() >= DEFERRED_TIME {
                return;
            }
        }
    }

    /// Takes clients until there are no more, or others should have their turn.
    fn accept_some(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            self.engine.worker.counters().system_calls.add(1);
            match accept(self.listener, SocketFlags::NONBLOCK) {
                Ok((socket, peer)) => {
                    if !self.engine.worker.site.enter() {
                        turn_away(&socket, &self.engine.unavailable());
                        self.engine.worker.counters().shed.add(1);
                        continue;
                    }
                    self.engine.worker.welcome();
                    let tls = match self.tls.map(TlsSession::new).transpose() {
                        Ok(tls) => tls.map(Box::new),
                        Err(_) => {
                            self.leave();
                            continue;
                        }
                    };
                    self.enter(Connection::new(socket, peer, tls));
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    let answer = self.engine.unavailable();
                    if !self.reserve.shed(self.listener.as_fd(), &answer) {
                        let now_ms = self.engine.worker.clock.now_ms;
                        self.paused_until_ms = Some(now_ms + PAUSE_MS);
                        return self.listen(EventFlags::empty());
                    }
                    self.engine.worker.counters().shed.add(1);
                }
                // The client was gone before it was taken, or the network had an error for it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Adds a connection. The first event comes at once if it has sent something already.
    fn enter(&mut self, mut connection: Connection) {
        self.engine.rest(&mut connection);
        let token = self.connections.insert(connection);
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.engine.worker.counters().system_calls.add(1);
        if epoll::add(
            &self.epoll,
            &connection.socket,
            EventData::new_u64(token),
            flags,
        )
        .is_err()
        {
            self.engine.worker.counters().shed.add(1);
            self.close(token);
        }
    }

    /// Listens, or does not.
    fn listen(&self, flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(LISTENER);
        Ok(epoll::modify(&self.epoll, self.listener, data, flags)?)
    }

    /// Gives connections what the helpers did for them.
    fn take_outcomes(&mut self) {
        for (token, outcome) in self.mailbox.take() {
            self.engine
                .take_outcome(&mut self.connections, token, outcome);
            self.advance(token);
        }
    }

    /// Ends those who have waited too long.
    fn sweep(&mut self) {
        for token in self.engine.overdue(&mut self.connections) {
            self.close(token);
        }
    }

    fn close(&mut self, token: u64) {
        // Closing the socket takes it out of epoll: nobody else has its description.
        if self.connections.remove(token).is_some() {
            self.engine.worker.counters().system_calls.add(1);
            self.leave();
        }
    }

    fn leave(&self) {
        self.engine.worker.counters().closed.add(1);
        self.engine.worker.site.leave();
    }
}
