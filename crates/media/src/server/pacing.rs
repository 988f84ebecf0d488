//! Sending from the event loop: every packet has an absolute deadline, and the timing wheel reports the
//! next.
//!
//! What a packet costs is mostly the system call, so packets of one client leave together: those
//! that are due, and, when a core has more to send than calls it can make, those that will be due
//! soon. How many follows from the rate of all streams, so that few streams are sent evenly and
//! many in bursts whose length is bounded in time.

use std::sync::Arc;

use super::blocks::{Block, Place, Waiter};
use super::counters::count;
use super::reactor::{Reactor, now_ns, unix_ns};
use super::session::{Carrier, Connection, Session, State};
use super::stream::{BATCH_LIMIT, Sent, Sink};

/// Sends a second that a core makes before packets begin to leave together: about an eighth of a
/// core at 3 us each.
const SENDS_PER_SECOND: f64 = 40_000.0;

/// Blocks that a stream holds or waits for at least: the one it sends and the next.
const LEAST_AHEAD: u64 = 2;

/// And at most, however slow the disk.
const MOST_AHEAD: u64 = 8;

/// How many times a read's mean duration is allowed for, since reads wait for one another.
const READ_ALLOWANCE: u64 = 4;

/// What became of a stream's turn.
enum Turn {
    /// The next packet is due then.
    Later(u64),
    /// Its data have not come.
    Starved,
    /// It reached its end, or its file did.
    Over { failed: bool },
    /// The client is gone.
    Gone,
}

impl Reactor {
    /// How many packets leave together.
    fn batch(&self) -> usize {
        let batch = (self.packet_rate / SENDS_PER_SECOND).ceil() as usize;
        batch.clamp(1, BATCH_LIMIT)
    }

    /// Gives a stream its turn.
    pub(super) fn pace(&mut self, token: u64) {
        let Some(mut connection) = self.take(token) else {
            return;
        };
        let Some(session) = &mut connection.session else {
            return self.put(token, connection);
        };
        if session.state != State::Playing {
            return self.put(token, connection);
        }
        match self.turn(token, session) {
            Turn::Later(due_ns) => self.timers.set(token as u32, due_ns),
            Turn::Starved => count(&self.shared.counters.starved),
            Turn::Over { failed } => {
                let failed = failed || session.cut_short;
                self.finish(&mut connection, failed);
            }
            Turn::Gone => return self.discard(token, connection),
        }
        self.put(token, connection);
    }

    /// Sends what is due.
    fn turn(&mut self, token: u64, session: &mut Session) -> Turn {
        let batch = self.batch();
        let ahead_ns = u64::try_from(self.shared.options.ahead.as_nanos()).unwrap_or(u64::MAX);
        loop {
            self.fetch(token, session);
            let Carrier::Loop {
                stream,
                ahead,
                starved,
            } = &mut session.carrier
            else {
                return Turn::Over { failed: true };
            };
            let now = now_ns();
            let due_ns = stream.due_ns(stream.next);
            if due_ns > now {
                return Turn::Later(due_ns);
            }
            // The end is due when the last packet has had its time: a goodbye that overtakes it
            // would make some players drop it.
            if stream.next >= stream.end {
                return Turn::Over { failed: false };
            }
            let Some((_, Some(block))) = ahead.front() else {
                *starved = true;
                return Turn::Starved;
            };
            let media = &stream.medium.media;
            let room = (stream.end - stream.next).min(BATCH_LIMIT as u64) as usize;
            let room = block.packets_from(stream.next, media, room);
            if room == 0 {
                // The block is shorter than the medium says: the file was cut short.
                return Turn::Over { failed: true };
            }
            let mut packets = 1;
            while packets < room {
                let next_due_ns = stream.due_ns(stream.next + packets as u64);
                let is_soon = packets < batch && next_due_ns <= now.saturating_add(ahead_ns);
                if next_due_ns > now && !is_soon {
                    break;
                }
                packets += 1;
            }
            let block = Arc::clone(block);
            match stream.send(&block, packets, now, &mut self.scratch) {
                Sent::Done => {}
                Sent::Gone => return Turn::Gone,
                Sent::Broken => return Turn::Over { failed: true },
            }
        }
    }

