//! Sending from the event loop. Every packet has an absolute due time, and the timing wheel returns
//! the streams whose next packet is due.
//!
//! The system call is most of the cost of a packet, so one call sends several packets of a client:
//! all packets that are due, and at high rates also packets that are due soon. The total rate of
//! all streams determines how many. If there are few streams, their packets leave evenly. If there
//! are many, packets leave in bursts of bounded length.

use std::sync::Arc;

use perpacket_linux::clock::{monotonic_ns, realtime_ns};

use super::block::{Block, Storage};
use super::counters::count;
use super::event_loop::EventLoop;
use super::mailbox::Requester;
use super::session::{Connection, Sender, Session, State};
use super::stream::{BATCH_LIMIT, Destination, SendOutcome};

/// Above this number of sends a second, several packets are sent together. At 3 us a send, this is
/// about an eighth of a CPU.
const SENDS_PER_SECOND: f64 = 40_000.0;

/// The minimum number of blocks that a stream owns or requests: the current block and the next.
const MIN_BLOCKS: u64 = 2;

/// The maximum number of blocks that a stream owns or requests.
const MAX_BLOCKS: u64 = 8;

/// A stream reads ahead by this many mean read times, because reads wait for one another.
const READ_TIME_FACTOR: u64 = 4;

/// The state of a stream after its due packets were sent.
enum Pace {
    /// The next packet is due at this time.
    Later(u64),
    /// The block of the next packet has not been read.
    Starved,
    /// The stream is at its end, or the file cannot be read.
    Ended { failed: bool },
    /// The client receives no more packets.
    Gone,
}

impl EventLoop {
    /// The maximum number of packets that are sent together.
    fn batch(&self) -> usize {
        let batch = (self.packet_rate / SENDS_PER_SECOND).ceil() as usize;
        batch.clamp(1, BATCH_LIMIT)
    }

    /// Sends the due packets of a stream and sets its timer.
    pub(super) fn pace(&mut self, token: u64) {
        let Some(mut connection) = self.remove(token) else {
            return;
        };
        let Some(session) = &mut connection.session else {
            return self.put_back(token, connection);
        };
        if session.state != State::Playing {
            return self.put_back(token, connection);
        }
        match self.send_due(token, session) {
            Pace::Later(due_ns) => self.timers.set(token as u32, due_ns),
            Pace::Starved => count(&self.shared.counters.starved),
            Pace::Ended { failed } => {
                let failed = failed || session.cut_short;
                self.finish(&mut connection, failed);
            }
            Pace::Gone => return self.discard(token, connection),
        }
        self.put_back(token, connection);
    }

    /// Sends the due packets.
    fn send_due(&mut self, token: u64, session: &mut Session) -> Pace {
        let batch = self.batch();
        let ahead_ns = u64::try_from(self.shared.spec.ahead().as_nanos()).unwrap_or(u64::MAX);
        loop {
            self.read_ahead(token, session);
            let Sender::EventLoop {
                stream,
                ahead,
                starved,
            } = &mut session.sender
            else {
                return Pace::Ended { failed: true };
            };
            let now = monotonic_ns();
            let due_ns = stream.due_ns(stream.next);
            if due_ns > now {
                return Pace::Later(due_ns);
            }
            // The end of the stream is due when the time of the last packet has passed. Some
            // players drop a packet that arrives after the goodbye.
            if stream.next >= stream.end {
                return Pace::Ended { failed: false };
            }
            let Some((_, Some(block))) = ahead.front() else {
                *starved = true;
                return Pace::Starved;
            };
            let layout = &stream.medium.layout;
            let limit = (stream.end - stream.next).min(BATCH_LIMIT as u64) as usize;
            let available = block.packets_from(stream.next, layout, limit);
            if available == 0 {
                // The block is shorter than the layout requires, because the file shrank.
                return Pace::Ended { failed: true };
            }
            let mut packets = 1;
            while packets < available {
                let next_due_ns = stream.due_ns(stream.next + packets as u64);
                let is_soon = packets < batch && next_due_ns <= now.saturating_add(ahead_ns);
                if next_due_ns > now && !is_soon {
                    break;
                }
                packets += 1;
            }
            let block = Arc::clone(block);
            match stream.send(&block, packets, now, &mut self.buffers) {
                SendOutcome::Done => {}
                SendOutcome::Gone => return Pace::Gone,
                SendOutcome::Broken => return Pace::Ended { failed: true },
            }
        }
    }

