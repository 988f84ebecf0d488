//! `load stream`: bulk TCP on many connections, and its far end.
//!
//! The machine under test runs [`run`]. The far end runs [`serve`]. The first bytes of each
//! connection are a greeting, which selects whether the far end receives or sends. A segment is one
//! write without Nagle delay, and the maximum segment size is set to the size of that write. The
//! kernel divides segments that are too large for the path; the report prints the resulting size.

mod event_loop;
mod far_end;
mod flow;
mod greeting;
mod report;
mod spec;

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use far_end::serve;
pub use report::{FarEndReport, Report, RoundTrip};
pub use spec::{Direction, Spec};

use perpacket_linux::clock::thread_cpu_ns;
use perpacket_linux::tcp::TcpInfo;
use perpacket_spec::Whole;

use crate::error::LoadError;
use crate::http::Shard;
use crate::latency::Latency;
use crate::limits;
use event_loop::{Errors, EventLoop};
use flow::Role;
use greeting::Greeting;
use report::SCHEMA;

/// Simultaneous connection attempts per thread: more could overflow the backlog of the listener.
const CONNECTING: u32 = 128;
/// Time-out for opening all connections.
const OPENING: Duration = Duration::from_secs(60);
/// Interval of round-trip time samples, and the maximum number of sampled connections per thread.
const SAMPLE_NS: u64 = 100_000_000;
const SAMPLED: usize = 256;
/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum number of threads.
const MAX_THREADS: u32 = 4096;
/// The start of a window that has not begun.
const NOT_YET: u64 = u64::MAX;

/// Progress of a run, once a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Open connections.
    pub open: u32,
    /// Broken connections.
    pub errors: u64,
}

/// The state that the threads share.
struct Shared {
    ready: AtomicU32,
    begin_ns: AtomicU64,
    stop: AtomicBool,
    open: Vec<AtomicU32>,
    errors: Vec<AtomicU64>,
    done: AtomicU32,
}

#[derive(Default)]
struct ThreadResult {
    bytes: u64,
    segments: u64,
    retransmissions: u64,
    segment_sizes: Vec<u32>,
    rtt: Latency,
    cpu_ns: u64,
    window_ns: u64,
    congestion: Option<String>,
    errors: Errors,
    open: u64,
    first_error: Option<io::Error>,
}

/// Runs a bulk load until its window ends or `stop` becomes true.
///
/// # Errors
/// A limit of the machine is too low, or connecting fails.
pub fn run(
    spec: &Spec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    let connections = spec.connections().into();
    let far = spec.address()?;
    limits::ensure_descriptors(connections)?;
    limits::check_ports(connections, &spec.source.unwrap_or_default(), far)?;
    let threads = threads(spec);
    let shared = Shared {
        ready: AtomicU32::new(0),
        begin_ns: AtomicU64::new(NOT_YET),
        stop: AtomicBool::new(false),
        open: (0..threads).map(|_| AtomicU32::new(0)).collect(),
        errors: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        done: AtomicU32::new(0),
    };
    let epoch = Instant::now();
    let results = thread::scope(|scope| {
        let spawn = |index: u32| {
            let shared = &shared;
            scope.spawn(move || {
                let result = run_thread(spec, index, threads, epoch, shared);
                if result.is_err() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                shared.done.fetch_add(1, Ordering::Release);
                result
            })
        };
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        watch(spec, &shared, threads, epoch, stop, progress);
        workers
            .into_iter()
            .map(|worker| worker.join())
            .collect::<Vec<_>>()
    });
    let mut checked = Vec::new();
    for result in results {
        checked.push(result.map_err(|_| LoadError::System {
            action: "thread",
            source: io::Error::other("panicked"),
        })??);
    }
    summarize(spec, checked, threads, stop.load(Ordering::Relaxed))
}

/// Number of threads of a load on this machine.
fn threads(spec: &Spec) -> u32 {
    let machine = thread::available_parallelism().map_or(1, NonZero::get) as u32;
    let wanted = match spec.runs_on.list().len() as u32 {
        0 => spec.threads.map_or(machine, Whole::get),
        cpus => cpus,
    };
    wanted.min(spec.connections()).min(MAX_THREADS)
}

