//! `load stream`: bulk TCP on many connections, and its far end.
//!
//! The machine under test runs [`run`]; the far end, [`serve`], takes the bytes or sends them. Every
//! connection begins with a greeting that says which. A segment is one write with nothing held back
//! and a maximum segment size to match, so that segments have the size that was asked for. Segments
//! larger than the path can carry are cut by the kernel; the report tells what it made of them.

mod far_end;
mod flow;
mod greeting;
mod pump;
mod report;
mod settings;

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use far_end::serve;
pub use report::{FarEndReport, Report, RoundTrip};
pub use settings::{Direction, FarEnd, Settings};

use perpacket_linux::tcp::TcpInfo;

use crate::error::LoadError;
use crate::http::Part;
use crate::latency::Latency;
use crate::limits;
use flow::Role;
use greeting::Greeting;
use pump::{Errors, Pump, thread_cpu_ns};
use report::SCHEMA;

/// Connection attempts under way at a time, a thread: more would overflow a listener's queue.
const CONNECTING: u32 = 128;
/// How long all connections may take to open.
const OPENING: Duration = Duration::from_secs(60);
/// How often round-trip times are sampled, and of how many connections of a thread at most.
const SAMPLE_NS: u64 = 100_000_000;
const SAMPLED: usize = 256;
/// How often progress is told.
const TELL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);
/// More threads than this are of no use.
const MOST_THREADS: u32 = 4096;
/// The window has not begun.
const NOT_YET: u64 = u64::MAX;

/// How a run is going: once a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the connections were open, in seconds.
    pub elapsed_s: f64,
    /// Connections that are open.
    pub open: u32,
    /// Connections that broke.
    pub errors: u64,
}

/// What the threads share.
struct Shared {
    ready: AtomicU32,
    begin_ns: AtomicU64,
    stop: AtomicBool,
    open: Vec<AtomicU32>,
    errors: Vec<AtomicU64>,
    done: AtomicU32,
}

