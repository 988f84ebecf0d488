//! `load http`: sends requests to a web server and measures the responses.
//!
//! [`run`] starts the threads and returns the report. `spec` has its options. `sessions` turns
//! its workload into requests, and `schedule` computes arrival times. `worker` is the loop of a
//! thread, and `exchange` handles a request and its response. `counts` are the counts of one
//! thread, and `report` adds them up.

mod application;
mod arrivals;
mod connection;
mod counts;
mod errors;
mod exchange;
pub(crate) mod log;
mod notes;
mod pages;
pub(crate) mod paths;
mod report;
mod request;
mod request_log;
mod run_state;
mod schedule;
mod session;
mod sessions;
mod shard;
mod spec;
mod target;
mod thread_result;
mod tls;
mod worker;
mod workload;

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use perpacket_http::date::format_date;

pub use arrivals::{Arrivals, Process, Speed};
pub use errors::RequestError;
pub use pages::PageReport;
pub use report::{Histograms, LatencyPair, Report, TraceReport, Window};
pub use shard::Shard;
pub use spec::{Check, RequestsPerConnection, Spec, TlsVersion, Version};
pub use target::Target;
pub use workload::{Spread, Workload, WorkloadName};

use crate::error::LoadError;
use crate::limits;
use report::RunResult;
use request::RequestWriter;
use request_log::RequestLog;
use run_state::{Counters, NEVER, RunState};
use sessions::Plan;
use thread_result::ThreadResult;
use worker::Worker;

/// How often the main thread checks the others.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The run ends when the server refuses connections and has answered nothing for this long.
const GONE_NS: u64 = 1_000_000_000;
/// The server counts as refusing connections until this long after the last refusal.
const RECENT_NS: u64 = 400_000_000;

/// Progress of a run, once a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Whether the warm-up still runs.
    pub warming_up: bool,
    /// Responses in the window.
    pub requests: u64,
    /// Responses per second, over the last second.
    pub requests_per_s: f64,
    /// Mean response time over the last second, in microseconds.
    pub response_us: f64,
    /// Failed requests so far.
    pub errors: u64,
    /// Largest schedule lag of the last second, in microseconds.
    pub lag_max_us: f64,
}

/// Runs a load until its window or its workload ends, the server is gone, or `stop` becomes true.
/// In each case the report has the measurements so far.
///
/// # Errors
/// A limit of the machine is too low, or the server does not
/// accept a connection before the start.
pub fn run(
    spec: Spec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    let target = Target::parse(spec.url())?;
    let prefix = target.path.trim_end_matches('/').to_owned();
    let plan = Plan::new(&spec, &prefix, &target.path)?;
    let address = target.resolve()?;
    let connections = spec.shard().share(spec.connections().into());
    limits::ensure_descriptors(connections)?;
    limits::check_ports(connections, &spec.sources(), address)?;
    let connector = match target.tls {
        true => Some(tls::Connector::new(&target, &spec)?),
        false => None,
    };
    target::probe(address)?;
    let log = spec
        .request_log
        .as_deref()
        .map(RequestLog::create)
        .transpose()?;
    let threads = threads(&spec);
    let writer = RequestWriter::new(
        Arc::clone(&plan.paths),
        &prefix,
        &target.authority,
        spec.http,
        &spec.header,
    );
    let window_begin_ns = spec.window.warmup().as_nanos() as u64;
    let window_end_ns = spec.window.duration().map_or(NEVER, |duration| {
        window_begin_ns.saturating_add(duration.as_nanos() as u64)
    });
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let run = Arc::new(RunState {
        spec,
        address,
        writer,
        connector,
        application: plan.application.as_ref().cloned(),
        epoch: Instant::now(),
        window_begin_ns,
        window_end_ns,
        today: format_date(unix.as_secs() as i64),
        stop: AtomicBool::new(false),
        counters: (0..threads).map(|_| Counters::default()).collect(),
    });
    let workers = start(&run, &plan, threads, connections as usize, log.as_ref())?;
    let (server_gone_ns, interrupted) = watch(&run, stop, progress);
    let results = collect(workers)?;
    let trace = plan.log.as_ref().map(|log| TraceReport {
        requests: log.requests() as u64,
        sessions: log.sessions() as u64,
        skipped: log.skipped,
        rejected: log.rejected,
        rejected_lines: log.rejected_lines.clone(),
        begun: results.iter().map(|result| result.begun).sum(),
    });
    let result = RunResult {
        results,
        threads,
        window_begin_ns,
        window_begin_unix_s: unix.as_secs_f64() + window_begin_ns as f64 / 1e9,
        trace,
        server_gone_ns,
        interrupted,
    };
    let names = plan
        .application
        .as_ref()
        .map(|application| application.names());
    Ok(Report::new(&run.spec, result, names))
}

