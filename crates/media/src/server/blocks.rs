//! Parts of files in memory, shared by everybody who needs them, and the threads that fetch them.
//!
//! A block is about a second of a medium, in whole packets. A stream holds the block it sends and
//! those ahead of it; a block stays while anybody holds it, and somewhat longer while the cache has
//! room, for streams that follow the same file a little later. Readers take the block that is due
//! first, so that a slow disk serves whoever would run dry next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::wire::Media;
use rustix::fd::{AsFd, OwnedFd};

use super::library::{Library, Medium, OpenError};
use perpacket_linux::udp::SendBatch;

/// Bounds of a block, in bytes; between them it is what a second of the medium takes.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 8 * 1024..=1024 * 1024;

/// Blocks of one medium.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Packets in a block.
    pub(super) packets: u64,
    slots: Mutex<HashMap<(u64, Place), Slot>>,
}

/// Where a block's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// In memory of ours.
    Copied,
    /// In pages of the file.
    Mapped,
}

#[derive(Debug)]
enum Slot {
    Loading(Vec<Waiter>),
    Ready(Weak<Block>),
}

/// Part of a medium in memory.
#[derive(Debug)]
pub(super) struct Block {
    /// Number of its first packet.
    first: u64,
    packet_bytes: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Copied(Vec<u8>),
    /// Where in the medium's mapping it starts, and how long it is.
    Mapped(Arc<Medium>, usize, usize),
}

/// Who wants to know when a block has come.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    /// Where to say it.
    pub(super) mailbox: Arc<Mailbox>,
    /// To which stream.
    pub(super) token: u64,
}

/// News for an event loop.
#[derive(Debug)]
pub(super) enum News {
    /// A block came, or cannot be had.
    Block {
        token: u64,
        index: u64,
        block: Option<Arc<Block>>,
    },
    /// A medium was opened, or cannot be.
    Opened {
        token: u64,
        result: Result<Arc<Medium>, OpenError>,
    },
    /// A connection has more to say than fits one turn.
    Again { token: u64 },
    /// A thread that sent a stream has ended.
    Ended { token: u64, run: u64, failed: bool },
}

/// Where threads leave news for an event loop, which an event descriptor wakes.
#[derive(Debug)]
pub(super) struct Mailbox {
    news: Mutex<Vec<News>>,
    wakes: OwnedFd,
}

