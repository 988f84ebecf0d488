//! `load http`: requests against a web server, and what they cost in time.
//!
//! [`run`] does all of it. `settings` says what a load is; `feed` turns a workload into sessions and
//! `schedule` into times; `worker` is a thread's loop, `exchange` a request and its response,
//! `response` the parser; `tally` is what a thread counts and `report` what all found.

mod connection;
mod date;
mod exchange;
mod fault;
mod feed;
mod notes;
mod outcome;
pub(crate) mod paths;
mod report;
mod request;
mod request_log;
mod response;
mod run_state;
mod schedule;
mod settings;
mod step;
mod tally;
mod target;
mod tls;
pub(crate) mod trace;
mod worker;

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use fault::Fault;
pub use report::{Histograms, LatencyPair, Report, TraceReport, Window};
pub use settings::{Arrivals, Check, Lengths, Part, Process, Settings, Spread, Version, Workload};
pub use target::Target;

use crate::error::LoadError;
use crate::limits;
use feed::Plan;
use outcome::Outcome;
use report::Found;
use request::RequestWriter;
use request_log::RequestLog;
use run_state::{Counters, NEVER, RunState};
use worker::Worker;

/// How often the threads are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often progress is told.
const TELL: Duration = Duration::from_secs(1);
/// A server that refuses for so long, without one answer, is gone.
const GONE_NS: u64 = 1_000_000_000;
/// A refusal so long ago says nothing about now.
const RECENT_NS: u64 = 400_000_000;

/// How a run is going: once a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the start, in seconds.
    pub elapsed_s: f64,
    /// The warm-up is not over yet.
    pub warming_up: bool,
    /// Responses since the window's beginning.
    pub requests: u64,
    /// Responses a second, over the last second.
    pub requests_per_s: f64,
    /// Mean response time over the last second, in microseconds.
    pub response_us: f64,
    /// Failed requests so far.
    pub errors: u64,
    /// Largest schedule lag of the last second, in microseconds.
    pub lag_max_us: f64,
}

/// Puts a load on a server until its window ends, its work is done, the server is gone, or `stop`
/// becomes true; what was found until then is returned in each case.
///
/// # Errors
/// The settings are contradictory, the machine allows too little, or nobody answers at the start.
pub fn run(
    settings: Settings,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    settings.check()?;
    let target = Target::parse(&settings.url)?;
    let prefix = target.path.trim_end_matches('/').to_owned();
    let plan = Plan::new(&settings, &prefix, &target.path)?;
    let address = target.resolve()?;
    let connections = settings.part.share(concurrency(&settings));
    limits::ensure_descriptors(connections)?;
    limits::check_ports(connections, &settings.sources, address)?;
    let connector = match target.tls {
        true => Some(tls::Connector::new(&target, &settings)?),
        false => None,
    };
    target::probe(address)?;
    let log = settings
        .request_log
        .as_deref()
        .map(RequestLog::create)
        .transpose()?;
    let threads = threads(&settings)?;
    let writer = RequestWriter::new(
        Arc::clone(&plan.paths),
        &prefix,
        &target.authority,
        settings.version,
        &settings.headers,
    );
    let window_begin_ns = settings.warmup.as_nanos() as u64;
    let window_end_ns = settings.duration.map_or(NEVER, |duration| {
        window_begin_ns.saturating_add(duration.as_nanos() as u64)
    });
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let run = Arc::new(RunState {
        settings,
        address,
        writer,
        connector,
        epoch: Instant::now(),
        window_begin_ns,
        window_end_ns,
        today: date::http_date(unix.as_secs()),
        stop: AtomicBool::new(false),
        counters: (0..threads).map(|_| Counters::default()).collect(),
    });
    let workers = start(&run, &plan, threads, connections as usize, log.as_ref())?;
    let (server_gone_ns, interrupted) = watch(&run, stop, progress);
    let outcomes = collect(workers)?;
    let trace = plan.trace().map(|trace| TraceReport {
        requests: trace.requests() as u64,
        sessions: trace.sessions() as u64,
        skipped: trace.skipped,
        rejected: trace.rejected,
        rejected_lines: trace.rejected_lines.clone(),
        begun: outcomes.iter().map(|outcome| outcome.begun).sum(),
    });
    let found = Found {
        outcomes,
        threads,
        window_begin_ns,
        window_begin_unix_s: unix.as_secs_f64() + window_begin_ns as f64 / 1e9,
        trace,
        server_gone_ns,
        interrupted,
    };
    Report::new(&run.settings, found)
}

/// How many connections there may be at a time.
fn concurrency(settings: &Settings) -> u64 {
    match settings.workload {
        Workload::Surge { users } => users.into(),
        _ => settings.connections.into(),
    }
}

