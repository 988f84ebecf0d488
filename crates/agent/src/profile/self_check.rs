//! `--self-check`: adds a known cost and tests whether the profile finds it.
//!
//! A server answers one client. In half of the windows, each request uses a known CPU time in the
//! server's code (`/work?us=20`). In the other half, requests do not use this time. The windows
//! alternate as A B B A, so that a drift of the machine affects both. The difference in the cost of
//! the layer `user` for each request is the time found. This tests the events, the attribution to
//! the server, and the count of requests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perpacket_profiler::settings::Events;
use perpacket_profiler::spec::Spec;
use perpacket_profiler::statistics::student_t_975;
use perpacket_profiler::{End, Profiler, Settings};
use serde::Serialize;

use crate::output::Output;
use crate::status::{Failure, Status};

/// CPU time that is added to a request.
const INJECTED_US: u64 = 20;

/// Number of pairs of windows, one with the cost and one without. Drift affects short pairs less.
/// With 40 pairs of 0.25 s, the interval was half as wide as with 10 pairs of 1 s.
const PAIRS: usize = 40;

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(250);

/// Samples a second on each CPU. The check needs only one number, so it can sample more often than
/// a profile does by default.
const FREQUENCY_HZ: u32 = 1999;

/// Tolerance for clock calls, which may be kernel time, and for parsing the number: a few calls of
/// 0.1 to 0.2 us each.
const TOLERANCE_US: f64 = 0.5;

/// Largest half-width of a decisive interval, as a share of the added time.
const DECISIVE: f64 = 0.25;

/// The time that was added and the time that was found.
#[derive(Debug, Serialize)]
struct Check {
    schema: u32,
    injected_us: f64,
    found_us: f64,
    /// Bounds of the 95 % interval of the time found.
    low_us: f64,
    high_us: f64,
    tolerance_us: f64,
    pairs: usize,
    requests: u64,
    is_found: bool,
}

impl Check {
    /// Computes the interval of the time found from the pairs' differences, by Student's t.
    fn new(differences_us: &[f64], requests: u64) -> Self {
        let injected_us = INJECTED_US as f64;
        let n = differences_us.len() as f64;
        let found_us = differences_us.iter().sum::<f64>() / n;
        let squares: f64 = differences_us
            .iter()
            .map(|cost| (cost - found_us).powi(2))
            .sum();
        let error_us = (squares / (n - 1.0) / n).sqrt();
        let half_us = student_t_975(differences_us.len() - 1) * error_us;
        let is_near = (found_us - injected_us).abs() <= half_us + TOLERANCE_US;
        Self {
            schema: 1,
            injected_us,
            found_us,
            low_us: found_us - half_us,
            high_us: found_us + half_us,
            tolerance_us: TOLERANCE_US,
            pairs: differences_us.len(),
            requests,
            is_found: is_near && half_us <= DECISIVE * injected_us,
        }
    }

    fn text(&self) -> String {
        format!(
            "user time a request: {:.2} us added, {:.2} us found, 95 % interval {:.2} to {:.2}\n\
             {} pairs of windows, {} requests; {}\n",
            self.injected_us,
            self.found_us,
            self.low_us,
            self.high_us,
            self.pairs,
            self.requests,
            if self.is_found {
                "the profile found the added time"
            } else {
                "the profile did not find the added time"
            }
        )
    }
}

