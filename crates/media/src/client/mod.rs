//! Clients of stored media: thousands of them on one event loop.
//!
//! Each sets up a stream over RTSP and receives it over RTP, in datagrams or on the connection.
//! Packets are counted, timed and, if the stream was synthesized, compared byte by byte; nothing is
//! decoded. Any RTSP server will do.

mod player;
mod report;
mod stream;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use thiserror::Error;

pub use report::{Percentiles, Reason, Report, Spread, StreamReport};

use player::{Client, Need, Outcome, Phase, Source};
use stream::Reading;

/// Default port of RTSP (RFC 2326, section 3.2).
const RTSP_PORT: u16 = 554;

/// What stands for a medium's number in a URL.
pub const PLACEHOLDER: &str = "{}";

/// How packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// In datagrams.
    Udp,
    /// On the RTSP connection.
    Tcp,
}

/// Which media clients play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All the same.
    Unique,
    /// One each, in turn.
    Multiple,
}

/// What to load.
#[derive(Clone, Debug)]
pub struct Options {
    /// `rtsp://HOST[:PORT]/PATH`; in it `{}` stands for the medium's number in five digits.
    pub url: String,
    /// How many clients.
    pub clients: usize,
    /// They start evenly over this time.
    pub ramp: Duration,
    /// Then this passes before anything is measured.
    pub warmup: Duration,
    /// Then this is measured.
    pub duration: Duration,
    /// Which media they play.
    pub distribution: Distribution,
    /// How many media there are in `multiple`.
    pub files: u32,
    /// The number of the first of them.
    pub first_file: u32,
    /// How packets travel.
    pub transport: Transport,
    /// Every byte is compared with the synthesized stream it should be.
    pub check: bool,
    /// CPUs to run on; empty for all.
    pub cpus: Vec<usize>,
}

/// Why nothing could be loaded.
#[derive(Debug, Error)]
pub enum Error {
    /// The URL is none, or lacks the place of the medium's number.
    #[error("url `{url}`: expected {expected}")]
    Url {
        /// What was given.
        url: String,
        /// What would do.
        expected: &'static str,
    },
    /// The host has no address.
    #[error("host `{host}`: {error}")]
    Host {
        /// The host and port.
        host: String,
        /// What the system said.
        error: io::Error,
    },
    /// A CPU that is not there, or may not be used.
    #[error("cannot run on cpus {cpus:?}: {error}")]
    Cpus {
        /// The CPUs.
        cpus: Vec<usize>,
        /// What the system said.
        error: io::Error,
    },
    /// More clients than the system gives descriptors for.
    #[error("{clients} clients need {needed} descriptors, and the limit is {limit}")]
    Descriptors {
        /// Clients wanted.
        clients: usize,
        /// Descriptors they need.
        needed: u64,
        /// Descriptors there are.
        limit: u64,
    },
    /// The system failed.
    #[error("cannot run: {0}")]
    System(#[from] io::Error),
}

/// How a run stands.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Seconds since it began, and that it takes in all.
    pub elapsed_s: f64,
    /// Seconds it takes in all.
    pub total_s: f64,
    /// Clients that play.
    pub playing: usize,
}

/// Events handled between two looks at the clock.
const EVENTS: usize = 512;

/// A round over all clients takes a quarter of a second.
const SWEEP_NS: u64 = 250_000_000;

/// From so many clients on, packets are taken at intervals of this.
const CROWD: usize = 200;
const REST_NS: u64 = 1_000_000;

/// Clients that start between two looks at the sockets.
const STARTS: usize = 64;

/// How long answers to TEARDOWN are waited for.
const FAREWELL_NS: u64 = 2_000_000_000;

/// Descriptors of a client: the connection and two sockets.
const DESCRIPTORS_PER_CLIENT: u64 = 3;

/// Tokens of a client's sockets.
const SOURCES: [Source; 3] = [Source::Control, Source::Packets, Source::Reports];

/// Nanoseconds of the monotonic clock.
fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds since 1970, the kernel's clock for stamps.
fn unix_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