    /// Lets go of blocks that were sent and asks for those that come next.
    fn fetch(&self, token: u64, session: &mut Session) {
        let Carrier::Loop { stream, ahead, .. } = &mut session.carrier else {
            return;
        };
        let medium = &stream.medium;
        let blocks = &medium.blocks;
        let current = blocks.of(stream.next);
        // Within a block nothing changes: most turns cost one comparison.
        if ahead.front().is_some_and(|(index, _)| *index == current) {
            return;
        }
        while ahead.front().is_some_and(|(index, _)| *index != current) {
            ahead.pop_front();
        }
        let last = blocks.of(stream.end.saturating_sub(1));
        let next = ahead.back().map_or(current, |(index, _)| index + 1);
        let block_ns = medium.media.time_ns(blocks.packets).max(1);
        let read_ns = READ_ALLOWANCE * self.shared.desk.counts().mean_ns();
        let wanted = (LEAST_AHEAD + read_ns / block_ns).min(MOST_AHEAD);
        let place = match (&medium.mapping, &stream.sink) {
            (Some(_), Sink::Datagrams { .. }) => Place::Mapped,
            _ => Place::Copied,
        };
        let waiter = Waiter {
            mailbox: Arc::clone(&self.mailbox),
            token,
        };
        for index in next..=last.min(current + wanted - 1) {
            let due_ns = stream.due_ns((index * blocks.packets).max(stream.next));
            let desk = &self.shared.desk;
            let block = desk.block(medium, index, place, due_ns, &waiter);
            ahead.push_back((index, block));
        }
    }

    /// Starts to play: at once, or when the first data have come.
    pub(super) fn begin(&mut self, token: u64, connection: &mut Connection) {
        let Some(session) = &mut connection.session else {
            return;
        };
        session.state = State::Starting;
        // Until it starts, what is due when is counted from now.
        session.with(|stream| stream.start(now_ns()));
        self.fetch(token, session);
        self.start_if_ready(token, session);
    }

    fn start_if_ready(&mut self, token: u64, session: &mut Session) {
        let Carrier::Loop { ahead, .. } = &session.carrier else {
            return;
        };
        if session.state == State::Starting && matches!(ahead.front(), Some((_, Some(_)))) {
            let now = now_ns();
            session.state = State::Playing;
            session.with(|stream| {
                stream.start(now);
                stream.report(&self.reports, now, unix_ns());
            });
            session.report_ns = now + super::protocol::report_interval_ns();
            self.timers.set(token as u32, now);
        }
    }

    /// A block came, or cannot be had.
    pub(super) fn take_block(&mut self, token: u64, index: u64, block: Option<Arc<Block>>) {
        let Some(mut connection) = self.take(token) else {
            return;
        };
        let mut resumes = false;
        if let Some(session) = &mut connection.session
            && let Carrier::Loop { ahead, starved, .. } = &mut session.carrier
            // A block that was asked for before a pause or a jump is not looked for any more.
            && let Some(place) = ahead.iter().position(|entry| entry.0 == index && entry.1.is_none())
        {
            if block.is_none() {
                // What was read before it is still sent; without any of it, this is the end.
                ahead.truncate(place);
                if place == 0 {
                    self.finish(&mut connection, true);
                    return self.put(token, connection);
                }
                session.cut_short = true;
                session.with(|stream| {
                    let end = index * stream.medium.blocks.packets;
                    stream.end = stream.end.min(end);
                });
            } else {
                ahead[place].1 = block;
                resumes = place == 0 && std::mem::take(starved);
                self.start_if_ready(token, session);
            }
        }
        self.put(token, connection);
        if resumes {
            self.pace(token);
        }
    }
}
