//! A folder of media, a server of it and an RTSP client, for tests.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use perpacket_media::server::{Buffering, Report, Server, Spec};
use perpacket_media::wire::Header;
use perpacket_media::wire::synthesis::Stream;
use perpacket_spec::parse;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::process::geteuid;

pub const STREAM: Stream = Stream {
    seed: 1,
    file: 0,
    rate_bps: 2_000_000,
};

/// Time limit of every step on a busy machine.
pub const STEP_LIMIT: Duration = Duration::from_secs(120);

/// A temporary folder.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("perpacket-media-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        folder.write("a.ts", &synthesized(STREAM, 10.0));
        folder
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.0.join(name), content).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn synthesized(stream: Stream, seconds: f64) -> Vec<u8> {
    let packets = 0..stream.packets_in(seconds);
    packets.flat_map(|index| stream.packet(index)).collect()
}

pub fn serve(folder: &Folder, change: impl FnOnce(&mut Spec)) -> Server {
    let user = if geteuid().is_root() {
        "--user root"
    } else {
        ""
    };
    let root = folder.0.display();
    // A busy machine may be late.
    let line = format!("--root {root} --listen 127.0.0.1:0 --max-lateness 1h {user}");
    let mut spec: Spec = parse(&line).unwrap();
    change(&mut spec);
    Server::start(spec).unwrap()
}

/// Waits for a report for which `what` returns true.
pub fn wait_for(server: &Server, what: impl Fn(&Report) -> bool) -> Report {
    let started = Instant::now();
    loop {
        let report = server.report();
        if what(&report) || started.elapsed() > STEP_LIMIT {
            assert!(what(&report), "{report:?}");
            return report;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub struct Response {
    pub code: u16,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Response {
    /// The Session header for requests.
    pub fn session(&self) -> String {
        let name = self.headers["session"].split(';').next().unwrap();
        format!("Session: {name}\r\n")
    }
}

/// All buffering modes.
pub const BUFFERINGS: [Buffering; 5] = [
    Buffering::Unbuffered,
    Buffering::Single,
    Buffering::Double,
    Buffering::Shared,
    Buffering::Mapped,
];

/// Offers interleaved frames.
pub const INTERLEAVED: &str = "Transport: RTP/AVP/TCP;interleaved=0-1\r\n";

/// An RTSP connection.
pub struct Client {
    socket: BufReader<TcpStream>,
    address: SocketAddr,
    sequence: u32,
    /// Frames that arrived before a response.
    pub frames: VecDeque<(u8, Vec<u8>)>,
}

impl Client {
    pub fn new(server: &Server) -> Self {
        let socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(STEP_LIMIT)).unwrap();
        Self {
            socket: BufReader::new(socket),
            address: server.address(),
            sequence: 0,
            frames: VecDeque::new(),
        }
    }

    pub fn send(&mut self, text: &str) {
        self.socket.get_mut().write_all(text.as_bytes()).unwrap();
    }

    pub fn request(&mut self, method: &str, path: &str, headers: &str) -> Response {
        self.sequence += 1;
        let uri = format!("rtsp://{}/{path}", self.address);
        let sequence = self.sequence;
        self.send(&format!(
            "{method} {uri} RTSP/1.0\r\nCSeq: {sequence}\r\n{headers}\r\n"
        ));
        let response = self.response();
        assert_eq!(response.headers["cseq"], self.sequence.to_string());
        response
    }

    pub fn response(&mut self) -> Response {
        while self.socket.fill_buf().unwrap().first() == Some(&b'$') {
            let frame = self.read_frame();
            self.frames.push_back(frame);
        }
        let line = self.line();
        let code = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers
            .get("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).unwrap();
        Response {
            code,
            headers,
            body: String::from_utf8(body).unwrap(),
        }
    }

    /// The channel and the data of the next interleaved frame (RFC 2326, section 10.12).
    pub fn frame(&mut self) -> (u8, Vec<u8>) {
        let frame = self.frames.pop_front();
        frame.unwrap_or_else(|| self.read_frame())
    }

    fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 4];
        self.socket.read_exact(&mut head).unwrap();
        assert_eq!(head[0], b'$');
        let mut data = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]]))];
        self.socket.read_exact(&mut data).unwrap();
        (head[1], data)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Whether the server closes the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).is_ok()
    }

    /// Sets up a session to a port. Returns its Session header.
    pub fn set_up(&mut self, path: &str, port: u16) -> String {
        let transport = format!(
            "Transport: RTP/AVP;unicast;client_port={port}-{}\r\n",
            port + 1
        );
        let response = self.request("SETUP", path, &transport);
        assert_eq!(response.code, 200);
        response.session()
    }

    /// Sets up and plays a session to a new socket.
    pub fn play(&mut self, path: &str) -> (UdpSocket, String) {
        let (socket, port) = receiver();
        let session = self.set_up(path, port);
        assert_eq!(self.request("PLAY", path, &session).code, 200);
        (socket, session)
    }
}

/// A socket for RTP packets.
pub fn receiver() -> (UdpSocket, u16) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        if port < u16::MAX {
            socket.set_read_timeout(Some(STEP_LIMIT)).unwrap();
            // Room for the packets that arrive while a busy machine does not run the test. Only root may have it.
            let _ = set_socket_recv_buffer_size_force(&socket, 4 << 20);
            return (socket, port);
        }
    }
}

/// Receives packets and compares them with a stream, starting at a given transport stream packet.
pub fn receive(socket: &UdpSocket, stream: Stream, mut index: u64, packets: usize) {
    let mut buffer = [0; 2048];
    for _ in 0..packets {
        let bytes = socket.recv(&mut buffer).unwrap();
        let (_, payload) = Header::split(&buffer[..bytes]).unwrap();
        for packet in payload.chunks(188) {
            assert_eq!(packet, stream.packet(index), "packet {index}");
            index += 1;
        }
    }
}
