//! The published designs (Isa 2003, chapter 5): every stream has threads of its own.
//!
//! In `single`, one thread reads a buffer of packets, then sends it, so every read delays the next
//! packet. In `double`, a prefetch thread fills one buffer while a packetizer thread sends the other.
//! A buffer is sent when its bit `ready` is set, and each thread alternates between the buffers. The
//! prefetch thread reads as fast as the disk until both buffers are full.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use perpacket_linux::clock::monotonic_ns;

use super::block::Block;
use super::counters::{Counters, count};
use super::library::Medium;
use super::mailbox::{Event, Mailbox, lock};
use super::readers::ReaderQueue;
use super::stream::{SendBuffers, SendOutcome, Stream};

/// Stack of a thread. It is small because there are thousands of threads.
const STACK_BYTES: usize = 128 * 1024;

/// The threads of a stream. Dropping this stops them.
pub(super) struct StreamThreads {
    /// Number of the run. A stream has another run after a pause.
    pub(super) run: u64,
    control: Arc<Control>,
}

impl Drop for StreamThreads {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// The state that the threads of a stream share.
struct Control {
    stream: Arc<Mutex<Stream>>,
    medium: Arc<Medium>,
    buffer_packets: u64,
    readers: ReaderQueue,
    counters: Arc<Counters>,
    stopped: AtomicBool,
    pair: Mutex<BufferPair>,
    changed: Condvar,
}

/// The two buffers. `single` does not use them.
#[derive(Default)]
struct BufferPair {
    buffers: [Buffer; 2],
    stopped: bool,
}

/// A buffer and its bit.
#[derive(Default)]
struct Buffer {
    ready: bool,
    /// The content; `None` after a failed read.
    block: Option<Block>,
}

/// The parameters of the threads of a stream.
pub(super) struct StreamTask {
    pub(super) stream: Arc<Mutex<Stream>>,
    pub(super) buffer_packets: u32,
    pub(super) readers: ReaderQueue,
    pub(super) counters: Arc<Counters>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) token: u64,
    pub(super) run: u64,
}

impl StreamThreads {
    /// Starts the threads of `double`, or without `prefetches` the thread of `single`.
    pub(super) fn start(task: StreamTask, prefetches: bool) -> io::Result<Self> {
        let medium = Arc::clone(&lock(&task.stream).medium);
        let control = Arc::new(Control {
            stream: task.stream,
            medium,
            buffer_packets: u64::from(task.buffer_packets.max(1)),
            readers: task.readers,
            counters: task.counters,
            stopped: AtomicBool::new(false),
            pair: Mutex::default(),
            changed: Condvar::new(),
        });
        let threads = Self {
            run: task.run,
            control: Arc::clone(&control),
        };
        if prefetches {
            let control = Arc::clone(&control);
            thread("prefetch", move || control.prefetch())?;
        }
        let (mailbox, token, run) = (task.mailbox, task.token, task.run);
        thread("packetizer", move || {
            let sent = if prefetches {
                control.packetize()
            } else {
                control.read_and_send()
            };
            control.stop();
            if let Some(failed) = sent {
                mailbox.post(Event::Ended { token, run, failed });
            }
        })?;
        Ok(threads)
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

    /// Sleeps until a time on the monotonic clock or until the threads stop.
    fn sleep_until(&self, due_ns: u64) {
        let mut pair = lock(&self.pair);
        while !pair.stopped {
            let wait_ns = due_ns.saturating_sub(monotonic_ns());
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

    /// Reads a buffer from the disk. `None` if it has no complete packet.
    fn read(&self, first: u64) -> Option<Block> {
        let started = Instant::now();
        std::thread::sleep(self.readers.delay());
        let block = Block::read(&self.medium, first, self.buffer_packets).ok();
        let block = block.filter(|block| block.packets_from(first, &self.medium.layout, 1) > 0);
        let bytes = block.as_ref().map_or(0, Block::owned_bytes);
        self.readers.counts().add(started, bytes, block.is_none());
        block
    }

    /// Sends each packet of a buffer at its due time. Returns false at the end of the stream.
    fn send(&self, block: &Block, buffers: &mut SendBuffers) -> Result<bool, SendOutcome> {
        let layout = &self.medium.layout;
        loop {
            let stream = lock(&self.stream);
            let (next, end) = (stream.next, stream.end);
            let due_ns = stream.due_ns(next);
            drop(stream);
            if next >= end {
                // The goodbye follows after the time of the last packet.
                self.sleep_until(due_ns);
                return Ok(false);
            }
            if block.packets_from(next, layout, 1) == 0 {
                return Ok(true);
            }
            self.sleep_until(due_ns);
            if self.is_stopped() {
                return Ok(false);
            }
            match lock(&self.stream).send(block, 1, monotonic_ns(), buffers) {
                SendOutcome::Done => {}
                sent => return Err(sent),
            }
        }
    }

    /// The thread of `single`. Returns whether the stream failed; `None` if it was stopped.
    fn read_and_send(&self) -> Option<bool> {
        let mut buffers = SendBuffers::default();
        let mut started = false;
        while !self.is_stopped() {
            let first = lock(&self.stream).next;
            let Some(block) = self.read(first) else {
                return Some(true);
            };
            if !started {
                lock(&self.stream).start(monotonic_ns());
                started = true;
            }
            match self.send(&block, &mut buffers) {
                Ok(true) => {}
                Ok(false) if self.is_stopped() => return None,
                Ok(false) => return Some(false),
                Err(sent) => return Some(sent == SendOutcome::Broken),
            }
        }
        None
    }

    /// The prefetch thread of `double`.
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

    /// The packetizer thread of `double`. Returns the same as `read_and_send`.
    fn packetize(&self) -> Option<bool> {
        let mut buffers = SendBuffers::default();
        let (mut next, mut started) = (0, false);
        loop {
            if started && !self.is_stopped() && !lock(&self.pair).buffers[next].ready {
                let stream = lock(&self.stream);
                let is_due =
                    stream.next < stream.end && stream.due_ns(stream.next) <= monotonic_ns();
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
            // `ready` stays set until all packets are sent, so the prefetch thread waits.
            let block = pair.buffers[next].block.take();
            drop(pair);
            let Some(block) = block else {
                return Some(true);
            };
            if !started {
                lock(&self.stream).start(monotonic_ns());
                started = true;
            }
            match self.send(&block, &mut buffers) {
                Ok(_) if self.is_stopped() => return None,
                Ok(true) => {}
                Ok(false) => return Some(false),
                Err(sent) => return Some(sent == SendOutcome::Broken),
            }
            lock(&self.pair).buffers[next].ready = false;
            self.changed.notify_all();
            next = 1 - next;
        }
    }
}