/// Seconds of processor time of this process.
fn processor_time_s() -> f64 {
    nanoseconds(ClockId::ProcessCPUTime) as f64 / 1e9
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Gives out even ports, one after the other.
pub(crate) struct Ports(u16);

impl Ports {
    /// The first port given out, and how many pairs there are: up to the end of the registered and
    /// dynamic ports that a client may take.
    const FIRST: u16 = 10_000;
    const PAIRS: u16 = (u16::MAX - Self::FIRST) / 2;

    fn next(&mut self) -> u16 {
        let port = Self::FIRST + 2 * self.0;
        self.0 = (self.0 + 1) % Self::PAIRS;
        port
    }
}

/// The address a URL's server listens on.
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
    options: &'a Options,
    server: SocketAddr,
    clients: Vec<Client>,
    poll: OwnedFd,
    lateness: Histogram<u64>,
    ports: Ports,
    buffer: Vec<u8>,
    started_ns: u64,
    begun: usize,
    swept_ns: u64,
}

/// Runs all clients, until the time is over or `stop` becomes true, and tells what they found.
///
/// # Errors
/// The URL, the host or the CPUs cannot be used, or the system gives too few descriptors. What
/// happens to a client is no error but part of the report.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    if options.distribution == Distribution::Multiple && !options.url.contains(PLACEHOLDER) {
        return Err(Error::Url {
            url: options.url.clone(),
            expected: "`{}` in it, where the medium's number stands",
        });
    }
    let server = server_of(&options.url)?;
    bind_to(&options.cpus)?;
    raise_descriptor_limit(options.clients)?;
    let mut run = Run::new(options, server)?;
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
    let window_ns = run.started_ns + nanoseconds(options.ramp) + nanoseconds(options.warmup);
    let end_ns = window_ns + nanoseconds(options.duration);
    let total_s = (end_ns - run.started_ns) as f64 / 1e9;
    let mut told_ns = run.started_ns;
    run.until(window_ns, stop, &mut |run, now_ns| {
        tell(run, now_ns, &mut told_ns, total_s, on_progress);
    })?;
    run.lateness.reset();
    run.clients
        .iter_mut()
        .for_each(|client| client.reading.start_window());
    let opened_ns = now_ns();
    run.until(end_ns, stop, &mut |run, now_ns| {
        tell(run, now_ns, &mut told_ns, total_s, on_progress);
    })?;
    let window_s = (now_ns() - opened_ns) as f64 / 1e9;
    let interrupted = stop.load(Ordering::Relaxed);
    let report = Report::new(options, &run.clients, &run.lateness, window_s, interrupted);
    run.farewell()?;
    Ok(report)
}

