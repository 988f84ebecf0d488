//! A server of stored media: RTSP for control, RTP in datagrams or on the RTSP connection.
//!
//! What is compared is how media get from the disk to the sender ([`Buffering`]); everything else
//! is one code for all: an event loop a core answers RTSP (`protocol`), files are opened and read by
//! a pool of threads (`library`, `blocks`), and a stream knows its packets (`stream`). In `shared`
//! and `mapped` the event loop also paces (`pacing`); in `single` and `double`, the
//! published designs, threads of each stream's own do (`threads`).

mod blocks;
mod counters;
mod lateness;
mod library;
mod outgoing;
mod pacing;
mod protocol;
mod reactor;
mod session;
mod sockets;
mod stream;
mod threads;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;
use thiserror::Error;

pub use counters::{ContextSwitches, PageFaults, Report, Rtcp};
pub use lateness::Percentiles;

use blocks::{Desk, Mailbox, Readers};
use counters::Counters;
use library::Library;
use reactor::Reactor;

/// How media get from the disk to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffering {
    /// A thread a stream reads a buffer, then sends it, in turn.
    Single,
    /// A thread a stream fills one buffer while another sends the other.
    Double,
    /// One event loop a core sends for all streams, from blocks that a few readers fetch ahead.
    Shared,
    /// As shared, from the pages of mapped files.
    Mapped,
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder whose files are served.
    pub root: PathBuf,
    /// Where to listen for RTSP; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How media get from the disk to the sender.
    pub buffering: Buffering,
    /// Packets in a buffer of `single` and `double`.
    pub buffer_packets: u32,
    /// CPUs to run on, an event loop on each; empty for one loop that is not bound.
    pub cores: Vec<usize>,
    /// Sessions at a time; another SETUP is answered 453.
    pub max_sessions: u64,
    /// Payload bits a second of all streams; a PLAY that would exceed it is answered 453.
    pub max_rate_bps: u64,
    /// While one packet in a hundred leaves later than this, a PLAY is answered 453.
    pub max_lateness: Duration,
    /// Sessions and connections end when nothing is heard for so long.
    pub session_timeout: Duration,
    /// Every read takes so much longer: an emulated slow disk.
    pub read_delay: Duration,
    /// Threads that read, in `shared` and `mapped`.
    pub readers: usize,
    /// Bytes of blocks kept for streams that may follow.
    pub cache_bytes: usize,
    /// How long before its time a packet may leave with an earlier one when there are many.
    pub ahead: Duration,
}

impl Options {
    /// The defaults for a folder and an address.
    #[must_use]
    pub fn new(root: PathBuf, listen: SocketAddr) -> Self {
        Self {
            root,
            listen,
            buffering: Buffering::Shared,
            buffer_packets: 10,
            cores: Vec::new(),
            max_sessions: 20_000,
            max_rate_bps: u64::MAX,
            max_lateness: Duration::from_millis(50),
            session_timeout: Duration::from_secs(60),
            read_delay: Duration::ZERO,
            readers: 8,
            cache_bytes: 256 * 1024 * 1024,
            ahead: Duration::from_millis(250),
        }
    }
}

/// Why the server could not start.
#[derive(Debug, Error)]
pub enum Error {
    /// The folder cannot be opened.
    #[error("root {path}: {error}")]
    Root {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A CPU that is not there, or may not be used.
    #[error("cannot run on cpu {core}: {error}")]
    Core {
        /// The CPU.
        core: usize,
        /// What the system said.
        error: io::Error,
    },
    /// The system gave no thread, descriptor or memory.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// What all threads of a server share.
struct Shared {
    options: Options,
    counters: Arc<Counters>,
    desk: Desk,
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
    /// Ends after the event loops, which ask it.
    _readers: Readers,
}

/// Descriptors for each session: its connection, its socket, a file of its own.
const DESCRIPTORS_PER_SESSION: u64 = 3;

/// Descriptors for everything else.
const DESCRIPTORS_SPARE: u64 = 64;

impl Server {
    /// Starts to serve.
    ///
    /// # Errors
    /// The folder, the address or a CPU cannot be used, or the system gives no more threads.
    pub fn start(options: Options) -> Result<Self, Error> {
        raise_descriptor_limit(options.max_sessions);
        let maps_files = options.buffering == Buffering::Mapped;
        let library = Library::new(&options.root, maps_files).map_err(|error| Error::Root {
            path: options.root.clone(),
            error,
        })?;
        let readers = Readers::start(
            options.readers,
            Arc::new(library),
            options.cache_bytes,
            options.read_delay,
        )?;
        let limit_ns = u64::try_from(options.max_lateness.as_nanos()).unwrap_or(u64::MAX);
        let shared = Arc::new(Shared {
            counters: Arc::new(Counters::new(limit_ns)),
            desk: readers.desk(),
            stopped: AtomicBool::new(false),
            overloaded: AtomicBool::new(false),
            options,
        });
        let mut server = Self {
            address: shared.options.listen,
            shared,
            started: Instant::now(),
            mailboxes: Vec::new(),
            threads: Vec::new(),
            _readers: readers,
        };
        let cores = match &server.shared.options.cores[..] {
            [] => vec![None],
            cores => cores.iter().copied().map(Some).collect(),
        };
        for (number, core) in cores.into_iter().enumerate() {
            let reactor = Reactor::new(Arc::clone(&server.shared), server.address)?;
            server.address = reactor.address();
            server.mailboxes.push(reactor.mailbox());
            let (ready, started) = std::sync::mpsc::sync_channel(1);
            let thread = std::thread::Builder::new().name(format!("media-{number}"));
            server.threads.push(thread.spawn(move || {
                let bound = core.map_or(Ok(()), reactor::bind_to);
                let is_bound = bound.is_ok();
                // The starter waits for this, and only for this.
                let _ = ready.send(bound);
                if is_bound {
                    reactor.run();
                }
            })?);
            if let (Ok(Err(error)), Some(core)) = (started.recv(), core) {
                return Err(Error::Core { core, error });
            }
        }
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it did until now.
    #[must_use]
    pub fn report(&self) -> Report {
        let reads = self.shared.desk.counts();
        let options = &self.shared.options;
        self.shared.counters.report(options, self.started, reads)
    }

    /// Ends all sessions and threads.
    fn stop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
        for mailbox in &self.mailboxes {
            mailbox.wake();
        }
        for thread in self.threads.drain(..) {
            // A loop that panicked has printed why.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes room for the sessions that are admitted, as far as the system lets us: where it does not,
/// connections are refused when descriptors run out.
fn raise_descriptor_limit(sessions: u64) {
    let wanted = sessions.saturating_mul(DESCRIPTORS_PER_SESSION) + DESCRIPTORS_SPARE;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    // Root may raise the upper limit as well; others get what it allows.
    let upper = limit.maximum;
    limit.current = Some(wanted);
    limit.maximum = upper.map(|upper| upper.max(wanted));
    if setrlimit(Resource::Nofile, limit).is_err() {
        limit.current = upper.map(|upper| upper.min(wanted));
        limit.maximum = upper;
        // What cannot be had is found out when a descriptor is refused.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
