//! Clients of an RTSP server: thousands on one event loop.
//!
//! Each client sets up a stream over RTSP and receives RTP in datagrams or on the connection. The
//! clients count and time packets and compare synthesized streams byte by byte. They decode nothing.

mod player;
mod report;
mod spec;
mod stream;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use perpacket_linux::clock::{monotonic_ns, realtime_ns};
use perpacket_linux::epoll::{Epoll, Event, EventFlags};
use perpacket_linux::{affinity, descriptors};

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

pub use report::{Reason, Report, Spread, StreamReport};
pub use spec::Spec;

use player::{Action, Client, Outcome, Phase, SocketKind};
use stream::ReceivedStream;

/// Default port of RTSP (RFC 2326, section 3.2).
const RTSP_PORT: u16 = 554;

/// The part of a URL that the number of the medium replaces.
pub const PLACEHOLDER: &str = "{}";

/// The lower transport of RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP datagrams.
    Udp,
    /// Interleaved frames on the RTSP connection.
    Tcp,
}

/// The media that clients play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All clients play the same medium.
    Unique,
    /// Each client plays the next medium.
    Multiple,
}

/// The reason why a run cannot start.
#[derive(Debug, Error)]
pub enum Error {
    #[error("url `{url}`: expected {expected}")]
    Url { url: String, expected: &'static str },
    #[error("host `{host}`: {error}")]
    Host { host: String, error: io::Error },
    #[error("cannot run on cpus {cpus:?}: {error}")]
    Cpus { cpus: Vec<usize>, error: io::Error },
    #[error("{clients} clients need {needed} descriptors, and the limit of open files is {limit}")]
    Descriptors {
        clients: usize,
        needed: u64,
        limit: u64,
    },
    #[error("cannot run: {0}")]
    System(#[from] io::Error),
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Seconds of the whole run.
    pub total_s: f64,
    /// Clients that play now.
    pub playing: usize,
}

/// The maximum number of events between two checks of the clock.
const EVENTS: usize = 512;

/// Time between two checks of all clients.
const SWEEP_NS: u64 = 250_000_000;

/// With at least `BATCHED_FROM_CLIENTS` clients, packets are read every `BATCH_INTERVAL_NS`.
const BATCHED_FROM_CLIENTS: usize = 200;
const BATCH_INTERVAL_NS: u64 = 1_000_000;

/// The maximum number of clients that start between two checks of the sockets.
const STARTS_PER_ROUND: usize = 64;

/// Time limit of the responses to TEARDOWN.
const TEAR_DOWN_LIMIT_NS: u64 = 2_000_000_000;

/// Descriptors of a client: the connection and two sockets.
const DESCRIPTORS_PER_CLIENT: u64 = 3;

/// Descriptors of the rest of the process.
const OTHER_DESCRIPTORS: u64 = 64;

/// Tokens of a client's sockets.
const SOCKETS: [SocketKind; 3] = [
    SocketKind::Control,
    SocketKind::Packets,
    SocketKind::Reports,
];

/// A counter that returns even ports in order.
pub(crate) struct Ports(u16);

impl Ports {
    /// The first port, and the number of pairs up to the highest port.
    const FIRST: u16 = 10_000;
    const PAIRS: u16 = (u16::MAX - Self::FIRST) / 2;

    fn next(&mut self) -> u16 {
        let port = Self::FIRST + 2 * self.0;
        self.0 = (self.0 + 1) % Self::PAIRS;
        port
    }
}

/// The address of a URL's server.
fn server_of(url: &str) -> Result<SocketAddr, Error> {
    let wrong = || Error::Url {
        url: url.to_owned(),
        expected: "rtsp://HOST[:PORT]/PATH",
    };
    let rest = url.strip_prefix("rtsp://").ok_or_else(wrong)?;
    let (host, _) = rest
        .split_once('/')
        .filter(|(host, _)| !host.is_empty())
        .ok_or_else(wrong)?;
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let host = if has_port {
        host.to_owned()
    } else {
        format!("{host}:{RTSP_PORT}")
    };
    let mut addresses = host.to_socket_addrs().map_err(|error| Error::Host {
        host: host.clone(),
        error,
    })?;
    addresses.next().ok_or_else(wrong)
}

/// A run of all clients.
struct Run<'a> {
    spec: &'a Spec,
    server: SocketAddr,
    clients: Vec<Client>,
    poll: Epoll,
    lateness: Histogram<u64>,
    ports: Ports,
    buffer: Vec<u8>,
    started_ns: u64,
    started_clients: usize,
    swept_ns: u64,
}

/// Runs all clients until the end of the window, or until `stop` is true, and returns their report.
///
/// # Errors
/// The URL, the host or the CPUs cannot be used, or the limit of open files is too low. The report
/// has the failures of clients.
pub fn run(
    spec: &Spec,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    if spec.distribution == Distribution::Multiple && !spec.url.contains(PLACEHOLDER) {
        return Err(Error::Url {
            url: spec.url.clone(),
            expected: "a URL with `{}`, which the number of the medium replaces",
        });
    }
    let server = server_of(&spec.url)?;
    affinity::bind(spec.runs_on.list()).map_err(|error| Error::Cpus {
        cpus: spec.runs_on.list().to_vec(),
        error,
    })?;
    ensure_descriptors(spec.clients.count())?;
    let mut run = Run::new(spec, server)?;
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
    let window_ns = run.started_ns + nanoseconds(spec.ramp.0) + nanoseconds(spec.window.warmup());
    let end_ns = window_ns + nanoseconds(spec.window.duration().unwrap_or_default());
    let total_s = (end_ns - run.started_ns) as f64 / 1e9;
    let mut progress_ns = run.started_ns;
    run.run_until(window_ns, stop, &mut |run, now_ns| {
        report_progress(run, now_ns, &mut progress_ns, total_s, on_progress);
    })?;
    run.lateness.reset();
    run.clients
        .iter_mut()
        .for_each(|client| client.received.start_window());
    let opened_ns = monotonic_ns();
    run.run_until(end_ns, stop, &mut |run, now_ns| {
        report_progress(run, now_ns, &mut progress_ns, total_s, on_progress);
    })?;
    let window_s = (monotonic_ns() - opened_ns) as f64 / 1e9;
    let interrupted = stop.load(Ordering::Relaxed);
    let report = Report::new(spec, &run.clients, &run.lateness, window_s, interrupted);
    run.tear_down_all()?;
    Ok(report)
}

fn report_progress(
    run: &Run<'_>,
    now_ns: u64,
    progress_ns: &mut u64,
    total_s: f64,
    on_progress: &mut dyn FnMut(Progress),
) {
    if now_ns < *progress_ns + 1_000_000_000 {
        return;
    }
    *progress_ns = now_ns;
    let playing = run
        .clients
        .iter()
        .filter(|client| client.phase == Phase::Playing);
    on_progress(Progress {
        elapsed_s: (now_ns - run.started_ns) as f64 / 1e9,
        total_s,
        playing: playing.count(),
    });
}

impl<'a> Run<'a> {
    fn new(spec: &'a Spec, server: SocketAddr) -> Result<Self, Error> {
        let mut clients = Vec::with_capacity(spec.clients.count());
        for number in 0..spec.clients.get() {
            let file = match spec.distribution {
                Distribution::Unique => spec.first_file(),
                Distribution::Multiple => spec.first_file() + number % spec.files().max(1),
            };
            let has_number = spec.url.contains(PLACEHOLDER);
            let url = spec.url.replace(PLACEHOLDER, &format!("{file:05}"));
            let received = ReceivedStream::new(spec.check, has_number.then_some(file))?;
            clients.push(Client::new(url, spec.transport, received, number));
        }
        let started_ns = monotonic_ns();
        Ok(Self {
            spec,
            server,
            clients,
            poll: Epoll::new()?,
            lateness: Histogram::new_with_bounds(1, 600_000_000, 3)?,
            // Simultaneous runs start at different ports.
            ports: Ports(realtime_ns() as u16 % Ports::PAIRS),
            buffer: player::buffer(),
            started_ns,
            started_clients: 0,
            swept_ns: started_ns,
        })
    }

