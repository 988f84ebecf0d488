//! A server in a thread of the test, and clients that send and receive raw bytes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is the test's failure"
)]
#![allow(
    dead_code,
    reason = "each test file is a program of its own and uses a part of this"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use perpacket_serve::{Architecture, Report, Reporter, Server, Spec};
use perpacket_spec::{CpuList, RunsOn, parse};

/// Longest wait of a test. It is far longer than any test needs.
pub const WAIT_LIMIT: Duration = Duration::from_secs(600);

/// A running server.
pub struct Started {
    pub address: SocketAddr,
    pub reporter: Reporter,
    pub folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Report>>,
}

/// The server of a command line with a free port, all routes and no change of user, over this folder until
/// [`Started::over`] replaces it.
pub fn spec(architecture: Architecture) -> Spec {
    let user = if is_root() { "--user root" } else { "" };
    let name = architecture.name();
    let line = format!("--listen 127.0.0.1:0 --routes --root . {user} --architecture {name}");
    let pool = match architecture {
        Architecture::Threads | Architecture::Processes => " --threads 4",
        _ => "",
    };
    parse(&(line + pool)).unwrap()
}

pub fn on_cpu(cpu: usize) -> RunsOn {
    RunsOn {
        cpus: Some(CpuList(vec![cpu])),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Started {
    /// Starts a server over a folder with `index.html`, `a.txt` (612 bytes) and `large` (3 MiB).
    pub fn new(spec: Spec) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("index.html"), "<p>index").unwrap();
        fs::write(folder.path().join("a.txt"), pattern(612)).unwrap();
        fs::write(folder.path().join("large"), pattern(3 << 20)).unwrap();
        Self::over(folder, spec)
    }

    /// Starts a server over a folder.
    pub fn over(folder: tempfile::TempDir, spec: Spec) -> Self {
        let root = spec.root.filter(|root| root != Path::new("."));
        let root = root.unwrap_or_else(|| folder.path().to_owned());
        let spec = Spec {
            root: Some(root),
            ..spec
        };
        let server = Server::bind(spec, None).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (address, reporter) = (server.local_address(), server.reporter());
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&flag).unwrap());
        Self {
            address,
            reporter,
            folder,
            stop,
            thread: Some(thread),
        }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        stream.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
        Client {
            stream,
            unread: Vec::new(),
        }
    }

    /// A client that has already received a response. The io_uring loop then uses a multishot
    /// receive.
    pub fn connect_and_request(&self) -> Client {
        let mut client = self.connect();
        client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.answer().body, pattern(612));
        client
    }

    /// A new client, and a client that has already received a response.
    pub fn both(&self) -> [Client; 2] {
        [self.connect(), self.connect_and_request()]
    }

    /// Sends one request on a new connection. Returns the whole response.
    pub fn request(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer()
    }

    /// Sends one GET with further field lines on a new connection.
    pub fn get(&self, target: &str, fields: &str) -> Answer {
        self.request(&format!(
            "GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n"
        ))
    }

    /// Stops the server. Returns its last report.
    pub fn finish(mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits for a report that fulfils a condition.
    pub fn until(&self, wanted: impl Fn(&Report) -> bool) -> Report {
        for _ in 0..WAIT_LIMIT.as_millis() / 10 {
            let report = self.reporter.report();
            if wanted(&report) {
                return report;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!(
            "no report fulfilled the condition: {:?}",
            self.reporter.report()
        );
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A failed test does not report a second failure.
            let _ = thread.join();
        }
    }
}

/// Bytes whose values depend on their position.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A connection.
pub struct Client {
    pub stream: TcpStream,
    unread: Vec<u8>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// A field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads one response. The `Content-Length` determines the end of the body.
    pub fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    pub fn answer_to(&mut self, method: &str) -> Answer {
        let end = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at + 4;
            }
            assert!(
                self.more(),
                "the connection ended within a head: {:?}",
                self.unread
            );
        };
        let head = String::from_utf8(self.unread[..end].to_vec()).unwrap();
        self.unread.drain(..end);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        let has_body = method != "HEAD" && status != 304 && status >= 200;
        let length = answer
            .field("Content-Length")
            .map_or(0, |text| text.parse().unwrap());
        let length = if has_body { length } else { 0 };
        while self.unread.len() < length {
            assert!(self.more(), "the connection ended within a body");
        }
        answer.body = self.unread.drain(..length).collect();
        answer
    }

    /// Whether nothing arrives for this time.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let came = self.more();
        self.stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        !came && self.unread.is_empty()
    }

    /// Whether the server closed the connection and sent nothing more.
    pub fn is_ended(&mut self) -> bool {
        !self.more() && self.unread.is_empty()
    }

    /// All bytes until the connection closes or breaks.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.unread)
    }

    fn more(&mut self) -> bool {
        let mut part = [0; 65_536];
        match self.stream.read(&mut part) {
            // An io_uring that this thread has dropped interrupts the read.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => self.more(),
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&part[..count]);
                true
            }
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}
