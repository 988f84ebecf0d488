//! The published designs (Isa 2003, chapter 5): every stream has threads of its own.
//!
//! In `unbuffered`, the published baseline, one thread reads each packet when it is due, then sends
//! it, so every read delays its packet. In `single`, one thread reads a buffer of packets, then
//! sends it. In `double`, a prefetch thread fills one buffer while a packetizer thread sends the
//! other. A buffer is sent when its bit `ready` is set, and each thread alternates between the
//! buffers. The prefetch thread reads without pauses until both buffers are full, so the speed of
//! the disk is its limit.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use perpacket_linux::clock::monotonic_ns;

use super::Buffering;
use super::block::Block;
use super::counters::{Counters, count};
use super::library::Medium;
use super::mailbox::{Event, Mailbox};
use super::readers::ReaderQueue;
use super::stream::{SendBuffers, SendOutcome, Stream};
use perpacket_linux::mailbox::lock;

/// Stack of a thread. It is small because there are thousands of threads.
const STACK_BYTES: usize = 128 * 1024;

/// The threads of a stream. Dropping this stops them.
pub(super) struct StreamThreads {
    /// Number of the run. After a pause, a stream begins another run.
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
    buffering: Buffering,
    buffer_packets: u64,
    readers: ReaderQueue,
    counters: Arc<Counters>,
    stopped: AtomicBool,
    pair: Mutex<BufferPair>,
    changed: Condvar,
}

/// The two buffers of `double`.
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
    pub(super) buffering: Buffering,
    pub(super) buffer_packets: u32,
    pub(super) readers: ReaderQueue,
    pub(super) counters: Arc<Counters>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) token: u64,
    pub(super) run: u64,
}

impl StreamThreads {
    /// Starts the threads of the task's buffering: two for `double`, otherwise one.
    pub(super) fn start(task: StreamTask) -> io::Result<Self> {
        let prefetches = task.buffering == Buffering::Double;
        let buffer_packets = match task.buffering {
            Buffering::Unbuffered => 1,
            _ => u64::from(task.buffer_packets.max(1)),
        };
        let medium = Arc::clone(&lock(&task.stream).medium);
        let control = Arc::new(Control {
            stream: task.stream,
            medium,
            buffering: task.buffering,
            buffer_packets,
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

    /// Calls a function with the stream. `None` if the threads have been stopped.
    ///
    /// A session stops the threads and then locks the stream ([`super::session::Session::halt`]).
    /// After that, the threads neither send nor change the stream.
    fn with_stream<R>(&self, act: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let mut stream = lock(&self.stream);
        (!self.is_stopped()).then(|| act(&mut stream))
    }

    /// Sleeps until a time on the monotonic clock or until the threads stop.
    fn sleep_until(&self, due_ns: u64) {
        let wait = Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()));
        let pair = lock(&self.pair);
        // The result is of no interest: the caller checks whether the threads have been stopped.
        let _ = (self.changed).wait_timeout_while(pair, wait, |pair| !pair.stopped);
    }

    /// Waits until the bit of a buffer has a value. `None` if the threads have been stopped.
    fn wait_for(&self, buffer: usize, ready: bool) -> Option<MutexGuard<'_, BufferPair>> {
        let pair = lock(&self.pair);
        let waits = |pair: &mut BufferPair| pair.buffers[buffer].ready != ready && !pair.stopped;
        let pair = (self.changed.wait_while(pair, waits)).unwrap_or_else(PoisonError::into_inner);
        (!pair.stopped).then_some(pair)
    }

    /// Reads a buffer from the disk. `None` if it has no complete packet.
    fn read(&self, first: u64) -> Option<Block> {
        let started = Instant::now();
        let packets = self.buffer_packets;
        self.readers.disk().wait(&self.medium, first, packets);
        let block = Block::read(&self.medium, first, packets).ok();
        let block = block.filter(|block| block.packets_from(first, &self.medium.layout, 1) > 0);
        let bytes = block.as_ref().map_or(0, Block::owned_bytes);
        self.readers.counts().add(started, bytes, block.is_none());
        block
    }

