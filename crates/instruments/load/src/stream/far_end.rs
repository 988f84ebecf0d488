//! The far end of a bulk load. It receives, or sends if the near end requests it.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use perpacket_linux::clock::thread_cpu_ns;
use perpacket_linux::descriptors;

use super::event_loop::{Errors, EventLoop, socket};
use super::flow::Flow;
use super::report::{FarEndReport, SCHEMA};
use super::spec::Spec;
use crate::error::LoadError;
use crate::limits;

/// Backlog of the listener.
const BACKLOG: i32 = 16_384;
/// Maximum number of connections of one thread.
const CAPACITY: u64 = 262_144;

/// The state that the threads of a far end share.
#[derive(Default)]
struct Shared {
    accepted: AtomicU64,
    open: AtomicU64,
}

struct ThreadResult {
    bytes: u64,
    bytes_sent: u64,
    connections: u64,
    cpu_ns: u64,
    errors: Errors,
}

/// Serves until `stop` becomes true, or, with `once`, until all its connections have closed. Calls
/// `listening` with the address.
///
/// # Errors
/// Listening at the address fails, or a thread fails.
pub fn serve(
    spec: &Spec,
    stop: &AtomicBool,
    listening: &mut dyn FnMut(SocketAddr),
) -> Result<FarEndReport, LoadError> {
    // The near end decides the number of connections.
    let capacity = descriptors::raise(CAPACITY).min(CAPACITY) as usize;
    let threads = spec.runs_on.list().len().max(1);
    let mut listeners = Vec::new();
    let mut address = spec.address()?;
    for _ in 0..threads {
        let listener = listen(address, threads > 1, spec.congestion.as_deref())?;
        address = listener.local_addr().map_err(LoadError::system("listen"))?;
        listeners.push(listener);
    }
    listening(address);
    let begun = Instant::now();
    let shared = Shared::default();
    let results = thread::scope(|scope| {
        let spawn = |(index, listener)| {
            let shared = &shared;
            scope.spawn(move || {
                if let Some(cpu) = spec.runs_on.list().get(index) {
                    limits::pin(*cpu)?;
                }
                serve_thread(listener, capacity, spec.once, stop, shared)
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
    for result in results {
        let result = result.map_err(|_| LoadError::System {
            action: "thread",
            source: std::io::Error::other("ended by itself"),
        })??;
        report.bytes += result.bytes;
        report.bytes_sent += result.bytes_sent;
        report.connections += result.connections;
        report.cpu_s += result.cpu_ns as f64 / 1e9;
        for (kind, count) in result.errors {
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
) -> Result<ThreadResult, LoadError> {
    EventLoop::prepare_thread()?;
    let mut event_loop = EventLoop::new(Instant::now(), capacity, Some(listener))?;
    let (mut accepted, mut open) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        event_loop.run_once()?;
        let now_open = event_loop.open() as u64;
        shared
            .open
            .fetch_add(now_open.wrapping_sub(open), Ordering::Relaxed);
        shared
            .accepted
            .fetch_add(event_loop.accepted - accepted, Ordering::Relaxed);
        (accepted, open) = (event_loop.accepted, now_open);
        let had = shared.accepted.load(Ordering::Relaxed) > 0;
        if once && had && shared.open.load(Ordering::Relaxed) == 0 {
            break;
        }
    }
    let open = |count: fn(&Flow) -> u64| event_loop.flows.iter().flatten().map(count).sum::<u64>();
    Ok(ThreadResult {
        bytes: event_loop.closed_bytes + open(|flow| flow.received_bytes),
        bytes_sent: event_loop.closed_sent_bytes + open(|flow| flow.sent_bytes),
        connections: event_loop.accepted,
        cpu_ns: thread_cpu_ns(),
        errors: event_loop.errors,
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