/// What a thread found.
struct Outcome {
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
/// The settings are contradictory, the machine allows too little, or nobody answers at the start.
pub fn run(
    settings: &Settings,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    settings.check()?;
    limits::ensure_descriptors(settings.connections.into())?;
    limits::check_ports(settings.connections.into(), &settings.sources, settings.to)?;
    let threads = threads(settings);
    let shared = Shared {
        ready: AtomicU32::new(0),
        begin_ns: AtomicU64::new(NOT_YET),
        stop: AtomicBool::new(false),
        open: (0..threads).map(|_| AtomicU32::new(0)).collect(),
        errors: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        done: AtomicU32::new(0),
    };
    let epoch = Instant::now();
    let outcomes = thread::scope(|scope| {
        let spawn = |index: u32| {
            let shared = &shared;
            scope.spawn(move || {
                let outcome = run_thread(settings, index, threads, epoch, shared);
                if outcome.is_err() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                shared.done.fetch_add(1, Ordering::Release);
                outcome
            })
        };
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        watch(settings, &shared, threads, epoch, stop, progress);
        workers
            .into_iter()
            .map(|worker| worker.join())
            .collect::<Vec<_>>()
    });
    let mut found = Vec::new();
    for outcome in outcomes {
        found.push(outcome.map_err(|_| LoadError::System {
            action: "thread",
            source: io::Error::other("ended by itself"),
        })??);
    }
    summarize(settings, found, threads, stop.load(Ordering::Relaxed))
}

/// How many threads a load runs on this machine.
#[must_use]
pub fn threads(settings: &Settings) -> u32 {
    let machine = thread::available_parallelism().map_or(1, NonZero::get) as u32;
    let wanted = match settings.cpus.len() as u32 {
        0 => settings.threads.unwrap_or(machine),
        cpus => cpus,
    };
    wanted.min(settings.connections).min(MOST_THREADS)
}

/// Begins the window once all threads are ready, and tells the progress.
fn watch(
    settings: &Settings,
    shared: &Shared,
    threads: u32,
    epoch: Instant,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) {
    let mut told = Instant::now();
    while shared.done.load(Ordering::Acquire) < threads {
        if stop.load(Ordering::Relaxed) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let now_ns = epoch.elapsed().as_nanos() as u64;
        let begin_ns = shared.begin_ns.load(Ordering::Relaxed);
        if begin_ns == NOT_YET && shared.ready.load(Ordering::Acquire) == threads {
            let begin_ns = now_ns + settings.warmup.as_nanos() as u64;
            shared.begin_ns.store(begin_ns, Ordering::Release);
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
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
        thread::sleep(LOOK);
    }
}

fn run_thread(
    settings: &Settings,
    index: u32,
    threads: u32,
    epoch: Instant,
    shared: &Shared,
) -> Result<Outcome, LoadError> {
    if let Some(cpu) = settings.cpus.get(index as usize) {
        limits::pin(*cpu)?;
    }
    Pump::prepare_thread()?;
    let part = Part {
        index,
        parts: threads,
    };
    let own = part.share(settings.connections.into()) as usize;
    let mut pump = Pump::new(epoch, own, None)?;
    open_all(settings, &mut pump, own, part, shared)?;
    let first = pump.flows.iter().flatten().next();
    let congestion = first.and_then(|flow| rustix::net::sockopt::tcp_congestion(&flow.stream).ok());
    shared.ready.fetch_add(1, Ordering::Release);
    while shared.begin_ns.load(Ordering::Acquire) == NOT_YET {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        pump.turn()?;
    }
    begin_all(settings, &mut pump);
    let begin_ns = shared.begin_ns.load(Ordering::Acquire);
    measure(settings, pump, begin_ns, index, shared, congestion)
}

/// Opens a thread's connections, some at a time.
fn open_all(
    settings: &Settings,
    pump: &mut Pump,
    own: usize,
    part: Part,
    shared: &Shared,
) -> Result<(), LoadError> {
    let begun = Instant::now();
    let mut opened = 0;
    while opened < own || pump.connecting > 0 {
        while opened < own && pump.connecting < CONNECTING {
            let socket = pump::socket(
                settings.to,
                Some(settings.segment_bytes),
                settings.congestion.as_deref(),
            )?;
            let number = opened * part.parts as usize + part.index as usize;
            if let Some(from) = settings.sources.address(number) {
                socket
                    .bind(&std::net::SocketAddr::new(from, 0).into())
                    .map_err(LoadError::system("binding to a source address"))?;
            }
            let unreachable = |source| LoadError::Unreachable {
                address: settings.to.to_string(),
                source,
            };
            match socket.connect(&settings.to.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                    return Err(unreachable(error));
                }
                _ => pump
                    .add(socket.into(), Role::Waiting)
                    .map_err(unreachable)?,
            }
            opened += 1;
        }
        pump.turn()?;
        if let Some(source) = pump.first_error.take() {
            return Err(LoadError::Unreachable {
                address: settings.to.to_string(),
                source,
            });
        }
        if begun.elapsed() > OPENING {
            return Err(LoadError::Unreachable {
                address: settings.to.to_string(),
                source: io::ErrorKind::TimedOut.into(),
            });
        }
        if shared.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    Ok(())
}

/// Greets the far end on all connections, and sets them going, spread over a gap.
fn begin_all(settings: &Settings, pump: &mut Pump) {
    let sends = settings.direction == Direction::Send;
    let greeting = Greeting {
        far_end_sends: !sends,
        segment_bytes: settings.segment_bytes,
        rate_bps: settings
            .rate_bps
            .map_or(0.0, |rate| rate / f64::from(settings.connections)),
    };
    let count = pump.flows.len();
    for place in 0..count {
        let greeted = match &mut pump.flows[place] {
            Some(flow) => io::Write::write_all(&mut flow.stream, &greeting.encode()),
            None => continue,
        };
        if greeted.is_err() {
            pump.count("reset");
            continue;
        }
        pump.begin(place as u32, sends, greeting, place as f64 / count as f64);
    }
}

/// Runs the warm-up and the window.
fn measure(
    settings: &Settings,
    mut pump: Pump,
    begin_ns: u64,
    index: u32,
    shared: &Shared,
    congestion: Option<String>,
) -> Result<Outcome, LoadError> {
    let end_ns = begin_ns.saturating_add(settings.duration.as_nanos() as u64);
    let is_over = |now: u64, end: u64| now >= end || shared.stop.load(Ordering::Relaxed);
    while !is_over(pump.now(), begin_ns) {
        pump.turn()?;
    }
    for flow in pump.flows.iter_mut().flatten() {
        flow.before = TcpInfo::of(&flow.stream).map_err(LoadError::system("TCP_INFO"))?;
        flow.received_before = flow.received_bytes;
    }
    let (begun_ns, cpu_ns) = (pump.now(), thread_cpu_ns());
    let mut rtt = Latency::new()?;
    let mut sample_ns = begun_ns;
    let mut now = begun_ns;
    while !is_over(now, end_ns) && pump.open() > 0 {
        pump.turn()?;
        now = pump.now();
        if now >= sample_ns {
            sample_ns = now + SAMPLE_NS;
            shared.open[index as usize].store(pump.open() as u32, Ordering::Relaxed);
            shared.errors[index as usize].store(pump.errors.values().sum(), Ordering::Relaxed);
            for flow in pump.flows.iter().flatten().take(SAMPLED) {
                let info = TcpInfo::of(&flow.stream).map_err(LoadError::system("TCP_INFO"))?;
                rtt.record(u64::from(info.rtt_us) * 1000);
            }
        }
    }
    let cpu_ns = thread_cpu_ns() - cpu_ns;
    let mut outcome = Outcome {
        bytes: 0,
        segments: 0,
        retransmissions: 0,
        segment_sizes: Vec::new(),
        rtt,
        cpu_ns,
        window_ns: now.saturating_sub(begun_ns),
        congestion,
        open: pump.open() as u64,
        errors: Errors::new(),
        first_error: None,
    };
    for flow in pump.flows.iter().flatten() {
        let info = TcpInfo::of(&flow.stream).map_err(LoadError::system("TCP_INFO"))?;
        let difference = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        outcome.retransmissions += difference(info.retransmitted, flow.before.retransmitted);
        outcome.segment_sizes.push(info.segment_bytes);
        if settings.direction == Direction::Send {
            outcome.bytes += info.acknowledged_bytes - flow.before.acknowledged_bytes;
            outcome.segments += difference(info.segments_out, flow.before.segments_out);
        } else {
            outcome.bytes += flow.received_bytes - flow.received_before;
            outcome.segments += difference(info.segments_in, flow.before.segments_in);
        }
    }
    outcome.errors = core::mem::take(&mut pump.errors);
    outcome.first_error = pump.first_error.take();
    Ok(outcome)
}

/// One report from all threads'.
fn summarize(
    settings: &Settings,
    found: Vec<Outcome>,
    threads: u32,
    interrupted: bool,
) -> Result<Report, LoadError> {
    let mut rtt = Latency::new()?;
    let mut errors = Errors::new();
    let mut sizes = Vec::new();
    let mut notes = Vec::new();
    for outcome in &found {
        rtt.add(&outcome.rtt);
        for (kind, count) in &outcome.errors {
            *errors.entry(*kind).or_default() += count;
        }
        sizes.extend_from_slice(&outcome.segment_sizes);
        if let Some(error) = &outcome.first_error {
            notes.push(format!("first broken connection: {error}"));
        }
    }
    sizes.sort_unstable();
    let kernel_segment_bytes = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    if kernel_segment_bytes != settings.segment_bytes && !sizes.is_empty() {
        notes.push(format!(
            "the kernel's segments hold {kernel_segment_bytes} bytes: the path, or the kernel's \
             limits, allow none of {}",
            settings.segment_bytes
        ));
    }
    let sum = |of: fn(&Outcome) -> u64| found.iter().map(of).sum::<u64>();
    let window_ns = found
        .iter()
        .map(|outcome| outcome.window_ns)
        .max()
        .unwrap_or(0);
    let duration_s = window_ns as f64 / 1e9;
    let (bytes, segments) = (sum(|one| one.bytes), sum(|one| one.segments));
    let cpu_s = sum(|one| one.cpu_ns) as f64 / 1e9;
    Ok(Report {
        schema: SCHEMA,
        connections: settings.connections,
        direction: settings.direction.name(),
        segment_bytes: settings.segment_bytes,
        kernel_segment_bytes,
        rate_bps: settings.rate_bps,
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
        retransmissions: sum(|one| one.retransmissions),
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
        congestion_control: found
            .iter()
            .find_map(|one| one.congestion.clone())
            .unwrap_or_default(),
        connections_open: sum(|one| one.open),
        errors,
        interrupted,
        notes,
    })
}