impl Mailbox {
    /// An empty mailbox.
    pub(super) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self {
            news: Mutex::default(),
            wakes: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Leaves news and wakes the loop.
    pub(super) fn leave(&self, news: News) {
        lock(&self.news).push(news);
        self.wake();
    }

    /// Wakes the loop without news.
    pub(super) fn wake(&self) {
        // The only error is a full counter, and a full counter wakes.
        let _ = rustix::io::write(&self.wakes, &1u64.to_ne_bytes());
    }

    /// Takes all news.
    pub(super) fn take(&self) -> Vec<News> {
        let mut count = [0; 8];
        // Nothing to read means that nobody woke us since.
        let _ = rustix::io::read(&self.wakes, &mut count);
        std::mem::take(&mut *lock(&self.news))
    }

    /// What becomes readable when there are news.
    pub(super) fn descriptor(&self) -> impl AsFd + '_ {
        &self.wakes
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is one step, so what a thread left that died is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Blocks {
    /// No block of a medium yet.
    pub(super) fn new(media: &Media) -> Self {
        let bytes = (media.rate_bps() / 8).clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        Self {
            packets: (bytes / u64::from(media.packet_bytes)).max(1),
            slots: Mutex::default(),
        }
    }

    /// The block that a packet is in.
    #[inline]
    pub(super) fn of(&self, packet: u64) -> u64 {
        packet / self.packets
    }
}

impl Block {
    /// How many packets from `packet` on it has whole, at most `limit`.
    #[inline]
    pub(super) fn packets_from(&self, packet: u64, media: &Media, limit: usize) -> usize {
        let length = match &self.content {
            Content::Copied(bytes) => bytes.len(),
            Content::Mapped(_, _, length) => *length,
        };
        let mut count = 0;
        while count < limit {
            let number = packet + count as u64;
            let bytes = media.length(number);
            if bytes == 0 || (number - self.first) as usize * self.packet_bytes + bytes > length {
                break;
            }
            count += 1;
        }
        count
    }

    /// Adds a packet's payload to a batch.
    #[inline]
    pub(super) fn add<'a>(&'a self, packet: u64, media: &Media, batch: &mut SendBatch<'a>) {
        let start = (packet - self.first) as usize * self.packet_bytes;
        let length = media.length(packet);
        match &self.content {
            Content::Copied(bytes) => {
                batch.add(bytes.get(start..start + length).unwrap_or_default());
            }
            Content::Mapped(medium, offset, _) => {
                if let Some(mapping) = &medium.mapping {
                    batch.add_mapped(mapping, offset + start, length);
                }
            }
        }
    }

    /// A packet's payload, where it is in memory of ours.
    pub(super) fn payload(&self, packet: u64, media: &Media) -> &[u8] {
        let start = (packet - self.first) as usize * self.packet_bytes;
        match &self.content {
            Content::Copied(bytes) => bytes
                .get(start..start + media.length(packet))
                .unwrap_or_default(),
            Content::Mapped(..) => &[],
        }
    }

    /// Reads `packets` packets from `first` on into memory of ours: fewer where the file ends.
    pub(super) fn read(medium: &Medium, first: u64, packets: u64) -> io::Result<Self> {
        let media = &medium.media;
        let start = media.position(first);
        let bytes =
            (packets * u64::from(media.packet_bytes)).min(media.bytes.saturating_sub(start));
        let mut content = vec![0; bytes as usize];
        let mut filled = 0;
        while filled < content.len() {
            let at = media.offset + start + filled as u64;
            match medium.file.read_at(&mut content[filled..], at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        content.truncate(filled);
        if media.swaps_bytes {
            for sample in content.chunks_exact_mut(2) {
                sample.swap(0, 1);
            }
        }
        Ok(Self {
            first,
            packet_bytes: media.packet_bytes as usize,
            content: Content::Copied(content),
        })
    }

    fn map(medium: &Arc<Medium>, first: u64, packets: u64) -> io::Result<Self> {
        let media = &medium.media;
        let start = media.position(first);
        let bytes =
            (packets * u64::from(media.packet_bytes)).min(media.bytes.saturating_sub(start));
        let offset = (media.offset + start) as usize;
        let mapping = medium.mapping.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        mapping.populate(offset, bytes as usize)?;
        Ok(Self {
            first,
            packet_bytes: media.packet_bytes as usize,
            content: Content::Mapped(Arc::clone(medium), offset, bytes as usize),
        })
    }

    /// Bytes of memory it takes from us.
    pub(super) fn cached_bytes(&self) -> usize {
        match &self.content {
            Content::Copied(bytes) => bytes.len(),
            Content::Mapped(..) => 0,
        }
    }
}

/// What a reader is to do.
enum Job {
    Open {
        name: String,
        waiter: Waiter,
    },
    Load {
        medium: Arc<Medium>,
        index: u64,
        place: Place,
    },
}

struct Queued {
    due_ns: u64,
    order: u64,
    job: Job,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        (self.due_ns, self.order) == (other.due_ns, other.order)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ns, self.order).cmp(&(other.due_ns, other.order))
    }
}

/// The threads that read, and what they share.
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    library: Arc<Library>,
    kept: Mutex<Kept>,
    delay: Duration,
    counts: ReadCounts,
}

#[derive(Default)]
struct Queue {
    jobs: BinaryHeap<Reverse<Queued>>,
    order: u64,
    stopped: bool,
}

/// Blocks kept after their last stream, oldest first.
#[derive(Default)]
struct Kept {
    blocks: VecDeque<(Arc<Blocks>, Arc<Block>)>,
    bytes: usize,
    limit_bytes: usize,
}

/// What readers did.
#[derive(Debug, Default)]
pub(super) struct ReadCounts {
    /// Blocks read.
    pub(super) reads: AtomicU64,
    /// Bytes in them.
    pub(super) bytes: AtomicU64,
    /// Nanoseconds they took in all, an emulated delay included.
    pub(super) time_ns: AtomicU64,
    /// Reads that failed or found less than a packet.
    pub(super) failed: AtomicU64,
}

impl ReadCounts {
    /// Counts one read.
    pub(super) fn add(&self, started: Instant, bytes: usize, failed: bool) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let time_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.time_ns.fetch_add(time_ns, Relaxed);
        self.failed.fetch_add(u64::from(failed), Relaxed);
    }

    /// What a read took in the mean, in nanoseconds.
    pub(super) fn mean_ns(&self) -> u64 {
        self.time_ns.load(Relaxed) / self.reads.load(Relaxed).max(1)
    }
}