fn tell(
    run: &Run<'_>,
    now_ns: u64,
    told_ns: &mut u64,
    total_s: f64,
    on_progress: &mut dyn FnMut(Progress),
) {
    if now_ns < *told_ns + 1_000_000_000 {
        return;
    }
    *told_ns = now_ns;
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
    fn new(options: &'a Options, server: SocketAddr) -> Result<Self, Error> {
        let mut clients = Vec::with_capacity(options.clients);
        for number in 0..options.clients as u32 {
            let file = match options.distribution {
                Distribution::Unique => options.first_file,
                Distribution::Multiple => options.first_file + number % options.files.max(1),
            };
            let has_number = options.url.contains(PLACEHOLDER);
            let url = options.url.replace(PLACEHOLDER, &format!("{file:05}"));
            let reading = Reading::new(options.check, has_number.then_some(file))?;
            clients.push(Client::new(url, options.transport, reading, number));
        }
        let started_ns = now_ns();
        Ok(Self {
            options,
            server,
            clients,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?,
            lateness: Histogram::new_with_bounds(1, 600_000_000, 3)?,
            // Runs at the same time do not try for the same ports in the same order.
            ports: Ports(unix_ns() as u16 % Ports::PAIRS),
            buffer: player::buffer(),
            started_ns,
            begun: 0,
            swept_ns: started_ns,
        })
    }

    /// Runs until a time.
    fn until(
        &mut self,
        end_ns: u64,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&Self, u64),
    ) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let now = now_ns();
            if now >= end_ns || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.begin(now)?;
            let next_ns = end_ns
                .min(self.next_start_ns())
                .min(self.swept_ns + SWEEP_NS);
            self.turn(&mut events, next_ns.saturating_sub(now))?;
            let now = now_ns();
            if now >= self.swept_ns + SWEEP_NS {
                self.sweep(now);
                each(self, now);
            }
        }
    }

    /// When the next client starts.
    fn next_start_ns(&self) -> u64 {
        if self.begun == self.clients.len() {
            return u64::MAX;
        }
        let ramp_ns = self.options.ramp.as_nanos();
        let share = ramp_ns * self.begun as u128 / self.clients.len() as u128;
        self.started_ns + share as u64
    }

    /// Starts the clients whose turn it is.
    fn begin(&mut self, now: u64) -> Result<(), Error> {
        for _ in 0..STARTS {
            if self.next_start_ns() > now {
                return Ok(());
            }
            let number = self.begun;
            self.begun += 1;
            self.clients[number].connect(self.server, now);
            if let Some(control) = &self.clients[number].control {
                let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
                watch(&self.poll, control, number, 0, flags)?;
            }
        }
        Ok(())
    }

    /// Waits for events and handles them.
    ///
    /// With many clients in datagrams it rests first and then takes what has come: a server on the
    /// same machine would otherwise pay for a wake-up with every packet, and the kernel's stamps
    /// say when packets came however late they are read.
    fn turn(&mut self, events: &mut Vec<epoll::Event>, wait_ns: u64) -> Result<(), Error> {
        let is_crowded = self.begun >= CROWD && self.options.transport == Transport::Udp;
        let wait_ns = if is_crowded && events.len() < EVENTS {
            std::thread::sleep(Duration::from_nanos(wait_ns.min(REST_NS)));
            0
        } else if is_crowded {
            0
        } else {
            wait_ns
        };
        let timeout = Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        events.clear();
        match epoll::wait(&self.poll, spare_capacity(events), Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let now = now_ns();
        for event in events {
            let token = event.data.u64() as usize;
            let (number, source) = (token / 4, SOURCES[token % 4]);
            let client = &mut self.clients[number];
            let lateness = &mut self.lateness;
            let mut late = |late_us| lateness.saturating_record(late_us);
            let need = client.ready(source, now, &mut self.buffer, &mut self.ports, &mut late);
            if need == Need::Watch
                && let Some((packets, reports)) = &client.sockets
            {
                watch(&self.poll, packets, number, 1, epoll::EventFlags::IN)?;
                watch(&self.poll, reports, number, 2, epoll::EventFlags::IN)?;
            }
        }
        Ok(())
    }

    /// Reports, requests that keep sessions, and clients that waited too long.
    fn sweep(&mut self, now: u64) {
        self.swept_ns = now;
        for client in &mut self.clients {
            client.keep(now);
            if client.is_overdue(now) {
                client.fail(Outcome::TimedOut);
            }
        }
    }

    /// Ends all sessions and waits a little for the answers.
    fn farewell(&mut self) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS);
        let end_ns = now_ns() + FAREWELL_NS;
        for number in 0..self.clients.len() {
            self.clients[number].tear_down(now_ns());
            if number % STARTS == 0 {
                self.turn(&mut events, 0)?;
            }
        }
        while now_ns() < end_ns
            && self
                .clients
                .iter()
                .any(|client| client.phase != Phase::Over)
        {
            self.turn(&mut events, 50_000_000)?;
        }
        Ok(())
    }
}

fn watch(
    poll: &OwnedFd,
    socket: impl AsFd,
    number: usize,
    source: usize,
    flags: epoll::EventFlags,
) -> Result<(), Error> {
    let token = epoll::EventData::new_u64((number * 4 + source) as u64);
    Ok(epoll::add(poll, socket, token, flags).map_err(io::Error::from)?)
}

fn bind_to(cpus: &[usize]) -> Result<(), Error> {
    if cpus.is_empty() {
        return Ok(());
    }
    let failed = |error| Error::Cpus {
        cpus: cpus.to_vec(),
        error,
    };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| failed(error.into()))
}

fn raise_descriptor_limit(clients: usize) -> Result<(), Error> {
    let needed = clients as u64 * DESCRIPTORS_PER_CLIENT + 64;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    limit.current = Some(needed);
    limit.maximum = limit.maximum.map(|maximum| maximum.max(needed));
    setrlimit(Resource::Nofile, limit).map_err(|_| Error::Descriptors {
        clients,
        needed,
        limit: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
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