/// Number of threads of a load.
fn threads(spec: &Spec) -> u32 {
    let machine = thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = match (spec.threads, spec.runs_on.list().len()) {
        (Some(threads), _) => threads.count(),
        (None, 0) => machine,
        (None, cpus) => cpus,
    };
    wanted.min(spec.shard().share(spec.connections().into()) as usize) as u32
}

/// Starts the threads, each with its share of the connections.
fn start(
    run: &Arc<RunState>,
    plan: &Plan,
    threads: u32,
    connections: usize,
    log: Option<&RequestLog>,
) -> Result<Vec<JoinHandle<Result<ThreadResult, LoadError>>>, LoadError> {
    let mut workers = Vec::new();
    let mut first = 0;
    for index in 0..threads {
        let own = Shard {
            index,
            shards: threads,
        }
        .share(connections as u64) as usize;
        let sessions = plan.thread_sessions(index, threads)?;
        let worker = Worker::new(
            Arc::clone(run),
            index as usize,
            threads,
            first,
            own,
            sessions,
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
                let result = worker.run();
                run.counters[index].done.store(true, Ordering::Release);
                result
            })
            .map_err(LoadError::system("thread"))
    };
    workers.into_iter().enumerate().map(spawn).collect()
}

/// Waits for the threads and reports progress. Returns the time at which the server disappeared, if
/// it did, and whether `stop` ended the run.
fn watch(
    run: &RunState,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> (Option<u64>, bool) {
    let sum = |counter: fn(&Counters) -> u64| run.counters.iter().map(counter).sum::<u64>();
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
        let refused_now = sum(|thread| thread.refused.load(Ordering::Relaxed));
        if refused_now > refused {
            refused_ns = now;
        }
        refused = refused_now;
        let answered = run
            .counters
            .iter()
            .map(|thread| thread.answered_ns.load(Ordering::Relaxed));
        let answered_ns = answered.max().unwrap_or(0);
        let refuses = refused_ns > answered_ns && now.saturating_sub(refused_ns) < RECENT_NS;
        if refuses && now.saturating_sub(answered_ns) > GONE_NS {
            run.stop.store(true, Ordering::Relaxed);
            return (Some(answered_ns), false);
        }
        let since = before.2.elapsed();
        if since >= PROGRESS_INTERVAL {
            let requests = sum(|thread| thread.requests.load(Ordering::Relaxed));
            let response_ns = sum(|thread| thread.response_sum_ns.load(Ordering::Relaxed));
            let lags = run
                .counters
                .iter()
                .map(|thread| thread.lag_max_ns.swap(0, Ordering::Relaxed));
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
                errors: sum(|thread| thread.errors.load(Ordering::Relaxed)),
                lag_max_us: lags.max().unwrap_or(0) as f64 / 1000.0,
            });
            before = (requests, response_ns, Instant::now());
        }
        thread::sleep(CHECK_INTERVAL);
    }
    (None, false)
}

/// The results of all threads, or the first error.
fn collect(
    workers: Vec<JoinHandle<Result<ThreadResult, LoadError>>>,
) -> Result<Vec<ThreadResult>, LoadError> {
    let lost = || LoadError::System {
        action: "thread",
        source: std::io::Error::other("panicked"),
    };
    let ended: Vec<_> = workers.into_iter().map(JoinHandle::join).collect();
    ended
        .into_iter()
        .map(|result| result.map_err(|_| lost())?)
        .collect()
}