    /// Runs until a time on the monotonic clock.
    fn run_until(
        &mut self,
        end_ns: u64,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&Self, u64),
    ) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let now = monotonic_ns();
            if now >= end_ns || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.start_due_clients(now)?;
            let next_ns = end_ns
                .min(self.next_start_ns())
                .min(self.swept_ns + SWEEP_NS);
            self.poll_once(&mut events, next_ns.saturating_sub(now))?;
            let now = monotonic_ns();
            if now >= self.swept_ns + SWEEP_NS {
                self.sweep(now);
                each(self, now);
            }
        }
    }

    /// The start time of the next client.
    fn next_start_ns(&self) -> u64 {
        if self.started_clients == self.clients.len() {
            return u64::MAX;
        }
        let ramp_ns = self.spec.ramp.0.as_nanos();
        let share = ramp_ns * self.started_clients as u128 / self.clients.len() as u128;
        self.started_ns + share as u64
    }

    /// Starts the clients whose start time has come.
    fn start_due_clients(&mut self, now: u64) -> Result<(), Error> {
        for _ in 0..STARTS_PER_ROUND {
            if self.next_start_ns() > now {
                return Ok(());
            }
            let number = self.started_clients;
            self.started_clients += 1;
            self.clients[number].connect(self.server, now);
            if let Some(control) = &self.clients[number].control {
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                watch(&self.poll, control, number, 0, flags)?;
            }
        }
        Ok(())
    }

    /// Waits for events and handles them.
    ///
    /// With many clients over UDP, it sleeps before it polls. Otherwise every packet would wake this
    /// process, and a server on the same machine would pay for the wake-up. The kernel records the
    /// arrival of packets, so a later read does not change the results.
    fn poll_once(&mut self, events: &mut Vec<Event>, wait_ns: u64) -> Result<(), Error> {
        let is_crowded =
            self.started_clients >= BATCHED_FROM_CLIENTS && self.spec.transport == Transport::Udp;
        let wait_ns = if is_crowded && events.len() < EVENTS {
            std::thread::sleep(Duration::from_nanos(wait_ns.min(BATCH_INTERVAL_NS)));
            0
        } else if is_crowded {
            0
        } else {
            wait_ns
        };
        events.clear();
        self.poll
            .wait(events, Some(Duration::from_nanos(wait_ns)))?;
        let now = monotonic_ns();
        for event in events {
            let token = event.data.u64() as usize;
            let (number, source) = (token / 4, SOCKETS[token % 4]);
            let client = &mut self.clients[number];
            let lateness = &mut self.lateness;
            let mut late = |late_us| lateness.saturating_record(late_us);
            let action = client.ready(source, now, &mut self.buffer, &mut self.ports, &mut late);
            if action == Action::Watch
                && let Some((packets, reports)) = &client.sockets
            {
                watch(&self.poll, packets, number, 1, EventFlags::IN)?;
                watch(&self.poll, reports, number, 2, EventFlags::IN)?;
            }
        }
        Ok(())
    }

    /// Sends due reports and keep-alive requests, and ends clients that have waited too long.
    fn sweep(&mut self, now: u64) {
        self.swept_ns = now;
        for client in &mut self.clients {
            client.send_due(now);
            if client.is_overdue(now) {
                client.fail(Outcome::TimedOut);
            }
        }
    }

    /// Ends all sessions and waits for the responses.
    fn tear_down_all(&mut self) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS);
        let end_ns = monotonic_ns() + TEAR_DOWN_LIMIT_NS;
        for number in 0..self.clients.len() {
            self.clients[number].tear_down(monotonic_ns());
            if number % STARTS_PER_ROUND == 0 {
                self.poll_once(&mut events, 0)?;
            }
        }
        while monotonic_ns() < end_ns
            && self
                .clients
                .iter()
                .any(|client| client.phase != Phase::Ended)
        {
            self.poll_once(&mut events, 50_000_000)?;
        }
        Ok(())
    }
}

