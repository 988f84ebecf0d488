//! The architectures: who waits for bytes, and how. What is answered stands in [`crate::answer`].

mod blocking;
mod connection;
mod engine;
mod events;
mod listener;
mod pinning;
mod processes;
mod tls;
mod uring;
mod user;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use perpacket_linux::memory::SharedTable;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{Timespec, nanosleep};

use crate::answer::Worker;
use crate::error::ServeError;
use crate::files::cache::{Cache, Shelf};
use crate::files::helpers::{HELPERS, Helpers, Mailbox};
use crate::report::{Report, Reporter};
use crate::settings::{Architecture, Settings};
use crate::site::Site;

/// Descriptors kept for files, listeners and polling when connections are counted.
const RESERVED_DESCRIPTORS: u64 = 128;

/// How often the flag to stop is looked at where no signal interrupts the wait.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// A server that is bound: clients can connect, and are answered once it runs.
pub struct Server {
    site: Arc<Site>,
    listeners: Vec<OwnedFd>,
    local_address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    workers: usize,
}

impl Server {
    /// Binds, opens the root, reads the certificate, and ceases to be root.
    ///
    /// # Errors
    /// What was asked for makes no sense, or the machine refuses it.
    pub fn bind(settings: Settings) -> Result<Self, ServeError> {
        settings.check()?;
        if settings.architecture == Architecture::Uring {
            uring::probe()?;
        }
        let room = room_for_connections(&settings)?;
        let usable = pinning::usable(&settings.cores)?;
        let (workers, listening) = match settings.architecture {
            Architecture::Events | Architecture::Single | Architecture::Uring => (usable, usable),
            Architecture::Threads | Architecture::Processes => (settings.threads, 1),
        };
        let (listeners, local_address) = listener::listen(&settings, listening)?;
        let tls = settings.tls.as_ref().map(tls::configure).transpose()?;
        let counters = SharedTable::new(workers + HELPERS)
            .map_err(ServeError::system("memory for counters"))?;
        let site = Site::new(settings, Arc::new(counters), room)?;
        user::drop_root(&site)?;
        Ok(Self {
            site: Arc::new(site),
            listeners,
            local_address,
            tls,
            workers,
        })
    }

    /// Where it listens; the port is known also when any was asked for.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Makes reports while it runs.
    #[must_use]
    pub fn reporter(&self) -> Reporter {
        self.site.reporter.clone()
    }

    /// Answers until `stop` becomes true; open connections are then closed.
    ///
    /// # Errors
    /// A worker cannot start, or ends by itself.
    pub fn run(self, stop: &AtomicBool) -> Result<Report, ServeError> {
        match self.site.settings.architecture {
            Architecture::Events | Architecture::Single | Architecture::Uring => {
                self.run_loops(stop)?;
            }
            Architecture::Threads => self.run_threads(stop)?,
            Architecture::Processes => processes::run(&self, stop)?,
        }
        Ok(self.site.reporter.report())
    }

    /// A loop for each listener, and helpers unless they are what the architecture lacks.
    fn run_loops(&self, stop: &AtomicBool) -> Result<(), ServeError> {
        let architecture = self.site.settings.architecture;
        let mut mailboxes = Vec::new();
        for _ in &self.listeners {
            let mailbox = Mailbox::new().map_err(ServeError::system("an eventfd"))?;
            mailboxes.push(Arc::new(mailbox));
        }
        let helpers = match architecture {
            Architecture::Single => None,
            _ => Some(
                Helpers::start(&self.site, self.workers)
                    .map_err(ServeError::system("helper threads"))?,
            ),
        };
        let halt = AtomicBool::new(false);
        let result = self.run_workers(
            stop,
            &halt,
            |slot| {
                let worker = self.worker(slot, self.own_shelf(), helpers.is_some());
                let mailbox = Arc::clone(&mailboxes[slot]);
                let desk = helpers.as_ref().map(|all| all.desk(Arc::clone(&mailbox)));
                let listener = &self.listeners[slot];
                let halt = &halt;
                move || match architecture {
                    Architecture::Uring => uring::run(worker, listener, mailbox, desk, halt),
                    _ => events::run(worker, listener, mailbox, desk, self.tls.as_ref(), halt),
                }
            },
            || mailboxes.iter().for_each(|mailbox| mailbox.ring()),
        );
        if let Some(helpers) = helpers {
            helpers.stop();
        }
        result
    }