/// Begins the window once all threads are ready, and reports progress.
fn watch(
    spec: &Spec,
    shared: &Shared,
    threads: u32,
    epoch: Instant,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) {
    let mut reported = Instant::now();
    while shared.done.load(Ordering::Acquire) < threads {
        if stop.load(Ordering::Relaxed) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let now_ns = epoch.elapsed().as_nanos() as u64;
        let begin_ns = shared.begin_ns.load(Ordering::Relaxed);
        if begin_ns == NOT_YET && shared.ready.load(Ordering::Acquire) == threads {
            let begin_ns = now_ns + spec.window.warmup().as_nanos() as u64;
            shared.begin_ns.store(begin_ns, Ordering::Release);
        }
        if reported.elapsed() >= PROGRESS_INTERVAL {
            reported = Instant::now();
            progress(&Progress {
                elapsed_s: now_ns as f64 / 1e9,
                open: shared
                    .open
                    .iter()
                    .map(|open| open.load(Ordering::Relaxed))
                    .sum(),
                errors: shared
                    .errors
                    .iter()
                    .map(|errors| errors.load(Ordering::Relaxed))
                    .sum(),
            });
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

fn run_thread(
    spec: &Spec,
    index: u32,
    threads: u32,
    epoch: Instant,
    shared: &Shared,
) -> Result<ThreadResult, LoadError> {
    if let Some(cpu) = spec.runs_on.list().get(index as usize) {
        limits::pin(*cpu)?;
    }
    EventLoop::prepare_thread()?;
    let shard = Shard {
        index,
        shards: threads,
    };
    let own = shard.share(spec.connections().into()) as usize;
    let mut event_loop = EventLoop::new(epoch, own, None)?;
    open_all(spec, &mut event_loop, own, shard, shared)?;
    let first = event_loop.flows.iter().flatten().next();
    let congestion = first.and_then(|flow| rustix::net::sockopt::tcp_congestion(&flow.stream).ok());
    shared.ready.fetch_add(1, Ordering::Release);
    while shared.begin_ns.load(Ordering::Acquire) == NOT_YET {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        event_loop.run_once()?;
    }
    begin_all(spec, &mut event_loop);
    let begin_ns = shared.begin_ns.load(Ordering::Acquire);
    measure(spec, event_loop, begin_ns, index, shared, congestion)
}

/// Opens the connections of a thread, some at a time.
fn open_all(
    spec: &Spec,
    event_loop: &mut EventLoop,
    own: usize,
    shard: Shard,
    shared: &Shared,
) -> Result<(), LoadError> {
    let far = spec.address()?;
    let begun = Instant::now();
    let mut opened = 0;
    while opened < own || event_loop.connecting > 0 {
        while opened < own && event_loop.connecting < CONNECTING {
            let socket =
                event_loop::socket(far, Some(spec.segment_bytes()), spec.congestion.as_deref())?;
            let number = opened * shard.shards as usize + shard.index as usize;
            if let Some(from) = spec.source.and_then(|range| range.address(number)) {
                socket
                    .bind(&std::net::SocketAddr::new(from, 0).into())
                    .map_err(LoadError::system("binding to a source address"))?;
            }
            let unreachable = |source| LoadError::Unreachable {
                address: far.to_string(),
                source,
            };
            match socket.connect(&far.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                    return Err(unreachable(error));
                }
                _ => event_loop
                    .add(socket.into(), Role::Waiting)
                    .map_err(unreachable)?,
            }
            opened += 1;
        }
        event_loop.run_once()?;
        if let Some(source) = event_loop.first_error.take() {
            return Err(LoadError::Unreachable {
                address: far.to_string(),
                source,
            });
        }
        if begun.elapsed() > OPENING {
            return Err(LoadError::Unreachable {
                address: far.to_string(),
                source: io::ErrorKind::TimedOut.into(),
            });
        }
        if shared.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    Ok(())
}

/// Sends the greeting on all connections and starts them. The starts are spread over one gap
/// between segments.
fn begin_all(spec: &Spec, event_loop: &mut EventLoop) {
    let sends = spec.direction() == Direction::Send;
    let greeting = Greeting {
        far_end_sends: !sends,
        segment_bytes: spec.segment_bytes(),
        rate_bps: spec
            .rate_bps()
            .map_or(0.0, |rate| rate / f64::from(spec.connections())),
    };
    let count = event_loop.flows.len();
    for slot in 0..count {
        let greeted = match &mut event_loop.flows[slot] {
            Some(flow) => io::Write::write_all(&mut flow.stream, &greeting.encode()),
            None => continue,
        };
        if greeted.is_err() {
            event_loop.count("reset");
            continue;
        }
        event_loop.begin(slot as u32, sends, greeting, slot as f64 / count as f64);
    }
}

/// Runs the warm-up and the window.
fn measure(
    spec: &Spec,
    mut event_loop: EventLoop,
    begin_ns: u64,
    index: u32,
    shared: &Shared,
    congestion: Option<String>,
) -> Result<ThreadResult, LoadError> {
    let end_ns =
        begin_ns.saturating_add(spec.window.duration().unwrap_or_default().as_nanos() as u64);
    let is_over = |now: u64, end: u64| now >= end || shared.stop.load(Ordering::Relaxed);
    while !is_over(event_loop.now(), begin_ns) {
        event_loop.run_once()?;
    }
    for flow in event_loop.flows.iter_mut().flatten() {
        flow.before = TcpInfo::of(&flow.stream).map_err(LoadError::system("TCP_INFO"))?;
        flow.received_before = flow.received_bytes;
    }
    let (begun_ns, cpu_ns) = (event_loop.now(), thread_cpu_ns());
    let mut rtt = Latency::default();
    let mut sample_ns = begun_ns;
    let mut now = begun_ns;
    while !is_over(now, end_ns) && event_loop.open() > 0 {
        event_loop.run_once()?;
        now = event_loop.now();
        if now >= sample_ns {
            sample_ns = now + SAMPLE_NS;
            shared.open[index as usize].store(event_loop.open() as u32, Ordering::Relaxed);
            shared.errors[index as usize]
                .store(event_loop.errors.values().sum(), Ordering::Relaxed);
            for flow in event_loop.flows.iter().flatten().take(SAMPLED) {
                let info = TcpInfo::of(&flow.stream).map_err(LoadError::system("TCP_INFO"))?;
                rtt.record(u64::from(info.rtt_us) * 1000);
            }
        }
    }
    let cpu_ns = thread_cpu_ns() - cpu_ns;
    let mut result = ThreadResult {
        rtt,
        cpu_ns,
        window_ns: now.saturating_sub(begun_ns),
        congestion,
        open: event_loop.open() as u64,
        errors: core::mem::take(&mut event_loop.errors),
        first_error: event_loop.first_error.take(),
        ..ThreadResult::default()
    };
    for flow in event_loop.flows.iter().flatten() {
        let info = TcpInfo::of(&flow.stream).map_err(LoadError::system("TCP_INFO"))?;
        let difference = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        result.retransmissions += difference(info.retransmitted, flow.before.retransmitted);
        result.segment_sizes.push(info.segment_bytes);
        if spec.direction() == Direction::Send {
            result.bytes += info.acknowledged_bytes - flow.before.acknowledged_bytes;
            result.segments += difference(info.segments_out, flow.before.segments_out);
        } else {
            result.bytes += flow.received_bytes - flow.received_before;
            result.segments += difference(info.segments_in, flow.before.segments_in);
        }
    }
    Ok(result)
}

/// The report of all threads.
fn summarize(
    spec: &Spec,
    results: Vec<ThreadResult>,
    threads: u32,
    interrupted: bool,
) -> Result<Report, LoadError> {
    let mut rtt = Latency::default();
    let mut errors = Errors::new();
    let mut sizes = Vec::new();
    let mut notes = Vec::new();
    for result in &results {
        rtt.add(&result.rtt);
        for (kind, count) in &result.errors {
            *errors.entry(*kind).or_default() += count;
        }
        sizes.extend_from_slice(&result.segment_sizes);
        if let Some(error) = &result.first_error {
            notes.push(format!("first broken connection: {error}"));
        }
    }
    sizes.sort_unstable();
    let kernel_segment_bytes = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    if kernel_segment_bytes != spec.segment_bytes() && !sizes.is_empty() {
        notes.push(format!(
            "segments have {kernel_segment_bytes} bytes: the path or the kernel does not allow {}",
            spec.segment_bytes()
        ));
    }
    let sum = |count: fn(&ThreadResult) -> u64| results.iter().map(count).sum::<u64>();
    let window_ns = results
        .iter()
        .map(|result| result.window_ns)
        .max()
        .unwrap_or(0);
    let duration_s = window_ns as f64 / 1e9;
    let (bytes, segments) = (sum(|thread| thread.bytes), sum(|thread| thread.segments));
    let cpu_s = sum(|thread| thread.cpu_ns) as f64 / 1e9;
    Ok(Report {
        schema: SCHEMA,
        connections: spec.connections(),
        direction: spec.direction().name(),
        segment_bytes: spec.segment_bytes(),
        kernel_segment_bytes,
        rate_bps: spec.rate_bps(),
        burst_us: flow::BURST_NS / 1000.0,
        threads,
        duration_s,
        bytes,
        goodput_bps: if duration_s > 0.0 {
            bytes as f64 * 8.0 / duration_s
        } else {
            0.0
        },
        segments,
        retransmissions: sum(|thread| thread.retransmissions),
        rtt_us: RoundTrip {
            p50: rtt.quantile_us(0.5),
            p99: rtt.quantile_us(0.99),
            max: rtt.quantile_us(1.0),
        },
        cpu_s,
        cpu_us_per_segment: if segments > 0 {
            cpu_s * 1e6 / segments as f64
        } else {
            0.0
        },
        congestion_control: results
            .iter()
            .find_map(|thread| thread.congestion.clone())
            .unwrap_or_default(),
        connections_open: sum(|thread| thread.open),
        errors,
        interrupted,
        notes,
    })
}