/// How many threads a load runs on this machine.
///
/// # Errors
/// More are asked for than can be.
pub fn threads(settings: &Settings) -> Result<u32, LoadError> {
    let connections = settings.part.share(concurrency(settings));
    let machine = thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = match (settings.threads, settings.cpus.len()) {
        (Some(threads), _) => threads as usize,
        (None, 0) => machine,
        (None, cpus) => cpus,
    };
    if wanted > 4096 {
        return Err(LoadError::Usage(format!(
            "threads: {wanted}: expected at most 4096"
        )));
    }
    Ok(wanted.min(connections as usize) as u32)
}

/// Starts the threads, each with its share of the connections.
fn start(
    run: &Arc<RunState>,
    plan: &Plan,
    threads: u32,
    connections: usize,
    log: Option<&RequestLog>,
) -> Result<Vec<JoinHandle<Result<Outcome, LoadError>>>, LoadError> {
    let mut workers = Vec::new();
    let mut first = 0;
    for index in 0..threads {
        let own = Part { index, of: threads }.share(connections as u64) as usize;
        let feed = plan.feed(index, threads)?;
        let worker = Worker::new(
            Arc::clone(run),
            index as usize,
            threads,
            first,
            own,
            feed,
            log.cloned(),
        )?;
        first += own;
        workers.push(worker);
    }
    let spawn = |(index, worker): (usize, Worker)| {
        let run = Arc::clone(run);
        thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || {
                let outcome = worker.run();
                run.counters[index].done.store(true, Ordering::Release);
                outcome
            })
            .map_err(LoadError::system("thread"))
    };
    workers.into_iter().enumerate().map(spawn).collect()
}

/// Waits for the threads, tells the progress, and notices a server that is gone; returns when it
/// was, and whether the run was ended from outside.
fn watch(
    run: &RunState,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> (Option<u64>, bool) {
    let sum = |of: fn(&Counters) -> u64| run.counters.iter().map(of).sum::<u64>();
    let mut before = (0, 0, Instant::now());
    let (mut refused, mut refused_ns) = (0, 0);
    while !run
        .counters
        .iter()
        .all(|counters| counters.done.load(Ordering::Acquire))
    {
        if stop.load(Ordering::Relaxed) {
            run.stop.store(true, Ordering::Relaxed);
            return (None, true);
        }
        let now = run.now_ns();
        let refused_now = sum(|one| one.refused.load(Ordering::Relaxed));
        if refused_now > refused {
            refused_ns = now;
        }
        refused = refused_now;
        let answered = run
            .counters
            .iter()
            .map(|one| one.answered_ns.load(Ordering::Relaxed));
        let answered_ns = answered.max().unwrap_or(0);
        let refuses = refused_ns > answered_ns && now.saturating_sub(refused_ns) < RECENT_NS;
        if refuses && now.saturating_sub(answered_ns) > GONE_NS {
            run.stop.store(true, Ordering::Relaxed);
            return (Some(answered_ns), false);
        }
        let since = before.2.elapsed();
        if since >= TELL {
            let requests = sum(|one| one.requests.load(Ordering::Relaxed));
            let response_ns = sum(|one| one.response_sum_ns.load(Ordering::Relaxed));
            let lags = run
                .counters
                .iter()
                .map(|one| one.lag_max_ns.swap(0, Ordering::Relaxed));
            let more = requests.saturating_sub(before.0);
            let more_ns = response_ns.saturating_sub(before.1);
            progress(&Progress {
                elapsed_s: now as f64 / 1e9,
                warming_up: now < run.window_begin_ns,
                requests,
                requests_per_s: more as f64 / since.as_secs_f64(),
                response_us: if more == 0 {
                    0.0
                } else {
                    more_ns as f64 / 1000.0 / more as f64
                },
                errors: sum(|one| one.faults.load(Ordering::Relaxed)),
                lag_max_us: lags.max().unwrap_or(0) as f64 / 1000.0,
            });
            before = (requests, response_ns, Instant::now());
        }
        thread::sleep(LOOK);
    }
    (None, false)
}

/// What the threads found, or the first that failed.
fn collect(
    workers: Vec<JoinHandle<Result<Outcome, LoadError>>>,
) -> Result<Vec<Outcome>, LoadError> {
    let lost = || LoadError::System {
        action: "thread",
        source: std::io::Error::other("ended by itself"),
    };
    let ended: Vec<_> = workers.into_iter().map(JoinHandle::join).collect();
    ended
        .into_iter()
        .map(|outcome| outcome.map_err(|_| lost())?)
        .collect()
}
