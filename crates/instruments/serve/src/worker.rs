//! The request path, the same in all architectures. It turns received bytes into responses to send.
//!
//! A [`Worker`] answers all complete requests in its input and appends the responses to a
//! [`SendQueue`], which the caller then sends together. It never waits. If a file must be read from
//! disk first, and the architecture has helper threads, it returns a job. When the job is done, the
//! caller passes the same input again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};

use crate::counters::Counters;
use crate::files::cache::CacheHandle;
use crate::files::entry::{Entry, FileError};
use crate::files::helper_threads::{Job, JobResult, run_job};
use crate::http_state::{HttpState, PendingBody};
use crate::send_queue::SendQueue;
use crate::site::Site;
use perpacket_http::body::{BodyReader, Framing};
use perpacket_http::coding::{Coding, choose};
use perpacket_http::date::{DATE_BYTES, format_date};
use perpacket_http::request::{Method, ParsedHead, Request, TARGET_BYTES, parse_request};
use perpacket_http::status::Status;
use perpacket_http::target::split_query;

mod dynamic;
mod response;
mod static_files;

/// The time, read once for all input that arrived together.
#[derive(Debug)]
pub struct Clock {
    /// Monotonic, in milliseconds.
    pub now_ms: u64,
    second: i64,
    date: [u8; DATE_BYTES],
}

impl Clock {
    /// A clock with the current time.
    pub fn new() -> Self {
        let mut clock = Self {
            now_ms: 0,
            second: -1,
            date: [b' '; DATE_BYTES],
        };
        clock.tick();
        clock
    }

    /// Reads the time, and formats the date again if a new second has begun. The coarse clocks need
    /// no system call and have the resolution of the kernel's tick, 1 to 10 ms.
    pub fn tick(&mut self) {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        self.now_ms = now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000;
        let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        if second != self.second {
            self.second = second;
            self.date = format_date(second);
        }
    }
}

/// Answers requests for one loop, thread or process.
pub struct Worker {
    /// The state that all workers share.
    pub site: Arc<Site>,
    /// The time.
    pub clock: Clock,
    /// Whether to defer requests that are not answered from the cache. Such a request may take long
    /// and delay other clients.
    pub defers: bool,
    /// Whether this worker is a loop: other connections wait while it answers one.
    pub shares_thread: bool,
    cache: CacheHandle,
    slot: usize,
    returns_jobs: bool,
    job_result: Option<JobResult>,
    scratch: Vec<u8>,
}

/// The reason why a worker stopped before the next request.
#[derive(Debug)]
pub enum BatchEnd {
    /// The rest of the input is an incomplete request.
    NeedsInput,
    /// The output must be sent first. The input may have more requests.
    OutputFull,
    /// A helper thread must do this job first. Then pass the same input again.
    NeedsJob(Job),
    /// The next request may take long, see [`Worker::defers`]. Pass the same input again later.
    Deferred,
    /// Close the connection after the output is sent. The value is true if the client may still be
    /// sending.
    Close(bool),
}

/// The requests that one call of [`Worker::answer`] answered.
#[derive(Debug)]
pub struct Batch {
    /// Bytes of the input that were consumed.
    pub used: usize,
    /// The reason why the batch ended.
    pub end: BatchEnd,
}

/// The result of one request.
enum Handled {
    /// The response is in the output.
    Done,
    NeedsJob(Job),
    Deferred,
}

impl Handled {
    /// The reason why the batch ends here; `None` if it goes on.
    fn batch_end(self) -> Option<BatchEnd> {
        match self {
            Self::Done => None,
            Self::NeedsJob(job) => Some(BatchEnd::NeedsJob(job)),
            Self::Deferred => Some(BatchEnd::Deferred),
        }
    }
}

impl Worker {
    /// A worker that counts in `slot`. With `returns_jobs` it returns a job instead of reading a
    /// file.
    pub fn new(site: Arc<Site>, slot: usize, cache: CacheHandle, returns_jobs: bool) -> Self {
        Self {
            site,
            clock: Clock::new(),
            defers: false,
            shares_thread: false,
            cache,
            slot,
            returns_jobs,
            job_result: None,
            scratch: Vec::new(),
        }
    }

