//! Helper threads: they read what is not in memory, so that a loop never waits for a disk.
//!
//! This is the asymmetric part of Flash's architecture (AMPED). A loop sends a job and goes on; the
//! helper leaves the result in the loop's mailbox and rings its eventfd.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use super::entry::{Entry, Refusal};
use crate::routes::cgi::CgiRequest;
use crate::site::Site;
use perpacket_http::coding::Coding;

/// Threads that wait for disks. A disk serves a few requests at a time best.
pub const HELPERS: usize = 4;

/// Jobs that may wait: beyond, requests are refused with 503 rather than kept.
const QUEUE: usize = 16_384;

/// What is to be done away from the loop.
#[derive(Clone, Debug)]
pub enum Job {
    /// Read a file.
    Load {
        /// Its normal path.
        path: Box<[u8]>,
        /// Its form.
        coding: Coding,
    },
    /// Bring a part of an open file into the kernel's memory.
    Warm {
        /// The file.
        file: Arc<OwnedFd>,
        /// Where the part begins.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// Run a CGI program.
    Cgi(Box<CgiRequest>),
}

/// What came of a job.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A file, or why there is none.
    Loaded {
        /// Its normal path.
        path: Box<[u8]>,
        /// Its form.
        coding: Coding,
        /// The entry.
        result: Result<Arc<Entry>, Refusal>,
    },
    /// The part is in memory, or the disk failed and sending will tell.
    Warmed,
    /// What a CGI program wrote; `None` if it failed.
    Page(Option<Vec<u8>>),
}

/// Where a loop finds what came of its jobs.
#[derive(Debug)]
pub struct Mailbox {
    bell: OwnedFd,
    outcomes: Mutex<Vec<(u64, Outcome)>>,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            bell: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            outcomes: Mutex::default(),
        })
    }

    /// What becomes readable when there is something.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Wakes the loop.
    pub fn ring(&self) {
        // It can only fail when the count is near 2^64, and then the bell rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes all there is, with the tokens the jobs were sent with.
    pub fn take(&self) -> Vec<(u64, Outcome)> {
        // Nothing to read means that somebody else woke the loop.
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, token: u64, outcome: Outcome) {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.push((token, outcome));
        drop(outcomes);
        self.ring();
    }
}

struct Queued {
    token: u64,
    job: Job,
    reply: Arc<Mailbox>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Queued>>,
    filled: Condvar,
    stop: AtomicBool,
}

/// The threads and their queue.
pub struct Helpers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// A loop's way to the helpers.
#[derive(Clone)]
pub struct HelperDesk {
    queue: Arc<Queue>,
    mailbox: Arc<Mailbox>,
}

impl Helpers {
    /// Starts the threads. They count in the site's counters from `first_slot` on.
    ///
    /// # Errors
    /// No threads.
    pub fn start(site: &Arc<Site>, first_slot: usize) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let mut threads = Vec::new();
        for number in 0..HELPERS {
            let (site, queue) = (Arc::clone(site), Arc::clone(&queue));
            let thread = std::thread::Builder::new()
                .name(format!("helper-{number}"))
                .spawn(move || work(&site, &queue, first_slot + number))?;
            threads.push(thread);
        }
        Ok(Self { queue, threads })
    }

    /// A desk that answers into `mailbox`.
    pub fn desk(&self, mailbox: Arc<Mailbox>) -> HelperDesk {
        HelperDesk {
            queue: Arc::clone(&self.queue),
            mailbox,
        }
    }

    /// Lets the threads end after the job in hand, and waits for them.
    pub fn stop(self) {
        self.queue.stop.store(true, Ordering::Relaxed);
        // The lock makes sure that no thread is between looking at the flag and waiting.
        drop(self.queue.jobs.lock());
        self.queue.filled.notify_all();
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl HelperDesk {
    /// Sends a job; its outcome comes with `token`. `false` if too many wait.
    #[must_use]
    pub fn send(&self, token: u64, job: Job) -> bool {
        let mut jobs = self
            .queue
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if jobs.len() >= QUEUE {
            return false;
        }
        jobs.push_back(Queued {
            token,
            job,
            reply: Arc::clone(&self.mailbox),
        });
        drop(jobs);
        self.queue.filled.notify_one();
        true
    }
}

fn work(site: &Site, queue: &Queue, slot: usize) {
    let mut scratch = Vec::new();
    loop {
        let mut jobs = queue.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let next = loop {
            if queue.stop.load(Ordering::Relaxed) {
                return;
            }
            match jobs.pop_front() {
                Some(next) => break next,
                None => {
                    jobs = queue
                        .filled
                        .wait(jobs)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(jobs);
        site.counters[slot].cold_reads.add(1);
        let outcome = carry_out(site, next.job, &mut scratch);
        next.reply.put(next.token, outcome);
    }
}

/// Does a job, in whichever thread.
pub fn carry_out(site: &Site, job: Job, scratch: &mut Vec<u8>) -> Outcome {
    match job {
        Job::Load { path, coding } => {
            let result = site.load(&path, coding);
            Outcome::Loaded {
                path,
                coding,
                result,
            }
        }
        Job::Warm {
            file,
            offset,
            length,
        } => {
            warm(&file, offset, length, scratch);
            Outcome::Warmed
        }
        Job::Cgi(request) => Outcome::Page(request.run(site)),
    }
}

/// Reads a part of a file so that the kernel has it. Errors are found again by who sends it.
fn warm(file: &OwnedFd, mut offset: u64, length: u64, scratch: &mut Vec<u8>) {
    scratch.resize(1 << 17, 0);
    let end = offset + length;
    while offset < end {
        let part = scratch.len().min((end - offset) as usize);
        match rustix::io::pread(file, &mut scratch[..part], offset) {
            Ok(count) if count > 0 => offset += count as u64,
            _ => return,
        }
    }
}
