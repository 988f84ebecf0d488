//! The request path, the same in all architectures: bytes that came in, responses that go out.
//!
//! A [`Worker`] answers as many whole requests as there are in what it is given and appends the
//! responses to an [`Outgoing`]; its caller then sends them together. It waits for nothing: where a
//! file must be read first, and the architecture has helpers, it says so and is called again with
//! the same bytes when the file is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};

use crate::counters::Counters;
use crate::files::cache::Shelf;
use crate::files::entry::{Entry, Refusal};
use crate::files::helpers::{Job, Outcome, carry_out};
use crate::outgoing::Outgoing;
use crate::site::Site;
use crate::talk::{PendingBody, Talk};
use perpacket_http::body::{BodyReader, Framing};
use perpacket_http::coding::{Coding, choose};
use perpacket_http::date::{DATE_BYTES, format_date};
use perpacket_http::request::{Method, ParsedHead, Request, TARGET_BYTES, parse_request};
use perpacket_http::status::Status;
use perpacket_http::target::split_query;

mod computed;
mod respond;
mod statics;

/// The time, looked at once for everything that came in together.
#[derive(Debug)]
pub struct Clock {
    /// Milliseconds since some start.
    pub now_ms: u64,
    second: i64,
    date: [u8; DATE_BYTES],
}

impl Clock {
    /// The time of now.
    pub fn new() -> Self {
        let mut clock = Self {
            now_ms: 0,
            second: -1,
            date: [b' '; DATE_BYTES],
        };
        clock.tick();
        clock
    }

    /// Looks at the time; writes the date anew when its second is over. The coarse clocks are
    /// read without a system call and are as fine as the kernel's tick, 1 to 10 ms.
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

/// One who answers requests: a loop, a thread or a process.
pub struct Worker {
    /// What all share.
    pub site: Arc<Site>,
    /// The time.
    pub clock: Clock,
    /// Requests that are not answered from the cache are deferred: they may take long, and other
    /// clients wait.
    pub defers: bool,
    /// Other connections wait while this worker answers one: it is a loop.
    pub shares_thread: bool,
    shelf: Shelf,
    slot: usize,
    asks_helpers: bool,
    delivered: Option<Outcome>,
    scratch: Vec<u8>,
}

/// Why a worker stopped answering.
#[derive(Debug)]
pub enum Stop {
    /// What is left of the input is no whole request.
    Input,
    /// There is enough to send first; there may be more requests in the input.
    Output,
    /// A helper must do this first; then the same input again.
    Job(Job),
    /// The next request is not for now, see [`Worker::defers`]; then the same input again.
    Later,
    /// The last response stands; the connection ends when it is sent. `true` if the client may
    /// still be sending what will not be read.
    Close(bool),
}

/// How far a worker came.
#[derive(Debug)]
pub struct Turn {
    /// Bytes of the input that are done with.
    pub used: usize,
    /// Why it went no further.
    pub stop: Stop,
}

/// What came of one request.
enum Answered {
    Done,
    Job(Job),
    Later,
}

impl Answered {
    /// Why a worker stops here; none if it is done and may go on.
    fn stop(self) -> Option<Stop> {
        match self {
            Self::Done => None,
            Self::Job(job) => Some(Stop::Job(job)),
            Self::Later => Some(Stop::Later),
        }
    }
}

impl Worker {
    /// A worker that counts in `slot`, and gives cold files to helpers if it `asks_helpers`.
    pub fn new(site: Arc<Site>, slot: usize, shelf: Shelf, asks_helpers: bool) -> Self {
        Self {
            site,
            clock: Clock::new(),
            defers: false,
            shares_thread: false,
            shelf,
            slot,
            asks_helpers,
            delivered: None,
            scratch: Vec::new(),
        }
    }

    /// The worker's counters.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.site.counters[self.slot]
    }

    /// Counts a client that was taken.
    pub fn welcome(&self) {
        self.site.welcome(self.counters());
    }

    /// Takes what a helper did for somebody who is gone.
    pub fn keep(&mut self, outcome: &Outcome) {
        if let Outcome::Loaded {
            path,
            result: Ok(entry),
            ..
        } = outcome
        {
            self.remember(path, Arc::clone(entry));
        }
    }

