//! Helper threads read files that are not in memory, so that an event loop never waits for a disk.
//!
//! This is the asymmetric part of Flash's architecture (AMPED). A loop sends a job and continues. The
//! helper thread appends the result to the loop's [`JobResults`] and wakes it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use perpacket_linux::mailbox::{Mailbox, lock};

use super::entry::{Entry, FileError};
use crate::routes::cgi::CgiRequest;
use crate::site::Site;
use perpacket_http::coding::Coding;

/// Number of helper threads. A disk is fastest with a few requests at a time.
pub const HELPER_THREADS: usize = 4;

/// Maximum number of jobs in the queue. When it is full, requests get a 503.
const QUEUE: usize = 16_384;

/// Work for a helper thread.
#[derive(Clone, Debug)]
pub enum Job {
    /// Read a file.
    Load {
        /// Its normalized path.
        path: Box<[u8]>,
        coding: Coding,
    },
    /// Read a part of an open file into the page cache.
    Warm {
        file: Arc<OwnedFd>,
        /// The offset of the part.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// Run a CGI program.
    Cgi(Box<CgiRequest>),
}

#[derive(Clone, Debug)]
pub enum JobResult {
    /// A file, or why it cannot be served.
    Loaded {
        /// Its normalized path.
        path: Box<[u8]>,
        coding: Coding,
        result: Result<Arc<Entry>, FileError>,
    },
    /// The part is in the page cache, or the disk failed. If the disk failed, sending fails too.
    Warmed,
    /// The output of a CGI program; `None` if it failed.
    Page(Option<Vec<u8>>),
}

/// The results of a loop's jobs, with the tokens of the jobs.
pub type JobResults = Mailbox<(u64, JobResult)>;

struct Queued {
    token: u64,
    job: Job,
    reply: Arc<JobResults>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Queued>>,
    filled: Condvar,
    stop: AtomicBool,
}

/// The threads and their queue.
pub struct HelperThreads {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// Sends a loop's jobs to the helper threads.
#[derive(Clone)]
pub struct JobSender {
    queue: Arc<Queue>,
    results: Arc<JobResults>,
}

impl HelperThreads {
    /// Starts the threads. Their counters are those of the site from `first_slot` on.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(site: &Arc<Site>, first_slot: usize) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let mut threads = Vec::new();
        for number in 0..HELPER_THREADS {
            let (site, queue) = (Arc::clone(site), Arc::clone(&queue));
            let thread = std::thread::Builder::new()
                .name(format!("helper-{number}"))
                .spawn(move || work(&site, &queue, first_slot + number))?;
            threads.push(thread);
        }
        Ok(Self { queue, threads })
    }

    /// A sender whose results arrive in `results`.
    pub fn sender(&self, results: Arc<JobResults>) -> JobSender {
        JobSender {
            queue: Arc::clone(&self.queue),
            results,
        }
    }

    /// Stops the threads after their current jobs, and waits for them.
    pub fn stop(self) {
        self.queue.stop.store(true, Ordering::Relaxed);
        // Lock the queue once, so that no thread is between its check of the flag and its wait.
        drop(self.queue.jobs.lock());
        self.queue.filled.notify_all();
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl JobSender {
    /// Sends a job. Its result arrives with `token`. Returns `false` if the queue is full.
    pub fn send(&self, token: u64, job: Job) -> bool {
        let mut jobs = lock(&self.queue.jobs);
        if jobs.len() >= QUEUE {
            return false;
        }
        jobs.push_back(Queued {
            token,
            job,
            reply: Arc::clone(&self.results),
        });
        drop(jobs);
        self.queue.filled.notify_one();
        true
    }
}

fn work(site: &Site, queue: &Queue, slot: usize) {
    let mut scratch = Vec::new();
    let is_stopped = || queue.stop.load(Ordering::Relaxed);
    loop {
        let jobs = lock(&queue.jobs);
        let waiting = (queue.filled).wait_while(jobs, |jobs| jobs.is_empty() && !is_stopped());
        let next = waiting.unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(next) = next.filter(|_| !is_stopped()) else {
            return;
        };
        site.counters[slot].cold_reads.add(1);
        let result = run_job(site, next.job, &mut scratch);
        next.reply.post((next.token, result));
    }
}

/// Runs a job in this thread.
pub fn run_job(site: &Site, job: Job, scratch: &mut Vec<u8>) -> JobResult {
    match job {
        Job::Load { path, coding } => {
            let result = site.load(&path, coding);
            JobResult::Loaded {
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
            JobResult::Warmed
        }
        Job::Cgi(request) => JobResult::Page(request.run(site)),
    }
}

/// Reads a part of a file into the page cache. On an error, sending fails too.
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