    /// The worker's counters.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.site.counters[self.slot]
    }

    /// Counts an accepted connection.
    pub fn count_connection(&self) {
        self.site.count_connection(self.counters());
    }

    /// Caches a file that a helper thread read.
    pub fn cache_loaded(&mut self, result: &JobResult) {
        if let JobResult::Loaded {
            path,
            result: Ok(entry),
            ..
        } = result
        {
            self.add_to_cache(path, Arc::clone(entry));
        }
    }

    /// Sets the result of a job. The next call of [`Self::answer`] must be for the connection that
    /// requested the job.
    pub fn set_job_result(&mut self, result: JobResult) {
        self.cache_loaded(&result);
        self.job_result = Some(result);
    }

    /// Answers the complete requests in `input`.
    pub fn answer(&mut self, http: &mut HttpState, input: &[u8], out: &mut SendQueue) -> Batch {
        let mut used = 0;
        loop {
            let end = if http.closing {
                BatchEnd::Close(false)
            } else if out.is_full() {
                BatchEnd::OutputFull
            } else {
                match self.next(http, &input[used..], out, &mut used) {
                    None => continue,
                    Some(end) => end,
                }
            };
            self.job_result = None;
            return Batch { used, end };
        }
    }

    /// Answers one request or reads a part of it. Returns `None` if there may be more requests.
    fn next(
        &mut self,
        http: &mut HttpState,
        input: &[u8],
        out: &mut SendQueue,
        used: &mut usize,
    ) -> Option<BatchEnd> {
        if let Some(pending) = http.pending.take() {
            return self.next_of_body(http, pending, input, out, used);
        }
        if input.is_empty() {
            http.searched_bytes = 0;
            return Some(BatchEnd::NeedsInput);
        }
        let limit_bytes = self.site.spec.max_header_bytes();
        if is_still_partial(http.searched_bytes, input, limit_bytes) {
            http.searched_bytes = input.len();
            return Some(BatchEnd::NeedsInput);
        }
        let (request, head_bytes) = match parse_request(input, limit_bytes) {
            ParsedHead::Complete(request, head_bytes) => (request, head_bytes),
            ParsedHead::Partial => {
                http.searched_bytes = input.len();
                return Some(BatchEnd::NeedsInput);
            }
            ParsedHead::Rejected(status) => return Some(self.reject(status, out)),
        };
        http.searched_bytes = 0;
        if request.framing == Framing::Length(0) {
            http.closing = !request.keep_alive;
            let end = self.dispatch(&request, &[], http, out).batch_end();
            if end.is_none() {
                http.answered = http.answered.wrapping_add(1);
                *used += head_bytes;
            } else {
                http.closing = false;
            }
            return end;
        }
        match BodyReader::new(request.framing, self.site.spec.max_body_size.0) {
            Err(error) => Some(self.reject(error.status(), out)),
            Ok(reader) => {
                if request.expects_continue && input.len() == head_bytes {
                    out.text(|text| text.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
                }
                *used += head_bytes;
                http.pending = Some(Box::new(PendingBody {
                    head: input[..head_bytes].to_vec(),
                    reader,
                    body: Vec::new(),
                }));
                None
            }
        }
    }

    /// Reads the body of a request and answers it when it is complete.
    fn next_of_body(
        &mut self,
        http: &mut HttpState,
        mut pending: Box<PendingBody>,
        input: &[u8],
        out: &mut SendQueue,
        used: &mut usize,
    ) -> Option<BatchEnd> {
        let PendingBody { reader, body, .. } = &mut *pending;
        match reader.read(input, |data| body.extend_from_slice(data)) {
            Err(error) => return Some(self.reject(error.status(), out)),
            Ok(bytes) => *used += bytes,
        }
        if !pending.reader.is_complete() {
            http.pending = Some(pending);
            return Some(BatchEnd::NeedsInput);
        }
        let PendingBody { head, body, .. } = &*pending;
        let ParsedHead::Complete(request, _) = parse_request(head, head.len() + 1) else {
            return Some(self.reject(Status::InternalServerError, out));
        };
        http.closing = !request.keep_alive;
        let end = self.dispatch(&request, body, http, out).batch_end();
        if end.is_none() {
            http.answered = http.answered.wrapping_add(1);
        } else {
            http.closing = false;
            http.pending = Some(pending);
        }
        end
    }

    /// Answers one complete request.
    #[inline]
    fn dispatch(
        &mut self,
        request: &Request<'_>,
        body: &[u8],
        http: &mut HttpState,
        out: &mut SendQueue,
    ) -> Handled {
        // The undecoded path is the cache key of most files, so most requests end here.
        let (path, _) = split_query(request.target);
        if matches!(request.method, Method::Get | Method::Head)
            && let Some(entry) = self.cached(path, request.accept_encoding)
        {
            self.send_entry(request, &entry, out);
            return Handled::Done;
        }
        if self.defers {
            return Handled::Deferred;
        }
        self.dispatch_uncached(request, body, http, out)
    }

    /// A file from the cache, in the best coding that the client accepts.
    #[inline]
    fn cached(&mut self, path: &[u8], accepted: Option<&[u8]>) -> Option<Arc<Entry>> {
        let mut entry = self.cached_coding(path, Coding::Identity)?;
        if let Some(accepted) = accepted
            && !entry.siblings.is_empty()
        {
            let coding = choose(accepted, entry.siblings);
            if coding != Coding::Identity {
                entry = self.cached_coding(path, coding)?;
            }
        }
        // If a helper thread read the file for this request, the miss is counted already.
        if self.job_result.is_none() {
            self.counters().cache_hits.add(1);
        }
        Some(entry)
    }

    /// A file from the cache in one coding, if the file on disk has not changed.
    #[inline]
    fn cached_coding(&mut self, path: &[u8], coding: Coding) -> Option<Arc<Entry>> {
        let entry = self.cache.with(|cache| cache.get(path, coding))?;
        let checked_ms = entry.checked_ms.load(Ordering::Relaxed);
        if self.clock.now_ms.saturating_sub(checked_ms) <= self.site.spec.revalidate_ms() {
            return Some(entry);
        }
        self.revalidate(path, entry)
    }

    #[cold]
    fn revalidate(&mut self, path: &[u8], entry: Arc<Entry>) -> Option<Arc<Entry>> {
        self.counters().revalidated.add(1);
        let root = self.site.root.as_ref()?;
        if entry.is_current(root, path) {
            entry.checked_ms.store(self.clock.now_ms, Ordering::Relaxed);
            return Some(entry);
        }
        let counters = &self.site.counters[self.slot];
        self.cache
            .with(|cache| cache.remove(path, entry.coding, counters));
        None
    }

    /// Adds a file that was just read to the cache.
    fn add_to_cache(&mut self, path: &[u8], entry: Arc<Entry>) {
        entry.checked_ms.store(self.clock.now_ms, Ordering::Relaxed);
        let counters = &self.site.counters[self.slot];
        self.cache.with(|cache| cache.insert(path, entry, counters));
    }

    /// A file that is not in the cache: the result of a job, or a file that is read now.
    fn load(&mut self, path: &[u8], coding: Coding) -> Result<Result<Arc<Entry>, FileError>, Job> {
        match self.job_result.take() {
            Some(JobResult::Loaded {
                path: loaded,
                coding: loaded_coding,
                result,
            }) if *loaded == *path && loaded_coding == coding => return Ok(result),
            other => self.job_result = other,
        }
        self.counters().cache_misses.add(1);
        let job = Job::Load {
            path: path.into(),
            coding,
        };
        if self.returns_jobs {
            return Err(job);
        }
        let result = run_job(&self.site, job, &mut self.scratch);
        self.set_job_result(result);
        match self.job_result.take() {
            Some(JobResult::Loaded { result, .. }) => Ok(result),
            _ => Ok(Err(FileError::Failed)),
        }
    }
}

/// Whether a partial head is still partial, because the new bytes contain no empty line.
///
/// Without this check, the head of a client that sends byte by byte would be parsed once per byte.
fn is_still_partial(searched_bytes: usize, input: &[u8], limit_bytes: usize) -> bool {
    if searched_bytes == 0 || input.len() >= limit_bytes.min(TARGET_BYTES) {
        return false;
    }
    let new = &input[searched_bytes.min(input.len()).saturating_sub(3)..];
    memchr::memmem::find(new, b"\n\r\n").is_none() && memchr::memmem::find(new, b"\n\n").is_none()
}