    /// Sends each packet of a buffer at its due time. Returns false at the end of the stream, or if the
    /// threads have been stopped.
    fn send(&self, block: &Block, buffers: &mut SendBuffers) -> Result<bool, SendOutcome> {
        let layout = &self.medium.layout;
        loop {
            let position = self.with_stream(|stream| {
                let next = stream.next;
                (next, stream.end, stream.due_ns(next))
            });
            let Some((next, end, due_ns)) = position else {
                return Ok(false);
            };
            if next >= end {
                // The goodbye (RTCP BYE) is sent only after the last packet's duration has passed.
                self.sleep_until(due_ns);
                return Ok(false);
            }
            if block.packets_from(next, layout, 1) == 0 {
                return Ok(true);
            }
            self.sleep_until(due_ns);
            match self.with_stream(|stream| stream.send(block, 1, monotonic_ns(), buffers)) {
                None => return Ok(false),
                Some(SendOutcome::Done) => {}
                Some(sent) => return Err(sent),
            }
        }
    }

    /// The thread of `unbuffered` and `single`. Returns whether the stream failed, or `None` if the
    /// thread was stopped.
    fn read_and_send(&self) -> Option<bool> {
        let mut buffers = SendBuffers::default();
        let mut started = false;
        while !self.is_stopped() {
            if started && self.buffering == Buffering::Unbuffered {
                let due_ns = self.with_stream(|stream| stream.due_ns(stream.next))?;
                self.sleep_until(due_ns);
            }
            let first = lock(&self.stream).next;
            let Some(block) = self.read(first) else {
                return Some(true);
            };
            if !started {
                self.with_stream(|stream| stream.start(monotonic_ns()))?;
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
            if self.wait_for(next, false).is_none() {
                return;
            }
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
            let mut pair = self.wait_for(next, true)?;
            // `ready` stays set until all packets are sent, so the prefetch thread waits.
            let block = pair.buffers[next].block.take();
            drop(pair);
            let Some(block) = block else {
                return Some(true);
            };
            if !started {
                self.with_stream(|stream| stream.start(monotonic_ns()))?;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;

    use super::super::disk::Disk;
    use super::super::library::Library;
    use super::super::outgoing::Outgoing;
    use super::super::readers::Readers;
    use super::super::stream::{Destination, RtpStart};
    use super::*;
    use crate::wire::synthesis;

    /// A stream with a packet due every 5 ms, and the socket of its client.
    fn stream(root: &Path, counters: &Arc<Counters>) -> (Arc<Mutex<Stream>>, TcpStream) {
        let source = synthesis::Stream {
            seed: 1,
            file: 0,
            rate_bps: 2_000_000,
        };
        let bytes: Vec<u8> = (0..700).flat_map(|index| source.packet(index)).collect();
        fs::write(root.join("a.ts"), bytes).unwrap();
        let medium = Library::new(root, false).unwrap().open("a.ts").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let frames = Destination::Frames {
            outgoing: Arc::new(Mutex::new(Outgoing::new(Arc::new(socket)))),
            channels: (0, 1),
        };
        let start = RtpStart {
            ssrc: 1,
            sequence: 0,
            timestamp: 0,
        };
        let stream = Stream::new(medium, frames, start, Arc::clone(counters));
        (Arc::new(Mutex::new(stream)), client)
    }

    #[test]
    fn a_stopped_thread_that_waits_for_the_stream_sends_nothing() {
        let name = format!("perpacket-threads-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).unwrap();
        let library = Arc::new(Library::new(&root, false).unwrap());
        let readers = Readers::start(0, library, 0, Disk::new(Duration::ZERO, None)).unwrap();
        let counters = Arc::new(Counters::new(u64::MAX));
        for buffering in [Buffering::Unbuffered, Buffering::Single, Buffering::Double] {
            let (stream, _client) = stream(&root, &counters);
            let task = StreamTask {
                stream: Arc::clone(&stream),
                buffering,
                buffer_packets: 10,
                readers: readers.queue(),
                counters: Arc::clone(&counters),
                mailbox: Arc::new(Mailbox::new().unwrap()),
                token: 0,
                run: 1,
            };
            let threads = StreamThreads::start(task).unwrap();
            while lock(&stream).next == 0 {
                std::thread::yield_now();
            }
            let mut locked = lock(&stream);
            // By the end of this sleep, the next packet is due and its thread waits for the stream.
            std::thread::sleep(Duration::from_millis(50));
            drop(threads);
            let end = locked.end;
            locked.seek(0, end);
            drop(locked);
            // The threads own the stream until they end.
            while Arc::strong_count(&stream) > 1 {
                std::thread::yield_now();
            }
            assert_eq!(lock(&stream).next, 0, "{buffering:?}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
