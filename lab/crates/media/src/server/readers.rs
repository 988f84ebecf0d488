//! Threads that open media and read blocks, and the cache of blocks.
//!
//! Readers process the job with the earliest due time first, so a slow disk serves the stream that
//! has the least data left. Streams share a block while any stream owns it. After that, the cache
//! owns the block, for later viewers.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::block::{Block, BlockTable, Slot, Storage};
use super::disk::Disk;
use super::library::{Library, Medium};
use super::mailbox::{Event, Requester};
use perpacket_linux::mailbox::lock;

enum Job {
    Open {
        name: String,
        requester: Requester,
    },
    Load {
        medium: Arc<Medium>,
        index: u64,
        storage: Storage,
    },
}

/// The reader threads. Dropping this stops the threads and waits for their end.
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    added: Condvar,
    library: Arc<Library>,
    cache: Mutex<Cache>,
    disk: Disk,
    counts: ReadCounts,
}

/// Jobs, ordered by due time. Jobs with equal times are in the order of their requests.
#[derive(Default)]
struct Queue {
    jobs: BTreeMap<(u64, u64), Job>,
    order: u64,
    stopped: bool,
}

/// Cached blocks, in the order of their reads. The oldest are dropped first. Each block is stored
/// with the table of its medium, in which the next viewer finds the block.
#[derive(Default)]
struct Cache {
    blocks: VecDeque<(Arc<BlockTable>, Arc<Block>)>,
    bytes: usize,
    limit_bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct ReadCounts {
    pub(super) reads: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Time of all reads, with the emulated delay.
    pub(super) time_ns: AtomicU64,
    /// Reads that failed or returned less than a packet.
    pub(super) failed: AtomicU64,
}

impl ReadCounts {
    /// Counts a read that ends now.
    pub(super) fn add(&self, started: Instant, bytes: usize, failed: bool) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let time_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.time_ns.fetch_add(time_ns, Relaxed);
        self.failed.fetch_add(u64::from(failed), Relaxed);
    }

    /// Mean time of a read.
    pub(super) fn mean_ns(&self) -> u64 {
        self.time_ns.load(Relaxed) / self.reads.load(Relaxed).max(1)
    }
}

impl Readers {
    /// Starts `count` threads. Each read waits for the disk.
    pub(super) fn start(
        count: usize,
        library: Arc<Library>,
        cache_bytes: usize,
        disk: Disk,
    ) -> io::Result<Self> {
        let cache = Cache {
            limit_bytes: cache_bytes,
            ..Cache::default()
        };
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            added: Condvar::new(),
            library,
            cache: Mutex::new(cache),
            disk,
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

    pub(super) fn queue(&self) -> ReaderQueue {
        ReaderQueue {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        lock(&self.shared.queue).stopped = true;
        self.shared.added.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }
}

/// The readers' queue, for event loops.
#[derive(Clone)]
pub(super) struct ReaderQueue {
    shared: Arc<Shared>,
}

impl ReaderQueue {
    /// Requests a medium. The result is [`Event::Opened`].
    pub(super) fn open(&self, name: String, requester: Requester) {
        self.shared.add(0, Job::Open { name, requester });
    }

    /// Returns the block if it is in memory. Otherwise requests the block, and [`Event::Block`]
    /// follows.
    pub(super) fn block(
        &self,
        medium: &Arc<Medium>,
        index: u64,
        storage: Storage,
        due_ns: u64,
        requester: &Requester,
    ) -> Option<Arc<Block>> {
        let mut slots = lock(&medium.blocks.slots);
        match slots.get_mut(&(index, storage)) {
            Some(Slot::Loading(requesters)) => {
                requesters.push(requester.clone());
                return None;
            }
            Some(Slot::Ready(block)) => {
                if let Some(block) = block.upgrade() {
                    return Some(block);
                }
            }
            None => {}
        }
        slots.insert((index, storage), Slot::Loading(vec![requester.clone()]));
        drop(slots);
        let job = Job::Load {
            medium: Arc::clone(medium),
            index,
            storage,
        };
        self.shared.add(due_ns, job);
        None
    }

    /// Counts of all reads, including those of streams with threads of their own.
    pub(super) fn counts(&self) -> &ReadCounts {
        &self.shared.counts
    }

    /// The emulated disk.
    pub(super) fn disk(&self) -> &Disk {
        &self.shared.disk
    }
}

impl Shared {
    fn add(&self, due_ns: u64, job: Job) {
        let mut queue = lock(&self.queue);
        queue.order += 1;
        let order = queue.order;
        queue.jobs.insert((due_ns, order), job);
        drop(queue);
        self.added.notify_one();
    }

    fn run(&self) {
        let mut queue = lock(&self.queue);
        while !queue.stopped {
            let Some((_, job)) = queue.jobs.pop_first() else {
                queue = self
                    .added
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            match job {
                Job::Open { name, requester } => {
                    let result = self.library.open(&name);
                    let token = requester.token;
                    requester.mailbox.post(Event::Opened { token, result });
                }
                Job::Load {
                    medium,
                    index,
                    storage,
                } => self.load(&medium, index, storage),
            }
            queue = lock(&self.queue);
        }
    }

    fn load(&self, medium: &Arc<Medium>, index: u64, storage: Storage) {
        let started = Instant::now();
        let (first, packets) = (index * medium.blocks.packets, medium.blocks.packets);
        self.disk.wait(medium, first, packets);
        let block = match storage {
            Storage::Copied => Block::read(medium, first, packets),
            Storage::Mapped => Block::map(medium, first, packets),
        };
        // If the file shrank, there may be no packet here.
        let block = block
            .ok()
            .filter(|block| block.packets_from(first, &medium.layout, 1) > 0)
            .map(Arc::new);
        let bytes = block.as_deref().map_or(0, Block::owned_bytes);
        self.counts.add(started, bytes, block.is_none());
        let mut slots = lock(&medium.blocks.slots);
        let slot = match &block {
            Some(block) => slots.insert((index, storage), Slot::Ready(Arc::downgrade(block))),
            None => slots.remove(&(index, storage)),
        };
        drop(slots);
        if let Some(block) = block.as_ref().filter(|block| block.owned_bytes() > 0) {
            lock(&self.cache).add(&medium.blocks, block);
        }
        if let Some(Slot::Loading(requesters)) = slot {
            for Requester { mailbox, token } in requesters {
                let block = block.clone();
                mailbox.post(Event::Block {
                    token,
                    index,
                    block,
                });
            }
        }
    }
}

impl Cache {
    fn add(&mut self, table: &Arc<BlockTable>, block: &Arc<Block>) {
        self.bytes += block.owned_bytes();
        let entry = (Arc::clone(table), Arc::clone(block));
        self.blocks.push_back(entry);
        while self.bytes > self.limit_bytes
            && let Some((_, oldest)) = self.blocks.pop_front()
        {
            self.bytes -= oldest.owned_bytes();
        }
    }
}
