//! Answers scrapes: a small HTTP server for one page.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use perpacket_http::request::{Method, ParsedHead, parse_request};
use perpacket_http::target::split_query;

use crate::status::Failure;

/// The media type of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PLAIN: &str = "text/plain; charset=utf-8";

/// Time that a client has for its request and for reading the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest head of a request, in bytes.
const HEAD_BYTES: usize = 16_384;

/// Highest number of connections at a time, each of which uses a thread. A monitoring system opens
/// one.
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
    let open = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Descriptors or memory have run out. Some may become free again.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (path, text, open) = (path.clone(), Arc::clone(&text), Arc::clone(&open));
            let counter = Arc::clone(&open);
            let answer = move || {
                // A client that closed its connection needs no response.
                let _ = respond(stream, &path, text.as_ref());
                counter.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().spawn(answer).is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    thread::Builder::new()
        .name("scrapes".to_owned())
        .spawn(accept)
        .map_err(failed)?;
    Ok(address)
}

/// Reads one request and responds. The connection closes after it.
fn respond(mut stream: TcpStream, path: &str, text: &dyn Fn() -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let (status, kind, body, has_body) = match parse_request(&input, HEAD_BYTES) {
            ParsedHead::Partial => {
                let read = stream.read(&mut buffer)?;
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
        stream.write_all(head.as_bytes())?;
        if has_body {
            stream.write_all(body.as_bytes())?;
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
        let parsed = |text: &str| text.parse::<Endpoint>().map(|found| found.to_string());
        assert_eq!(parsed("127.0.0.1:9430").unwrap(), "127.0.0.1:9430/metrics");
        assert_eq!(parsed("[::1]:1/m").unwrap(), "[::1]:1/m");
        for wrong in ["9430", "localhost", "127.0.0.1:9430/", "127.0.0.1:1/a b"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_request_has_a_response() {
        let endpoint: Endpoint = "127.0.0.1:0/m".parse().unwrap();
        let listener = endpoint.bind().unwrap();
        let address = serve(listener, &endpoint, || "# EOF\n".to_owned()).unwrap();
        let send = |request: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            response
        };
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
