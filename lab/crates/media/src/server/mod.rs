//! A server of stored media: RTSP for control, RTP in datagrams or on the RTSP connection.
//!
//! [`Buffering`] selects how media get from the disk to the sender. Everything else is the same in all
//! five modes: an event loop per CPU answers RTSP (`event_loop`, `protocol`, `session`), a pool of
//! threads opens and reads files (`readers`, `library`, `block`, `disk`), and `stream` makes and sends
//! packets. In `shared` and `mapped` the event loop paces the streams (`pacing`). In
//! `unbuffered`, `single` and `double` each stream has threads of its own (`threads`).

mod block;
mod counters;
mod disk;
mod event_loop;
mod lateness;
mod library;
mod mailbox;
mod outgoing;
mod pacing;
mod protocol;
mod readers;
mod session;
mod sockets;
mod spec;
mod stream;
mod threads;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Instant;

use clap::ValueEnum;
use perpacket_linux::user::{UserError, drop_root};
use perpacket_linux::{affinity, descriptors};
use rustix::process::{Resource, Rlimit, setrlimit};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

pub use counters::{ContextSwitches, PageFaults, Report, Rtcp};
pub use spec::Spec;

use counters::Counters;
use disk::Disk;
use event_loop::EventLoop;
use library::Library;
use mailbox::Mailbox;
use readers::{ReaderQueue, Readers};

/// How the server moves media from the disk to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Buffering {
    /// One thread per stream reads each packet when it is due, then sends it: the published baseline.
    Unbuffered,
    /// One thread per stream reads a buffer, then sends it.
    Single,
    /// Two threads and two buffers per stream: the published design. One thread fills a buffer while the
    /// other sends.
    Double,
    /// One event loop per CPU; all streams share the blocks of files, which reader threads read ahead.
    Shared,
    /// Like `shared`, from mapped files.
    Mapped,
}

/// The reason why the server cannot start.
#[derive(Debug, Error)]
pub enum Error {
    #[error("root {path}: {error}")]
    Root { path: PathBuf, error: io::Error },
    #[error("--user: {0}")]
    User(#[from] UserError),
    #[error("root {path}: user {user} cannot read it: {error}")]
    Unreadable {
        path: PathBuf,
        user: String,
        error: io::Error,
    },
    #[error("cannot listen on {address}: {error}")]
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    #[error("cannot run on cpu {core}: {error}")]
    Core { core: usize, error: io::Error },
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// State that all threads of a server share.
struct Shared {
    spec: Spec,
    counters: Arc<Counters>,
    readers: ReaderQueue,
    stopped: AtomicBool,
    overloaded: AtomicBool,
}

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    started: Instant,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<()>>,
    /// Declared last, so that it is dropped last: the event loops use the readers and must end
    /// first.
    _readers: Readers,
}

/// Descriptors of a session: its connection, its socket, its file.
const DESCRIPTORS_PER_SESSION: u64 = 3;

/// Descriptors of the rest of the process.
const OTHER_DESCRIPTORS: u64 = 64;

impl Server {
    /// Starts a server. If root runs this process, it permanently becomes another user.
    ///
    /// # Errors
    /// The folder, the address, the user or a CPU cannot be used, or the system has no more threads.
    pub fn start(spec: Spec) -> Result<Self, Error> {
        let sessions = spec.max_sessions;
        // If the limit cannot be raised this far, connections are refused when descriptors run out.
        descriptors::raise(sessions.saturating_mul(DESCRIPTORS_PER_SESSION) + OTHER_DESCRIPTORS);
        // The threads of streams count against the process limit of the user that root becomes.
        // Only root may raise this limit.
        let unlimited = Rlimit {
            current: None,
            maximum: None,
        };
        let _ = setrlimit(Resource::Nproc, unlimited);
        let maps_files = spec.buffering == Buffering::Mapped;
        let library = Library::new(&spec.root, maps_files).map_err(|error| Error::Root {
            path: spec.root.clone(),
            error,
        })?;
        let library = Arc::new(library);
        let readers = Readers::start(
            spec.readers(),
            Arc::clone(&library),
            spec.cache_bytes(),
            Disk::new(spec.read_delay.0, spec.disk_rate.map(|rate| rate.0)),
        )?;
        let limit_ns = u64::try_from(spec.max_lateness.0.as_nanos()).unwrap_or(u64::MAX);
        let shared = Arc::new(Shared {
            counters: Arc::new(Counters::new(limit_ns)),
            readers: readers.queue(),
            stopped: AtomicBool::new(false),
            overloaded: AtomicBool::new(false),
            spec,
        });
        let mut server = Self {
            address: shared.spec.listen,
            shared,
            started: Instant::now(),
            mailboxes: Vec::new(),
            threads: Vec::new(),
            _readers: readers,
        };
        let cores = match server.shared.spec.runs_on.list() {
            [] => vec![None],
            cores => cores.iter().copied().map(Some).collect(),
        };
        let mut event_loops = Vec::new();
        for core in cores {
            let event_loop = EventLoop::new(Arc::clone(&server.shared), server.address)?;
            server.address = event_loop.address();
            server.mailboxes.push(event_loop.mailbox());
            event_loops.push((core, event_loop));
        }
        // Drop privileges only after the address is bound, because only root may bind ports below
        // 1024.
        let spec = &server.shared.spec;
        if let Some(user) = drop_root(spec.user.as_deref())? {
            library.check_access().map_err(|error| Error::Unreadable {
                path: spec.root.clone(),
                user: user.to_owned(),
                error,
            })?;
        }
        for (number, (core, event_loop)) in event_loops.into_iter().enumerate() {
            server.start_thread(number, core, event_loop)?;
        }
        Ok(server)
    }

    fn start_thread(
        &mut self,
        number: usize,
        core: Option<usize>,
        event_loop: EventLoop,
    ) -> Result<(), Error> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name(format!("media-{number}"));
        self.threads.push(thread.spawn(move || {
            let bound = core.map_or(Ok(()), |core| affinity::bind(&[core]));
            let is_bound = bound.is_ok();
            // The receiver waits for this result only, so the send cannot fail.
            let _ = sender.send(bound);
            if is_bound {
                event_loop.run();
            }
        })?);
        match (receiver.recv(), core) {
            (Ok(Err(error)), Some(core)) => Err(Error::Core { core, error }),
            _ => Ok(()),
        }
    }

    /// The address for RTSP, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The report from the start until now.
    pub fn report(&self) -> Report {
        let reads = self.shared.readers.counts();
        let spec = &self.shared.spec;
        self.shared.counters.report(spec, self.started, reads)
    }

    /// Ends all sessions and threads.
    fn stop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
        for mailbox in &self.mailboxes {
            mailbox.wake();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