impl Readers {
    /// Starts `count` readers that keep up to `kept_bytes` of blocks nobody holds, each read made
    /// longer by `delay`.
    pub(super) fn start(
        count: usize,
        library: Arc<Library>,
        kept_bytes: usize,
        delay: Duration,
    ) -> io::Result<Self> {
        let kept = Kept {
            limit_bytes: kept_bytes,
            ..Kept::default()
        };
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            library,
            kept: Mutex::new(kept),
            delay,
            counts: ReadCounts::default(),
        });
        let mut readers = Self {
            shared,
            threads: Vec::new(),
        };
        for number in 0..count {
            let shared = Arc::clone(&readers.shared);
            let thread = std::thread::Builder::new().name(format!("reader-{number}"));
            readers.threads.push(thread.spawn(move || shared.run())?);
        }
        Ok(readers)
    }

    /// A way to ask the readers.
    pub(super) fn desk(&self) -> Desk {
        Desk {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        lock(&self.shared.queue).stopped = true;
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A reader that panicked has printed why.
            let _ = thread.join();
        }
    }
}

/// Where event loops ask for media and blocks.
#[derive(Clone)]
pub(super) struct Desk {
    shared: Arc<Shared>,
}

impl Desk {
    /// Asks for a medium; the answer comes as news.
    pub(super) fn open(&self, name: String, waiter: Waiter) {
        self.shared.put(0, Job::Open { name, waiter });
    }

    /// The block, if it is there; otherwise it will come as news, those due first before others.
    pub(super) fn block(
        &self,
        medium: &Arc<Medium>,
        index: u64,
        place: Place,
        due_ns: u64,
        waiter: &Waiter,
    ) -> Option<Arc<Block>> {
        let mut slots = lock(&medium.blocks.slots);
        match slots.get_mut(&(index, place)) {
            Some(Slot::Loading(waiters)) => {
                waiters.push(waiter.clone());
                return None;
            }
            Some(Slot::Ready(block)) => {
                if let Some(block) = block.upgrade() {
                    return Some(block);
                }
            }
            None => {}
        }
        slots.insert((index, place), Slot::Loading(vec![waiter.clone()]));
        drop(slots);
        let medium = Arc::clone(medium);
        self.shared.put(
            due_ns,
            Job::Load {
                medium,
                index,
                place,
            },
        );
        None
    }

    /// What readers did so far; also counts for those who read for themselves.
    pub(super) fn counts(&self) -> &ReadCounts {
        &self.shared.counts
    }

    /// The emulated delay of a read.
    pub(super) fn delay(&self) -> Duration {
        self.shared.delay
    }
}

impl Shared {
    fn put(&self, due_ns: u64, job: Job) {
        let mut queue = lock(&self.queue);
        let order = queue.order;
        queue.order += 1;
        queue.jobs.push(Reverse(Queued { due_ns, order, job }));
        drop(queue);
        self.arrived.notify_one();
    }

    fn run(&self) {
        let mut queue = lock(&self.queue);
        while !queue.stopped {
            let Some(Reverse(next)) = queue.jobs.pop() else {
                queue = self
                    .arrived
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            match next.job {
                Job::Open { name, waiter } => {
                    let result = self.library.open(&name);
                    let token = waiter.token;
                    waiter.mailbox.leave(News::Opened { token, result });
                }
                Job::Load {
                    medium,
                    index,
                    place,
                } => self.load(&medium, index, place),
            }
            queue = lock(&self.queue);
        }
    }

    fn load(&self, medium: &Arc<Medium>, index: u64, place: Place) {
        let started = Instant::now();
        std::thread::sleep(self.delay);
        let (first, packets) = (index * medium.blocks.packets, medium.blocks.packets);
        let block = match place {
            Place::Copied => Block::read(medium, first, packets),
            Place::Mapped => Block::map(medium, first, packets),
        };
        // A file cut short since it was opened has no packet where one was expected.
        let block = block
            .ok()
            .filter(|block| block.packets_from(first, &medium.media, 1) > 0)
            .map(Arc::new);
        let bytes = block.as_deref().map_or(0, Block::cached_bytes);
        self.counts.add(started, bytes, block.is_none());
        let mut slots = lock(&medium.blocks.slots);
        let slot = match &block {
            Some(block) => slots.insert((index, place), Slot::Ready(Arc::downgrade(block))),
            None => slots.remove(&(index, place)),
        };
        drop(slots);
        if let Some(block) = block.as_ref().filter(|block| block.cached_bytes() > 0) {
            lock(&self.kept).keep(&medium.blocks, block);
        }
        if let Some(Slot::Loading(waiters)) = slot {
            for Waiter { mailbox, token } in waiters {
                let block = block.clone();
                mailbox.leave(News::Block {
                    token,
                    index,
                    block,
                });
            }
        }
    }
}

impl Kept {
    fn keep(&mut self, blocks: &Arc<Blocks>, block: &Arc<Block>) {
        self.bytes += block.cached_bytes();
        self.blocks
            .push_back((Arc::clone(blocks), Arc::clone(block)));
        while self.bytes > self.limit_bytes
            && let Some((_, oldest)) = self.blocks.pop_front()
        {
            self.bytes -= oldest.cached_bytes();
        }
    }
}