/// Runs the check and prints its result.
pub(super) fn run(spec: &Spec, stop: &AtomicBool, output: &Output) -> Result<Status, Failure> {
    let server = Server::start()?;
    let mut profiler = Profiler::new(Settings {
        duration: Some(WINDOW),
        pid: Some(server.process.id()),
        frequency_hz: FREQUENCY_HZ,
        requests: Some(format!(
            "http://127.0.0.1:{}/.perpacket/report",
            server.port
        )),
        rules: spec.rules.clone(),
        events: Events::Clock,
        ..Settings::default()
    })?;
    let client = Client::start(server.port)?;
    let (mut differences_us, mut requests) = (Vec::new(), 0);
    for pair in 0..PAIRS {
        let mut user_us = [0.0, 0.0];
        for injects in [pair % 2 == 1, pair % 2 == 0] {
            client.injects.store(injects, Ordering::Relaxed);
            let (report, end) = profiler.run(stop)?;
            if end == End::Stopped {
                return Ok(Status::Interrupted);
            }
            let user = report.layers.get("user");
            let time_ns = user.and_then(|user| user.cpu_ns_per_request);
            user_us[usize::from(injects)] = time_ns
                .ok_or_else(|| Failure::failed("the server answered no request in a window"))?
                / 1000.0;
            requests += report.requests.unwrap_or(0);
        }
        differences_us.push(user_us[1] - user_us[0]);
        if output.shows_progress() {
            eprint!("\r{} of {PAIRS} pairs of windows", pair + 1);
        }
    }
    if output.shows_progress() {
        eprintln!();
    }
    client.end()?;
    let check = Check::new(&differences_us, requests);
    output.print(&check, Check::text)?;
    if check.is_found {
        return Ok(Status::Done);
    }
    let failure = Failure::unmet(format!(
        "the profile found {:.2} us (95 % interval {:.2} to {:.2}) of {INJECTED_US} us user time a request",
        check.found_us, check.low_us, check.high_us
    ));
    Err(failure.with_hint(
        "cost interval in twenty misses the true time, and a busy machine makes intervals wide: run \
         the check again on a quiet machine; if it fails again, do not trust profiles of this \
         machine",
    ))
}

/// A server in another process of this executable. Dropping it ends the process.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::failed(format!("the server of the self-check: {error}"));
        let mut process = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["serve", "web", "--routes", "--listen", "127.0.0.1:0"])
            .args(["--architecture", "single", "--quiet"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stderr = process.stderr.take();
        let mut server = Self { process, port: 0 };
        let mut output = String::new();
        for line in stderr
            .into_iter()
            .flat_map(|pipe| BufReader::new(pipe).lines())
        {
            let line = line.map_err(failed)?;
            let port = line
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse().ok());
            if let (true, Some(port)) = (line.starts_with("listening on "), port) {
                server.port = port;
                return Ok(server);
            }
            output.push_str(&line);
        }
        Err(Failure::failed(format!(
            "the server of the self-check ended at once: {output}"
        )))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends one request after the other on one connection.
struct Client {
    injects: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Client {
    fn start(port: u16) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(unanswered)?;
        let injects = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let (chosen, ended) = (Arc::clone(&injects), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || {
                let request =
                    |us: u64| format!("GET /work?us={us} HTTP/1.1\r\nHost: check\r\n\r\n");
                let requests = [request(0), request(INJECTED_US)];
                let mut buffer = [0; 4096];
                while !ended.load(Ordering::Relaxed) {
                    let which = usize::from(chosen.load(Ordering::Relaxed));
                    stream.write_all(requests[which].as_bytes())?;
                    read_response(&mut stream, &mut buffer)?;
                }
                Ok(())
            })
            .map_err(unanswered)?;
        Ok(Self {
            injects,
            stop,
            thread,
        })
    }

    fn end(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(answered) => answered.map_err(unanswered),
            Err(_) => Err(Failure::failed("the client of the self-check panicked")),
        }
    }
}

fn unanswered(error: io::Error) -> Failure {
    Failure::failed(format!(
        "the server of the self-check does not answer: {error}"
    ))
}

/// Reads one response: its head, and a body of the length in the head.
fn read_response(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut length = 0;
    loop {
        let room = &mut buffer[length..];
        let read = stream.read(room)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        length += read;
        if response_bytes(&buffer[..length]).is_some_and(|whole| length >= whole) {
            return Ok(());
        }
    }
}

/// Bytes of a response whose head has arrived.
fn response_bytes(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let body = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    Some(head.len() + 4 + body.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_outside_the_interval_or_with_a_wide_interval_is_not_found() {
        let close = [19.5, 20.5, 20.1, 19.8, 20.2, 19.9];
        assert!(Check::new(&close, 1).is_found);
        let short = close.map(|cost| cost - 4.0);
        assert!(!Check::new(&short, 1).is_found);
        let scattered = [2.0, 38.0, 5.0, 35.0, 20.0, 20.0];
        assert!(!Check::new(&scattered, 1).is_found);
    }

    #[test]
    fn a_response_ends_after_its_length() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(response_bytes(answer), Some(answer.len()));
        assert_eq!(response_bytes(&answer[..20]), None);
    }
}
