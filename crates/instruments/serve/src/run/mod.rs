//! The architectures of the server. They differ in how they wait for bytes. [`crate::worker`]
//! answers requests.

mod blocking;
mod connection;
mod events;
mod handler;
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

use perpacket_linux::descriptors;
use perpacket_linux::mailbox::lock;
use perpacket_linux::memory::SharedTable;
use rustix::thread::{Timespec, nanosleep};

use crate::error::ServeError;
use crate::files::cache::{Cache, CacheHandle};
use crate::files::helper_threads::{HELPER_THREADS, HelperThreads, JobResults};
use crate::report::{Report, Reporter};
use perpacket_spec::{Switch, Whole};

use crate::site::Site;
use crate::spec::{Architecture, CgiProgram, Spec};
use crate::worker::Worker;

/// Descriptors reserved for files, listeners and polling. Connections may not use them.
const RESERVED_DESCRIPTORS: u64 = 128;

/// How often the stop flag is checked if no signal interrupts the wait.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// A bound server. Clients can connect now, and get responses after [`Server::run`] starts.
pub struct Server {
    site: Arc<Site>,
    listeners: Vec<OwnedFd>,
    local_address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    workers: usize,
}

impl Server {
    /// Binds, opens the root folder, reads the certificate, and drops root privileges.
    ///
    /// # Errors
    /// The machine refuses an option.
    pub fn bind(spec: Spec, cgi: Option<CgiProgram>) -> Result<Self, ServeError> {
        if spec.architecture == Architecture::Uring {
            uring::probe()?;
        }
        let limit = connection_limit(&spec)?;
        let usable = pinning::loop_count(spec.cores())?;
        let (workers, listening) = match spec.architecture {
            Architecture::Events | Architecture::Single | Architecture::Uring => (usable, usable),
            Architecture::Threads | Architecture::Processes => {
                (spec.threads.map_or(1, Whole::count), 1)
            }
        };
        let (listeners, local_address) = listener::listen(&spec, listening)?;
        let tls = match (&spec.tls_cert, &spec.tls_key) {
            (Some(certificate), Some(key)) => {
                let resumption = spec.tls_resumption != Some(Switch::Off);
                Some(tls::configure(certificate, key, resumption)?)
            }
            _ => None,
        };
        let counters = SharedTable::new(workers + HELPER_THREADS)
            .map_err(ServeError::system("memory for counters"))?;
        let site = Site::new(spec, cgi, Arc::new(counters), limit)?;
        user::drop_root(&site)?;
        Ok(Self {
            site: Arc::new(site),
            listeners,
            local_address,
            tls,
            workers,
        })
    }

    /// The address it listens on, with the port that the kernel picked for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Reports while the server runs.
    pub fn reporter(&self) -> Reporter {
        self.site.reporter.clone()
    }

    /// Serves until `stop` becomes true, then closes open connections.
    ///
    /// # Errors
    /// A worker cannot start, or fails.
    pub fn run(self, stop: &AtomicBool) -> Result<Report, ServeError> {
        match self.site.spec.architecture {
            Architecture::Events | Architecture::Single | Architecture::Uring => {
                self.run_loops(stop)?;
            }
            Architecture::Threads => self.run_threads(stop)?,
            Architecture::Processes => processes::run(&self, stop)?,
        }
        Ok(self.site.reporter.report())
    }

    /// Runs a loop for each listener, with helper threads except in `single`.
    fn run_loops(&self, stop: &AtomicBool) -> Result<(), ServeError> {
        let architecture = self.site.spec.architecture;
        let mut job_results = Vec::new();
        for _ in &self.listeners {
            let results = JobResults::new().map_err(ServeError::system("an eventfd"))?;
            job_results.push(Arc::new(results));
        }
        let helpers = match architecture {
            Architecture::Single => None,
            _ => Some(
                HelperThreads::start(&self.site, self.workers)
                    .map_err(ServeError::system("helper threads"))?,
            ),
        };
        let halt = AtomicBool::new(false);
        let result = self.run_workers(
            stop,
            &halt,
            |slot| {
                let worker = self.worker(slot, self.own_cache(), helpers.is_some());
                let results = Arc::clone(&job_results[slot]);
                let jobs = helpers.as_ref().map(|all| all.sender(Arc::clone(&results)));
                let listener = &self.listeners[slot];
                let halt = &halt;
                move || match architecture {
                    Architecture::Uring => uring::run(worker, listener, results, jobs, halt),
                    _ => events::run(worker, listener, results, jobs, self.tls.as_ref(), halt),
                }
            },
            || job_results.iter().for_each(|results| results.wake()),
        );
        if let Some(helpers) = helpers {
            helpers.stop();
        }
        result
    }

    /// Runs threads that share a listener and a cache.
    fn run_threads(&self, stop: &AtomicBool) -> Result<(), ServeError> {
        let cache = Arc::new(Mutex::new(Cache::new(self.site.spec.cache_bytes())));
        let halt = AtomicBool::new(false);
        let listener = &self.listeners[0];
        blocking::prepare(listener)?;
        self.run_workers(
            stop,
            &halt,
            |slot| {
                let worker = self.worker(slot, CacheHandle::Shared(Arc::clone(&cache)), false);
                let halt = &halt;
                move || blocking::run(worker, listener, self.tls.as_ref(), halt)
            },
            || {},
        )
    }

    /// Runs a thread for each worker until `stop`, or until one fails.
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
        let cores = self.site.spec.cores();
        let first_fault = Mutex::new(None);
        let record = |fault| {
            let mut first = lock(&first_fault);
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
                        record(ServeError::system("a thread")(error));
                        break;
                    }
                }
            }
            let all_running = |threads: &[ScopedJoinHandle<'_, _>]| {
                threads.len() == self.workers && !threads.iter().any(ScopedJoinHandle::is_finished)
            };
            while !stop.load(Ordering::Relaxed) && all_running(&threads) {
                wait();
            }
            halt.store(true, Ordering::Relaxed);
            wake();
            for thread in threads {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => record(ServeError::system("a worker")(error)),
                    Err(_) => {
                        let error = io::Error::other("it panicked: please report this");
                        record(ServeError::system("a worker")(error));
                    }
                }
            }
        });
        let fault = first_fault
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        fault.map_or(Ok(()), Err)
    }

    fn worker(&self, slot: usize, cache: CacheHandle, returns_jobs: bool) -> Worker {
        Worker::new(Arc::clone(&self.site), slot, cache, returns_jobs)
    }

    fn own_cache(&self) -> CacheHandle {
        CacheHandle::Own(Box::new(Cache::new(self.site.spec.cache_bytes())))
    }
}

/// Sleeps until the next check of the stop flag, or until a signal.
fn wait() {
    if let Ok(time) = Timespec::try_from(STOP_CHECK) {
        let _ = nanosleep(&time);
    }
}

/// Raises the limit of descriptors as far as possible. Returns the number of connections that the
/// limit allows.
fn connection_limit(spec: &Spec) -> Result<usize, ServeError> {
    let descriptors = descriptors::raise(u64::MAX);
    match spec.max_connections {
        Some(connections) => Ok(connections.count()),
        None if descriptors <= RESERVED_DESCRIPTORS => Err(ServeError::Lacking {
            what: "descriptors",
            problem: format!(
                "{descriptors} allowed, {RESERVED_DESCRIPTORS} are reserved for files: raise \
                 `ulimit -n`, or set --max-connections"
            ),
        }),
        None => Ok((descriptors - RESERVED_DESCRIPTORS) as usize),
    }
}
