//! The far end of a bulk load: takes what comes, or sends what it is asked for.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::{Resource, getrlimit};

use super::flow::Flow;
use super::pump::{Errors, Pump, socket, thread_cpu_ns};
use super::report::{FarEndReport, SCHEMA};
use super::settings::FarEnd;
use crate::error::LoadError;
use crate::limits;

/// Connections that may wait to be taken.
const BACKLOG: i32 = 16_384;
/// Most connections of one thread.
const CAPACITY: u64 = 262_144;
/// Descriptors kept for everything else.
const RESERVED: u64 = 64;

/// What the threads of a far end share.
#[derive(Default)]
struct Shared {
    accepted: AtomicU64,
    open: AtomicU64,
}

/// What a thread of a far end did.
struct Outcome {
    bytes: u64,
    bytes_sent: u64,
    connections: u64,
    cpu_ns: u64,
    errors: Errors,
}

/// Serves until `stop` becomes true, or, with `once`, until all connections it had have closed.
/// `listening` is told the address.
///
/// # Errors
/// The address cannot be had, or the machine allows too little.
pub fn serve(
    settings: &FarEnd,
    stop: &AtomicBool,
    listening: &mut dyn FnMut(SocketAddr),
) -> Result<FarEndReport, LoadError> {
    // As many as the hard limit allows: who connects decides how many are needed.
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(CAPACITY);
    limits::ensure_descriptors(hard.saturating_sub(RESERVED).min(CAPACITY))?;
    let threads = settings.cpus.len().max(1);
    let mut listeners = Vec::new();
    let mut address = settings.listen;
    for _ in 0..threads {
        let listener = listen(address, threads > 1, settings.congestion.as_deref())?;
        address = listener.local_addr().map_err(LoadError::system("listen"))?;
        listeners.push(listener);
    }
    listening(address);
    let begun = Instant::now();
    let shared = Shared::default();
    let capacity = hard.min(CAPACITY) as usize;
    let outcomes = thread::scope(|scope| {
        let spawn = |(index, listener)| {
            let shared = &shared;
            scope.spawn(move || {
                if let Some(cpu) = settings.cpus.get(index) {
                    limits::pin(*cpu)?;
                }
                serve_thread(listener, capacity, settings.once, stop, shared)
            })
        };
        let workers: Vec<_> = listeners.into_iter().enumerate().map(spawn).collect();
        workers
            .into_iter()
            .map(|worker| worker.join())
            .collect::<Vec<_>>()
    });
    let mut report = FarEndReport {
        schema: SCHEMA,
        listened: address.to_string(),
        connections: 0,
        bytes: 0,
        bytes_sent: 0,
        duration_s: 0.0,
        cpu_s: 0.0,
        errors: Errors::new(),
    };
    for outcome in outcomes {
        let outcome = outcome.map_err(|_| LoadError::System {
            action: "thread",
            source: std::io::Error::other("ended by itself"),
        })??;
        report.bytes += outcome.bytes;
        report.bytes_sent += outcome.bytes_sent;
        report.connections += outcome.connections;
        report.cpu_s += outcome.cpu_ns as f64 / 1e9;
        for (kind, count) in outcome.errors {
            *report.errors.entry(kind).or_default() += count;
        }
    }
    report.duration_s = begun.elapsed().as_secs_f64();
    Ok(report)
}

fn serve_thread(
    listener: TcpListener,
    capacity: usize,
    once: bool,
    stop: &AtomicBool,
    shared: &Shared,
) -> Result<Outcome, LoadError> {
    Pump::prepare_thread()?;
    let mut pump = Pump::new(Instant::now(), capacity, Some(listener))?;
    let (mut accepted, mut open) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        pump.turn()?;
        let now_open = pump.open() as u64;
        shared
            .open
            .fetch_add(now_open.wrapping_sub(open), Ordering::Relaxed);
        shared
            .accepted
            .fetch_add(pump.accepted - accepted, Ordering::Relaxed);
        (accepted, open) = (pump.accepted, now_open);
        let had = shared.accepted.load(Ordering::Relaxed) > 0;
        if once && had && shared.open.load(Ordering::Relaxed) == 0 {
            break;
        }
    }
    let open = |of: fn(&Flow) -> u64| pump.flows.iter().flatten().map(of).sum::<u64>();
    Ok(Outcome {
        bytes: pump.closed_bytes + open(|flow| flow.received_bytes),
        bytes_sent: pump.closed_sent_bytes + open(|flow| flow.sent_bytes),
        connections: pump.accepted,
        cpu_ns: thread_cpu_ns(),
        errors: pump.errors,
    })
}

fn listen(
    address: SocketAddr,
    shares: bool,
    congestion: Option<&str>,
) -> Result<TcpListener, LoadError> {
    let failed = |source| LoadError::Unreachable {
        address: address.to_string(),
        source,
    };
    let socket = socket(address, None, congestion)?;
    socket.set_reuse_address(true).map_err(failed)?;
    if shares {
        rustix::net::sockopt::set_socket_reuseport(&socket, true)
            .map_err(|error| failed(error.into()))?;
    }
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    Ok(socket.into())
}
