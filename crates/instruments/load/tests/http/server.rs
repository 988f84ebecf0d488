//! A small web server for tests: one thread per connection, one function for all responses.

#![expect(clippy::unwrap_used, reason = "a test's server may panic")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Sends the response to a request, head and body. Returns whether the connection stays open.
pub type Answer = dyn Fn(&str, &mut TcpStream) -> bool + Send + Sync;

/// A server that stops at the end of its test.
pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Box<Answer>,
    frozen: AtomicBool,
    ended: AtomicBool,
    connections: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Server {
    /// Starts a server on a free port.
    pub fn start(answer: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            frozen: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            open: Mutex::new(Vec::new()),
        });
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if own.ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { return };
                own.connections.fetch_add(1, Ordering::SeqCst);
                own.open.lock().unwrap().push(stream.try_clone().unwrap());
                let own = Arc::clone(&own);
                thread::spawn(move || serve(stream, &own));
            }
        });
        Self { address, shared }
    }

    /// A server whose responses have a body of this size.
    pub fn of_bytes(bytes: usize) -> Self {
        Self::start(move |_, stream| stream.write_all(&response(&vec![b'x'; bytes])).is_ok())
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Accepted connections, including the test connection that a load opens before the run.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Sends nothing for a time, like a stopped process.
    pub fn freeze(&self, time: Duration) {
        self.shared.frozen.store(true, Ordering::SeqCst);
        thread::sleep(time);
        self.shared.frozen.store(false, Ordering::SeqCst);
    }

    /// Closes everything, like a killed process. The port then refuses connections.
    pub fn kill(&self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn response(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    stream.set_nodelay(true).unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(end) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head: Vec<u8> = seen.drain(..end + 4).collect();
            let mut head = String::from_utf8(head).unwrap();
            let length = head.split("Content-Length: ").nth(1);
            let length = length.map_or(0, |rest| {
                rest.split("\r\n").next().unwrap().parse().unwrap()
            });
            while seen.len() < length {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => seen.extend_from_slice(&buffer[..bytes]),
                }
            }
            let body: Vec<u8> = seen.drain(..length).collect();
            head.push_str(&String::from_utf8_lossy(&body));
            while shared.frozen.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if !(shared.answer)(&head, &mut stream) {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => seen.extend_from_slice(&buffer[..bytes]),
        }
    }
}