    /// Threads that share a listener and a cache.
    fn run_threads(&self, stop: &AtomicBool) -> Result<(), ServeError> {
        let cache = Arc::new(Mutex::new(Cache::new(self.site.settings.cache_bytes)));
        let halt = AtomicBool::new(false);
        let listener = &self.listeners[0];
        blocking::prepare(listener)?;
        self.run_workers(
            stop,
            &halt,
            |slot| {
                let worker = self.worker(slot, Shelf::Shared(Arc::clone(&cache)), false);
                let halt = &halt;
                move || blocking::run(worker, listener, self.tls.as_ref(), halt)
            },
            || {},
        )
    }

    /// Runs a thread for each worker until `stop`, or until one ends by itself.
    fn run_workers<'a, W>(
        &'a self,
        stop: &AtomicBool,
        halt: &'a AtomicBool,
        work: impl Fn(usize) -> W,
        wake: impl Fn(),
    ) -> Result<(), ServeError>
    where
        W: FnOnce() -> io::Result<()> + Send + 'a,
    {
        let cores = &self.site.settings.cores;
        let first_fault = Mutex::new(None);
        let note = |fault| {
            let mut first = first_fault.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(fault);
        };
        std::thread::scope(|scope| {
            let mut threads: Vec<ScopedJoinHandle<'_, io::Result<()>>> = Vec::new();
            for slot in 0..self.workers {
                let work = work(slot);
                let core = pinning::core_of(cores, slot);
                let spawned = std::thread::Builder::new()
                    .name(format!("worker-{slot}"))
                    .spawn_scoped(scope, move || {
                        pinning::pin(core)?;
                        work()
                    });
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        note(ServeError::system("a thread")(error));
                        break;
                    }
                }
            }
            let all_run = |threads: &[ScopedJoinHandle<'_, _>]| {
                threads.len() == self.workers && !threads.iter().any(ScopedJoinHandle::is_finished)
            };
            while !stop.load(Ordering::Relaxed) && all_run(&threads) {
                wait();
            }
            halt.store(true, Ordering::Relaxed);
            wake();
            for thread in threads {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => note(ServeError::system("a worker")(error)),
                    Err(_) => {
                        let error = io::Error::other("it panicked: please report this");
                        note(ServeError::system("a worker")(error));
                    }
                }
            }
        });
        let fault = first_fault
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        fault.map_or(Ok(()), Err)
    }

    fn worker(&self, slot: usize, shelf: Shelf, asks_helpers: bool) -> Worker {
        Worker::new(Arc::clone(&self.site), slot, shelf, asks_helpers)
    }

    fn own_shelf(&self) -> Shelf {
        Shelf::Own(Box::new(Cache::new(self.site.settings.cache_bytes)))
    }
}

/// Sleeps for a while, or until a signal.
fn wait() {
    if let Ok(time) = Timespec::try_from(STOP_CHECK) {
        let _ = nanosleep(&time);
    }
}

/// Raises the limit of descriptors as far as it goes; tells how many connections it allows.
fn room_for_connections(settings: &Settings) -> Result<usize, ServeError> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Without the right to raise it the limit stays what it was.
    let _ = setrlimit(Resource::Nofile, raised);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    match settings.max_connections {
        Some(connections) => Ok(connections),
        None if descriptors <= RESERVED_DESCRIPTORS => Err(ServeError::Lacking {
            what: "descriptors",
            problem: format!(
                "{descriptors} allowed, {RESERVED_DESCRIPTORS} are kept for files: raise \
                 `ulimit -n`, or say how many connections with --max-connections"
            ),
        }),
        None => Ok((descriptors - RESERVED_DESCRIPTORS) as usize),
    }
}