    /// Drops the blocks that were sent and requests the next.
    fn read_ahead(&self, token: u64, session: &mut Session) {
        let Sender::EventLoop { stream, ahead, .. } = &mut session.sender else {
            return;
        };
        let medium = &stream.medium;
        let blocks = &medium.blocks;
        let current = blocks.index_of(stream.next);
        // While the current block does not change, nothing else does, so most calls return here.
        if ahead.front().is_some_and(|(index, _)| *index == current) {
            return;
        }
        while ahead.front().is_some_and(|(index, _)| *index != current) {
            ahead.pop_front();
        }
        let last = blocks.index_of(stream.end.saturating_sub(1));
        let next = ahead.back().map_or(current, |(index, _)| index + 1);
        let block_ns = medium.layout.time_ns(blocks.packets).max(1);
        let read_ns = READ_TIME_FACTOR * self.shared.readers.counts().mean_ns();
        let wanted = (MIN_BLOCKS + read_ns / block_ns).min(MAX_BLOCKS);
        let place = match (&medium.mapping, &stream.destination) {
            (Some(_), Destination::Datagrams { .. }) => Storage::Mapped,
            _ => Storage::Copied,
        };
        let requester = Requester {
            mailbox: Arc::clone(&self.mailbox),
            token,
        };
        for index in next..=last.min(current + wanted - 1) {
            let due_ns = stream.due_ns((index * blocks.packets).max(stream.next));
            let readers = &self.shared.readers;
            let block = readers.block(medium, index, place, due_ns, &requester);
            ahead.push_back((index, block));
        }
    }

    /// Starts a stream, now or when its first block has been read.
    pub(super) fn begin(&mut self, token: u64, connection: &mut Connection) {
        let Some(session) = &mut connection.session else {
            return;
        };
        session.state = State::Starting;
        // These due times only order the reads. The stream sets them again when it starts.
        session.with(|stream| stream.start(monotonic_ns()));
        self.read_ahead(token, session);
        self.start_if_ready(token, session);
    }

    fn start_if_ready(&mut self, token: u64, session: &mut Session) {
        let Sender::EventLoop { ahead, .. } = &session.sender else {
            return;
        };
        if session.state == State::Starting && matches!(ahead.front(), Some((_, Some(_)))) {
            let now = monotonic_ns();
            session.state = State::Playing;
            session.with(|stream| {
                stream.start(now);
                stream.report(&self.reports, now, realtime_ns());
            });
            session.report_ns = now + super::protocol::report_interval_ns();
            self.timers.set(token as u32, now);
        }
    }

    /// Adds a block to its stream. `None` is a failed read.
    pub(super) fn receive_block(&mut self, token: u64, index: u64, block: Option<Arc<Block>>) {
        let Some(mut connection) = self.remove(token) else {
            return;
        };
        let mut resumes = false;
        if let Some(session) = &mut connection.session
            && let Sender::EventLoop { ahead, starved, .. } = &mut session.sender
            // A stream that was paused or moved has dropped its earlier requests, so no entry
            // matches.
            && let Some(position) = ahead.iter().position(|entry| entry.0 == index && entry.1.is_none())
        {
            if block.is_none() {
                // The stream still sends the blocks before this one.
                ahead.truncate(position);
                if position == 0 {
                    self.finish(&mut connection, true);
                    return self.put_back(token, connection);
                }
                session.cut_short = true;
                session.with(|stream| {
                    let end = index * stream.medium.blocks.packets;
                    stream.end = stream.end.min(end);
                });
            } else {
                ahead[position].1 = block;
                resumes = position == 0 && std::mem::take(starved);
                self.start_if_ready(token, session);
            }
        }
        self.put_back(token, connection);
        if resumes {
            self.pace(token);
        }
    }
}
