//! Answers scrapes: a small HTTP server for one page.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use perpacket_http::request::{Method, ParsedHead, parse_request};
use perpacket_http::target::split_query;
use perpacket_linux::mailbox::lock;

use crate::status::Failure;

/// The media type of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PLAIN: &str = "text/plain; charset=utf-8";

/// Time that a client has for its whole request and for reading the whole response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest head of a request, in bytes.
const HEAD_BYTES: usize = 16_384;

/// Highest number of connections at a time, each of which uses a thread. A monitoring system opens
/// one. A further connection ends the oldest, so that idle clients do not lock the scraper out.
const CONNECTIONS: usize = 16;

/// Where the page is: an address, a port and a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: SocketAddr,
    path: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, path) = match text.find('/') {
            Some(start) => text.split_at(start),
            None => (text, "/metrics"),
        };
        let is_path = path.len() > 1 && path.bytes().all(|byte| byte.is_ascii_graphic());
        match address.parse() {
            Ok(address) if is_path => Ok(Self {
                address,
                path: path.to_owned(),
            }),
            _ => Err(
                "expected an address and a port, such as 127.0.0.1:9430 or [::1]:9430/metrics"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.address, self.path)
    }
}

perpacket_spec::text! {
    Endpoint, "address", "127.0.0.1:9430/metrics";
}

impl Endpoint {
    /// The path of the page.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Listens at the address.
    pub fn bind(&self) -> Result<TcpListener, Failure> {
        TcpListener::bind(self.address).map_err(|error| {
            Failure::failed(format!("--listen {}: {error}", self.address))
                .with_hint("choose an address of this machine and a port that no program uses")
        })
    }
}

/// Answers requests in threads of their own, and returns the address. `text` makes the page.
pub fn serve(
    listener: TcpListener,
    endpoint: &Endpoint,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr, Failure> {
    let failed = |error| Failure::failed(format!("--listen {endpoint}: {error}"));
    let address = listener.local_addr().map_err(failed)?;
    let (path, text) = (endpoint.path.clone(), Arc::new(text));
    let open = Connections::default();
    let accept = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Descriptors or memory have run out. Some may become free again.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (path, text, own) = (path.clone(), Arc::clone(&text), open.clone());
            let stream = open.add(stream);
            let answered = Arc::clone(&stream);
            let answer = move || {
                // A client that closed its connection needs no response.
                let _ = respond(&answered, TIMEOUT, &path, text.as_ref());
                own.remove(&answered);
            };
            if thread::Builder::new().spawn(answer).is_err() {
                open.remove(&stream);
            }
        }
    };
    thread::Builder::new()
        .name("scrapes".to_owned())
        .spawn(accept)
        .map_err(failed)?;
    Ok(address)
}

/// The open connections, the oldest first.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<VecDeque<Arc<TcpStream>>>>);

impl Connections {
    /// Adds a connection. If there is no room, the oldest ends.
    fn add(&self, stream: TcpStream) -> Arc<TcpStream> {
        let stream = Arc::new(stream);
        let mut open = lock(&self.0);
        if open.len() >= CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            // It may have ended already.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        open.push_back(Arc::clone(&stream));
        stream
    }

    fn remove(&self, stream: &Arc<TcpStream>) {
        lock(&self.0).retain(|open| !Arc::ptr_eq(open, stream));
    }
}

/// A connection with a time at which every read and write fails.
struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        (left > Duration::ZERO)
            .then_some(left)
            .ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer).map_err(timed_out)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The kernel reports a time-out of a socket as an operation that would block.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// Reads one request and responds. `limit` is the time for each. The connection closes after them.
fn respond(
    stream: &TcpStream,
    limit: Duration,
    path: &str,
    text: &dyn Fn() -> String,
) -> io::Result<()> {
    let timed = || Timed {
        stream,
        deadline: Instant::now() + limit,
    };
    let mut request = timed();
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let (status, kind, body, has_body) = match parse_request(&input, HEAD_BYTES) {
            ParsedHead::Partial => {
                let read = request.read(&mut buffer)?;
                if read == 0 {
                    return Ok(());
                }
                input.extend_from_slice(&buffer[..read]);
                continue;
            }
            ParsedHead::Rejected(status) => (status.code(), PLAIN, String::new(), true),
            ParsedHead::Complete(request, _) => {
                let (target, _) = split_query(request.target);
                let (status, kind, body) = answer(request.method, target, path, text);
                (status, kind, body, request.method != Method::Head)
            }
        };
        let reason = if status == 200 { "OK" } else { "Error" };
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        let mut response = timed();
        response.write_all(head.as_bytes())?;
        if has_body {
            response.write_all(body.as_bytes())?;
        }
        return Ok(());
    }
}

/// The status, the media type and the body for a target.
fn answer(
    method: Method,
    target: &[u8],
    path: &str,
    text: &dyn Fn() -> String,
) -> (u16, &'static str, String) {
    match method {
        Method::Get | Method::Head if target == path.as_bytes() => (200, OPEN_METRICS, text()),
        Method::Get | Method::Head => (404, PLAIN, format!("the metrics are at {path}\n")),
        _ => (405, PLAIN, "GET and HEAD are allowed\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_an_address_a_port_and_a_path() {
        let parsed = |text: &str| {
            text.parse::<Endpoint>()
                .map(|endpoint| endpoint.to_string())
        };
        assert_eq!(parsed("127.0.0.1:9430").unwrap(), "127.0.0.1:9430/metrics");
        assert_eq!(parsed("[::1]:1/m").unwrap(), "[::1]:1/m");
        for wrong in ["9430", "localhost", "127.0.0.1:9430/", "127.0.0.1:1/a b"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    fn served() -> SocketAddr {
        let endpoint: Endpoint = "127.0.0.1:0/m".parse().unwrap();
        let listener = endpoint.bind().unwrap();
        serve(listener, &endpoint, || "# EOF\n".to_owned()).unwrap()
    }

    fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn clients_that_send_no_request_leave_room_for_the_scraper() {
        let address = served();
        let idle: Vec<_> = (0..3 * CONNECTIONS)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                // An earlier one may have been closed already.
                let _ = stream.write_all(b"GET /m");
                stream
            })
            .collect();
        for _ in 0..3 {
            let page = exchange(address, "GET /m HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        }
        drop(idle);
    }

    #[test]
    fn bytes_do_not_renew_the_time_for_a_request() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let limit = Duration::from_millis(100);
        let answer = thread::spawn(move || respond(&server, limit, "/m", &String::new));
        client.write_all(b"GET /m").unwrap();
        // A head of this length would take longer than any test may.
        for _ in 0..HEAD_BYTES - 100 {
            if answer.is_finished() {
                break;
            }
            // The server may have closed the connection.
            let _ = client.write_all(b"x");
            thread::sleep(limit / 20);
        }
        let is_finished = answer.is_finished();
        drop(client);
        assert!(is_finished, "each byte renewed the time");
        assert_eq!(
            answer.join().unwrap().unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
    }

    #[test]
    fn every_request_has_a_response() {
        let address = served();
        let send = |request: &str| exchange(address, request);
        let page = send("GET /m?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with("\r\n\r\n# EOF\n"));
        assert!(page.contains(OPEN_METRICS), "{page}");
        let head = send("HEAD /m HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(head.contains("Content-Length: 6") && head.ends_with("\r\n\r\n"));
        assert!(send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(send("POST /m HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(send("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    }
}