fn watch(
    poll: &Epoll,
    socket: impl AsFd,
    number: usize,
    source: usize,
    flags: EventFlags,
) -> Result<(), Error> {
    Ok(poll.add(socket, (number * 4 + source) as u64, flags)?)
}

/// Raises the limit of open files for `clients` clients.
fn ensure_descriptors(clients: usize) -> Result<(), Error> {
    let needed = clients as u64 * DESCRIPTORS_PER_CLIENT + OTHER_DESCRIPTORS;
    let limit = descriptors::raise(needed);
    if limit >= needed {
        return Ok(());
    }
    Err(Error::Descriptors {
        clients,
        needed,
        limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_server_with_or_without_a_port() {
        assert_eq!(server_of("rtsp://127.0.0.1/a").unwrap().port(), 554);
        assert_eq!(server_of("rtsp://[::1]:8554/a").unwrap().port(), 8554);
        for url in [
            "http://127.0.0.1/a",
            "rtsp://",
            "rtsp:///a",
            "rtsp://127.0.0.1",
        ] {
            assert!(server_of(url).is_err(), "{url}");
        }
    }

    #[test]
    fn ports_are_even_and_leave_room_for_the_next() {
        let mut ports = Ports(0);
        for _ in 0..Ports::PAIRS {
            let port = ports.next();
            assert!(port.is_multiple_of(2) && port < u16::MAX);
        }
        assert_eq!(ports.next(), Ports::FIRST);
    }
}
