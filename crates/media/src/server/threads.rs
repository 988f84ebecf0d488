//! The published designs: threads of each stream's own.
//!
//! In `single` one thread reads a buffer of packets and sends it, in turn, so that every read delays
//! the packet after it. In `double` a prefetch thread fills one buffer while a packetizer thread
//! sends the other: the bit `ready` of a buffer says that it may be sent, and each thread remembers
//! which buffer is its next. The prefetcher goes as fast as the disk until both are full.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::blocks::{Block, Desk, Mailbox, News};
use super::counters::{Counters, count};
use super::library::Medium;
use super::reactor::now_ns;
use super::stream::{Scratch, Sent, Stream, lock};

/// Stack of a thread: it calls little, and there are thousands.
const STACK_BYTES: usize = 128 * 1024;

/// A stream's threads; dropping it tells them to stop.
pub(super) struct Runner {
    /// Tells this run of the stream from the one before a pause.
    pub(super) run: u64,
    control: Arc<Control>,
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// What a stream's threads share.
struct Control {
    stream: Arc<Mutex<Stream>>,
    medium: Arc<Medium>,
    buffer_packets: u64,
    desk: Desk,
    counters: Arc<Counters>,
    stopped: AtomicBool,
    pair: Mutex<Pair>,
    changed: Condvar,
}

/// The two buffers. In `single` only the condition beside them is used.
#[derive(Default)]
struct Pair {
    buffers: [Buffer; 2],
    stopped: bool,
}

/// A buffer with its bit.
#[derive(Default)]
struct Buffer {
    ready: bool,
    /// What it holds; none at the end of what could be read.
    block: Option<Block>,
}

/// What a runner needs.
pub(super) struct Needs {
    pub(super) stream: Arc<Mutex<Stream>>,
    pub(super) buffer_packets: u32,
    pub(super) desk: Desk,
    pub(super) counters: Arc<Counters>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) token: u64,
    pub(super) run: u64,
}

impl Runner {
    /// Starts to send: with a thread that reads ahead if `prefetches`.
    pub(super) fn start(needs: Needs, prefetches: bool) -> io::Result<Self> {
        let medium = Arc::clone(&lock(&needs.stream).medium);
        let control = Arc::new(Control {
            stream: needs.stream,
            medium,
            buffer_packets: u64::from(needs.buffer_packets.max(1)),
            desk: needs.desk,
            counters: needs.counters,
            stopped: AtomicBool::new(false),
            pair: Mutex::default(),
            changed: Condvar::new(),
        });
        let runner = Self {
            run: needs.run,
            control: Arc::clone(&control),
        };
        if prefetches {
            let control = Arc::clone(&control);
            thread("prefetch", move || control.prefetch())?;
        }
        let (mailbox, token, run) = (needs.mailbox, needs.token, needs.run);
        thread("packetizer", move || {
            let sent = if prefetches {
                control.packetize()
            } else {
                control.read_and_send()
            };
            control.stop();
            if let Some(failed) = sent {
                mailbox.leave(News::Ended { token, run, failed });
            }
        })?;
        Ok(runner)
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.stack_size(STACK_BYTES).spawn(body).map(drop)
}

impl Control {
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        lock(&self.pair).stopped = true;
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Sleeps until a time on the monotonic clock, or until told to stop.
    fn sleep_until(&self, due_ns: u64) {
        let mut pair = lock(&self.pair);
        while !pair.stopped {
            let wait_ns = due_ns.saturating_sub(now_ns());
            if wait_ns == 0 {
                return;
            }
            let wait = Duration::from_nanos(wait_ns);
            pair = self
                .changed
                .wait_timeout(pair, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Reads one buffer, waiting for the disk; none if nothing could be read.
    fn read(&self, first: u64) -> Option<Block> {
        let started = Instant::now();
        std::thread::sleep(self.desk.delay());
        let block = Block::read(&self.medium, first, self.buffer_packets).ok();
        let block = block.filter(|block| block.packets_from(first, &self.medium.media, 1) > 0);
        let bytes = block.as_ref().map_or(0, Block::cached_bytes);
        self.desk.counts().add(started, bytes, block.is_none());
        block
    }

    /// Sends a buffer, each packet at its time; false when the stream is over.
    fn send(&self, block: &Block, scratch: &mut Scratch) -> Result<bool, Sent> {
        let media = &self.medium.media;
        loop {
            let stream = lock(&self.stream);
            let (next, end) = (stream.next, stream.end);
            let due_ns = stream.due_ns(next);
            drop(stream);
            if next >= end {
                // The last packet has its time before the goodbye follows it.
                self.sleep_until(due_ns);
                return Ok(false);
            }
            if block.packets_from(next, media, 1) == 0 {
                return Ok(true);
            }
            self.sleep_until(due_ns);
            if self.is_stopped() {
                return Ok(false);
            }
            match lock(&self.stream).send(block, 1, now_ns(), scratch) {
                Sent::Done => {}
                sent => return Err(sent),
            }
        }
    }

    /// `single`: none if told to stop, otherwise whether the stream failed.
    fn read_and_send(&self) -> Option<bool> {
        let mut scratch = Scratch::default();
        let mut started = false;
        while !self.is_stopped() {
            let first = lock(&self.stream).next;
            let Some(block) = self.read(first) else {
                return Some(true);
            };
            if !started {
                lock(&self.stream).start(now_ns());
                started = true;
            }
            match self.send(&block, &mut scratch) {
                Ok(true) => {}
                Ok(false) if self.is_stopped() => return None,
                Ok(false) => return Some(false),
                Err(sent) => return Some(sent == Sent::Broken),
            }
        }
        None
    }

    /// `double`, the half that reads.
    fn prefetch(&self) {
        let (mut first, end) = {
            let stream = lock(&self.stream);
            (stream.next, stream.end)
        };
        let mut next = 0;
        while first < end {
            let mut pair = lock(&self.pair);
            while pair.buffers[next].ready && !pair.stopped {
                pair = self
                    .changed
                    .wait(pair)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if pair.stopped {
                return;
            }
            drop(pair);
            let block = self.read(first);
            let failed = block.is_none();
            lock(&self.pair).buffers[next] = Buffer { ready: true, block };
            self.changed.notify_all();
            if failed {
                return;
            }
            first += self.buffer_packets;
            next = 1 - next;
        }
    }

    /// `double`, the half that sends: as `read_and_send`.
    fn packetize(&self) -> Option<bool> {
        let mut scratch = Scratch::default();
        let (mut next, mut started) = (0, false);
        loop {
            if started && !self.is_stopped() && !lock(&self.pair).buffers[next].ready {
                let stream = lock(&self.stream);
                let is_due = stream.next < stream.end && stream.due_ns(stream.next) <= now_ns();
                if is_due {
                    count(&self.counters.starved);
                }
            }
            let mut pair = lock(&self.pair);
            while !pair.buffers[next].ready && !pair.stopped {
                pair = self
                    .changed
                    .wait(pair)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if pair.stopped {
                return None;
            }
            // The buffer stays not ready for the prefetcher until its packets have left.
            let block = pair.buffers[next].block.take();
            drop(pair);
            let Some(block) = block else {
                return Some(true);
            };
            if !started {
                lock(&self.stream).start(now_ns());
                started = true;
            }
            match self.send(&block, &mut scratch) {
                Ok(_) if self.is_stopped() => return None,
                Ok(true) => {}
                Ok(false) => return Some(false),
                Err(sent) => return Some(sent == Sent::Broken),
            }
            lock(&self.pair).buffers[next].ready = false;
            self.changed.notify_all();
            next = 1 - next;
        }
    }
}