    /// Takes what a helper did: the next call of [`Self::answer`] is for who waited for it.
    pub fn deliver(&mut self, outcome: Outcome) {
        self.keep(&outcome);
        self.delivered = Some(outcome);
    }

    /// Answers the whole requests of `input`.
    pub fn answer(&mut self, talk: &mut Talk, input: &[u8], out: &mut Outgoing) -> Turn {
        let mut used = 0;
        loop {
            let stop = if talk.closing {
                Stop::Close(false)
            } else if out.is_enough() {
                Stop::Output
            } else {
                match self.next(talk, &input[used..], out, &mut used) {
                    None => continue,
                    Some(stop) => stop,
                }
            };
            self.delivered = None;
            return Turn { used, stop };
        }
    }

    /// One step: a request, or a part of one. `None` if there may be more.
    fn next(
        &mut self,
        talk: &mut Talk,
        input: &[u8],
        out: &mut Outgoing,
        used: &mut usize,
    ) -> Option<Stop> {
        if let Some(pending) = talk.pending.take() {
            return self.next_of_body(talk, pending, input, out, used);
        }
        if input.is_empty() {
            talk.searched = 0;
            return Some(Stop::Input);
        }
        let limit_bytes = self.site.settings.max_header_bytes;
        if is_still_partial(talk.searched, input, limit_bytes) {
            talk.searched = input.len();
            return Some(Stop::Input);
        }
        let (request, head_bytes) = match parse_request(input, limit_bytes) {
            ParsedHead::Complete(request, head_bytes) => (request, head_bytes),
            ParsedHead::Partial => {
                talk.searched = input.len();
                return Some(Stop::Input);
            }
            ParsedHead::Rejected(status) => return Some(self.refuse(status, out)),
        };
        talk.searched = 0;
        if request.framing == Framing::Length(0) {
            talk.closing = !request.keep_alive;
            let stop = self.dispatch(&request, &[], talk, out).stop();
            if stop.is_none() {
                talk.answered = talk.answered.wrapping_add(1);
                *used += head_bytes;
            } else {
                talk.closing = false;
            }
            return stop;
        }
        match BodyReader::new(request.framing, self.site.settings.max_body_bytes) {
            Err(error) => Some(self.refuse(error.status(), out)),
            Ok(reader) => {
                if request.expects_continue && input.len() == head_bytes {
                    out.text(|text| text.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
                }
                *used += head_bytes;
                talk.pending = Some(Box::new(PendingBody {
                    head: input[..head_bytes].to_vec(),
                    reader,
                    body: Vec::new(),
                }));
                None
            }
        }
    }

    /// Goes on with a request whose head is here.
    fn next_of_body(
        &mut self,
        talk: &mut Talk,
        mut pending: Box<PendingBody>,
        input: &[u8],
        out: &mut Outgoing,
        used: &mut usize,
    ) -> Option<Stop> {
        let PendingBody { reader, body, .. } = &mut *pending;
        match reader.read(input, |data| body.extend_from_slice(data)) {
            Err(error) => return Some(self.refuse(error.status(), out)),
            Ok(bytes) => *used += bytes,
        }
        if !pending.reader.is_complete() {
            talk.pending = Some(pending);
            return Some(Stop::Input);
        }
        let PendingBody { head, body, .. } = &*pending;
        let ParsedHead::Complete(request, _) = parse_request(head, head.len() + 1) else {
            return Some(self.refuse(Status::InternalServerError, out));
        };
        talk.closing = !request.keep_alive;
        let stop = self.dispatch(&request, body, talk, out).stop();
        if stop.is_none() {
            talk.answered = talk.answered.wrapping_add(1);
        } else {
            talk.closing = false;
            talk.pending = Some(pending);
        }
        stop
    }

    /// Answers one request whose body is all here.
    #[inline]
    fn dispatch(
        &mut self,
        request: &Request<'_>,
        body: &[u8],
        talk: &mut Talk,
        out: &mut Outgoing,
    ) -> Answered {
        // A plain path is its own key: most requests end here, before anything is decoded.
        let (path, _) = split_query(request.target);
        if matches!(request.method, Method::Get | Method::Head)
            && let Some(entry) = self.cached(path, request.accept_encoding)
        {
            self.send_entry(request, &entry, out);
            return Answered::Done;
        }
        if self.defers {
            return Answered::Later;
        }
        self.dispatch_unknown(request, body, talk, out)
    }

    /// A file from the cache, in the best form that the client takes and that is also cached.
    #[inline]
    fn cached(&mut self, path: &[u8], accepted: Option<&[u8]>) -> Option<Arc<Entry>> {
        let mut entry = self.cached_form(path, Coding::Identity)?;
        if let Some(accepted) = accepted
            && !entry.siblings.is_empty()
        {
            let coding = choose(accepted, entry.siblings);
            if coding != Coding::Identity {
                entry = self.cached_form(path, coding)?;
            }
        }
        // What a helper just read for this request was a miss.
        if self.delivered.is_none() {
            self.counters().cache_hits.add(1);
        }
        Some(entry)
    }

    /// One form of a file from the cache, if it is still what lies on the disk.
    #[inline]
    fn cached_form(&mut self, path: &[u8], coding: Coding) -> Option<Arc<Entry>> {
        let entry = self.shelf.with(|cache| cache.get(path, coding))?;
        let checked_ms = entry.checked_ms.load(Ordering::Relaxed);
        if self.clock.now_ms.saturating_sub(checked_ms) <= self.site.settings.revalidate_ms {
            return Some(entry);
        }
        self.revalidate(path, entry)
    }

    #[cold]
    fn revalidate(&mut self, path: &[u8], entry: Arc<Entry>) -> Option<Arc<Entry>> {
        // Opening, looking and closing, for a plain file also for its three siblings.
        let calls = if entry.coding == Coding::Identity {
            6
        } else {
            3
        };
        let counters = self.counters();
        counters.revalidated.add(1);
        counters.system_calls.add(calls);
        let root = self.site.root.as_ref()?;
        if entry.is_current(root, path) {
            entry.checked_ms.store(self.clock.now_ms, Ordering::Relaxed);
            return Some(entry);
        }
        let counters = &self.site.counters[self.slot];
        self.shelf
            .with(|cache| cache.remove(path, entry.coding, counters));
        None
    }

    /// Enters a file that was just read into the cache.
    fn remember(&mut self, path: &[u8], entry: Arc<Entry>) {
        entry.checked_ms.store(self.clock.now_ms, Ordering::Relaxed);
        let counters = &self.site.counters[self.slot];
        self.shelf.with(|cache| cache.insert(path, entry, counters));
    }

    /// A file that is not in the cache: from a helper, or read now.
    fn load(&mut self, path: &[u8], coding: Coding) -> Result<Result<Arc<Entry>, Refusal>, Job> {
        match self.delivered.take() {
            Some(Outcome::Loaded {
                path: ready,
                coding: form,
                result,
            }) if *ready == *path && form == coding => return Ok(result),
            other => self.delivered = other,
        }
        self.counters().cache_misses.add(1);
        let job = Job::Load {
            path: path.into(),
            coding,
        };
        if self.asks_helpers {
            return Err(job);
        }
        // Opening, looking twice, reading to the end, the look for siblings, closing.
        self.counters().system_calls.add(10);
        let outcome = carry_out(&self.site, job, &mut self.scratch);
        self.deliver(outcome);
        match self.delivered.take() {
            Some(Outcome::Loaded { result, .. }) => Ok(result),
            _ => Ok(Err(Refusal::Failed)),
        }
    }
}

/// Whether a head that was partial before surely still is: nothing new ends a line twice.
///
/// Without this a client that sends a head byte by byte would have it parsed as often.
fn is_still_partial(searched: usize, input: &[u8], limit_bytes: usize) -> bool {
    if searched == 0 || input.len() >= limit_bytes.min(TARGET_BYTES) {
        return false;
    }
    let new = &input[searched.min(input.len()).saturating_sub(3)..];
    memchr::memmem::find(new, b"\n\r\n").is_none() && memchr::memmem::find(new, b"\n\n").is_none()
}
