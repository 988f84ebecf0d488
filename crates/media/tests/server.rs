//! What the media server answers, over real sockets: the dialogue of RFC 2326, and everything that
//! clients and files can do wrong.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use perpacket_requirements::skip;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use perpacket_media::server::{Buffering, Options, Report, Server};
use perpacket_media::wire::Header;
use perpacket_media::wire::synthesis::Stream;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

const STREAM: Stream = Stream {
    seed: 1,
    file: 0,
    rate_bps: 2_000_000,
};

/// Files that a test of a thousand sessions may have open.
const DESCRIPTORS: u64 = 4_000;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("perpacket-media-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        folder.write("a.ts", &synthesized(STREAM, 10.0));
        folder
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.0.join(name), content).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn synthesized(stream: Stream, seconds: f64) -> Vec<u8> {
    let packets = 0..stream.packets_in(seconds);
    packets.flat_map(|index| stream.packet(index)).collect()
}

fn serve(folder: &Folder, change: impl FnOnce(&mut Options)) -> Server {
    let mut options = Options::new(folder.0.clone(), "127.0.0.1:0".parse().unwrap());
    // The server runs in the process of the tests, which must not change its user.
    options.user = geteuid().is_root().then(|| "root".to_owned());
    // Lateness on a busy machine must not decide what is admitted.
    options.max_lateness = Duration::from_secs(3600);
    change(&mut options);
    Server::start(options).unwrap()
}

/// Waits until a report says so.
fn wait_for(server: &Server, what: impl Fn(&Report) -> bool) -> Report {
    let started = Instant::now();
    loop {
        let report = server.report();
        if what(&report) || started.elapsed() > PATIENCE {
            assert!(what(&report), "{report:?}");
            return report;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Answer {
    code: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Answer {
    /// The header line that names the session.
    fn session(&self) -> String {
        let name = self.headers["session"].split(';').next().unwrap();
        format!("Session: {name}\r\n")
    }
}

/// The four ways to buffer.
const BUFFERINGS: [Buffering; 4] = [
    Buffering::Single,
    Buffering::Double,
    Buffering::Shared,
    Buffering::Mapped,
];

/// For packets on the connection.
const INTERLEAVED: &str = "Transport: RTP/AVP/TCP;interleaved=0-1\r\n";

/// An RTSP connection.
struct Client {
    socket: BufReader<TcpStream>,
    address: SocketAddr,
    sequence: u32,
}

impl Client {
    fn new(server: &Server) -> Self {
        let socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket: BufReader::new(socket),
            address: server.address(),
            sequence: 0,
        }
    }

    fn send(&mut self, text: &str) {
        self.socket.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, headers: &str) -> Answer {
        self.sequence += 1;
        let uri = format!("rtsp://{}/{path}", self.address);
        let sequence = self.sequence;
        self.send(&format!(
            "{method} {uri} RTSP/1.0\r\nCSeq: {sequence}\r\n{headers}\r\n"
        ));
        let answer = self.answer();
        assert_eq!(answer.headers["cseq"], self.sequence.to_string());
        answer
    }

    fn answer(&mut self) -> Answer {
        while self.socket.fill_buf().unwrap().first() == Some(&b'$') {
            self.frame();
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
        Answer {
            code,
            headers,
            body: String::from_utf8(body).unwrap(),
        }
    }

    /// Takes one frame: its channel and what it carries (RFC 2326, section 10.12).
    fn frame(&mut self) -> (u8, Vec<u8>) {
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

    /// Whether the server closes the connection, after whatever else it says.
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).is_ok()
    }

    /// Sets up a session to a port and gives its header line.
    fn set_up(&mut self, path: &str, port: u16) -> String {
        let transport = format!(
            "Transport: RTP/AVP;unicast;client_port={port}-{}\r\n",
            port + 1
        );
        let answer = self.ask("SETUP", path, &transport);
        assert_eq!(answer.code, 200);
        answer.session()
    }

    /// Sets up a session to a socket of its own and plays it.
    fn play(&mut self, path: &str) -> (UdpSocket, String) {
        let (socket, port) = receiver();
        let session = self.set_up(path, port);
        assert_eq!(self.ask("PLAY", path, &session).code, 200);
        (socket, session)
    }
}

/// A socket for packets.
fn receiver() -> (UdpSocket, u16) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        if port < u16::MAX {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            return (socket, port);
        }
    }
}

/// Receives packets and checks that they are a stream's, from one of its packets on.
fn receive(socket: &UdpSocket, stream: Stream, mut index: u64, packets: usize) {
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

#[test]
fn a_client_describes_sets_up_plays_pauses_seeks_and_tears_down() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    assert!(client.ask("OPTIONS", "a.ts", "").headers["public"].contains("DESCRIBE"));
    let description = client.ask("DESCRIBE", "a.ts", "Accept: application/sdp\r\n");
    assert!(description.body.contains("m=video 0 RTP/AVP 33\r\n"));
    let (socket, port) = receiver();
    let session = client.set_up("a.ts/track1", port);
    let played = client.ask("PLAY", "a.ts", &session);
    let sequence = played.headers["rtp-info"].split("seq=").nth(1).unwrap();
    let sequence: u16 = sequence.split(';').next().unwrap().parse().unwrap();
    let mut buffer = [0; 2048];
    let bytes = socket.recv(&mut buffer).unwrap();
    let (header, payload) = Header::split(&buffer[..bytes]).unwrap();
    assert_eq!((header.sequence, header.payload_type), (sequence, 33));
    assert_eq!(&payload[..188], STREAM.packet(0));
    receive(&socket, STREAM, 7, 20);
    assert_eq!(client.ask("PAUSE", "a.ts", &session).code, 200);
    // Whatever was on its way arrives within this; after it, nothing.
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    while socket.recv(&mut buffer).is_ok() {}
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // Five seconds in: the first packet that is not due before.
    let seek = client.ask("PLAY", "a.ts", &format!("{session}Range: npt=5-\r\n"));
    let start: f64 = seek.headers["range"][4..]
        .split('-')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((5.0..5.1).contains(&start), "{start}");
    let index = (5.0f64 * 2e6 / 8.0 / 1316.0).ceil() as u64 * 7;
    receive(&socket, STREAM, index, 20);
    assert_eq!(client.ask("GET_PARAMETER", "a.ts", &session).code, 200);
    assert_eq!(client.ask("TEARDOWN", "a.ts", &session).code, 200);
    assert_eq!(client.ask("PLAY", "a.ts", &session).code, 454);
    let report = wait_for(&server, |report| report.sessions_open == 0);
    assert_eq!((report.playing, report.rate_bps, report.failed), (0, 0, 0));
}

#[test]
fn a_connection_that_carries_packets_outlives_a_pause_and_the_end_of_its_stream() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        let brief = synthesized(STREAM, 0.5);
        folder.write("brief.ts", &brief);
        let server = serve(&folder, |options| options.buffering = buffering);
        let mut client = Client::new(&server);
        let session = client.ask("SETUP", "brief.ts", INTERLEAVED).session();
        assert_eq!(client.ask("PLAY", "brief.ts", &session).code, 200);
        client.frame();
        for _ in 0..2 {
            assert_eq!(client.ask("PAUSE", "brief.ts", &session).code, 200);
        }
        let played = client.ask("PLAY", "brief.ts", &format!("{session}Range: npt=0-\r\n"));
        assert_eq!(played.code, 200);
        let mut received = Vec::new();
        while received.len() < brief.len() / 1316 * 1316 {
            // Reports go on the other channel.
            if let (0, packet) = client.frame() {
                received.extend_from_slice(Header::split(&packet).unwrap().1);
            }
        }
        assert!(brief.starts_with(&received), "{buffering:?}");
        wait_for(&server, |report| report.finished == 1);
        // A pause of what has ended already, as players ask for before they leave.
        assert_eq!(client.ask("PAUSE", "brief.ts", &session).code, 200);
        assert_eq!(client.ask("TEARDOWN", "brief.ts", &session).code, 200);
        assert_eq!(client.ask("OPTIONS", "brief.ts", "").code, 200);
    }
}

#[test]
fn each_buffering_sends_every_byte_to_the_end() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        let fast = Stream {
            rate_bps: 20_000_000,
            ..STREAM
        };
        folder.write("fast.ts", &synthesized(fast, 1.0));
        let server = serve(&folder, |options| options.buffering = buffering);
        let mut client = Client::new(&server);
        let (socket, _) = client.play("fast.ts");
        let packets = fast.packets_in(1.0) as usize / 7;
        receive(&socket, fast, 0, packets);
        let report = wait_for(&server, |report| report.finished == 1);
        assert_eq!(report.packets, packets as u64, "{buffering:?}");
        assert_eq!((report.failed, report.playing), (0, 0), "{buffering:?}");
    }
}

#[test]
fn what_makes_no_sense_is_answered_with_its_status() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    assert_eq!(client.ask("DESCRIBE", "missing.ts", "").code, 404);
    assert_eq!(client.ask("DESCRIBE", "../a.ts", "").code, 404);
    assert_eq!(client.ask("RECORD", "a.ts", "").code, 405);
    assert_eq!(client.ask("PLAY", "a.ts", "Session: 1\r\n").code, 454);
    assert_eq!(client.ask("SETUP", "a.ts", "Session: 1\r\n").code, 454);
    let required = client.ask("OPTIONS", "a.ts", "Require: implicit-play\r\n");
    assert_eq!(required.code, 551);
    assert_eq!(required.headers["unsupported"], "implicit-play");
    let (_socket, port) = receiver();
    let session = client.set_up("a.ts", port);
    for range in ["npt=11-", "npt=5-4", "smpte=0:10:00-", "npt=x-"] {
        let headers = format!("{session}Range: {range}\r\n");
        assert_eq!(client.ask("PLAY", "a.ts", &headers).code, 457, "{range}");
    }
    folder.write("b.ts", &synthesized(STREAM, 1.0));
    let transport = format!("{INTERLEAVED}{session}");
    assert_eq!(client.ask("SETUP", "b.ts", &transport).code, 459);
    assert_eq!(client.ask("PLAY", "a.ts", &session).code, 200);
    assert_eq!(client.ask("SETUP", "a.ts", &transport).code, 455);
    client.send("OPTIONS * RTSP/2.0\r\nCSeq: 99\r\n\r\n");
    assert_eq!(client.answer().code, 505);
}

#[test]
fn packets_go_nowhere_but_to_the_client_itself() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    for transport in [
        "RTP/AVP;unicast;destination=127.0.0.2;client_port=5000-5001",
        "RTP/AVP;unicast;client_port=0-1",
        "RTP/AVP;unicast;client_port=65535-65536",
        "RTP/AVP;unicast;client_port=70000-70001",
        "RTP/AVP;unicast;client_port=53-54",
        "RTP/AVP;multicast;client_port=5000-5001",
        "RTP/AVP;unicast",
    ] {
        let answer = client.ask("SETUP", "a.ts", &format!("Transport: {transport}\r\n"));
        assert_eq!(answer.code, 461, "{transport}");
    }
    assert_eq!(server.report().sessions, 0);
}

#[test]
fn malformed_requests_end_their_connection_and_no_other() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut good = Client::new(&server);
    assert_eq!(good.ask("OPTIONS", "a.ts", "").code, 200);
    let long = format!("OPTIONS {} RTSP/1.0\r\nCSeq: 1\r\n\r\n", "x".repeat(9_000));
    for bytes in [
        "\u{1}\u{2}\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "PLAY\r\n\r\n",
        &long,
    ] {
        let mut bad = Client::new(&server);
        bad.send(bytes);
        assert_eq!(bad.answer().code, 400);
        assert!(bad.is_closed());
    }
    assert_eq!(good.ask("OPTIONS", "a.ts", "").code, 200);
    assert_eq!(server.report().malformed, 4);
}

#[test]
fn files_that_are_no_media_are_refused_with_the_reason() {
    let folder = Folder::new();
    folder.write("empty.ts", b"");
    folder.write(
        "text.ts",
        b"this is no transport stream, whatever its name says"
            .repeat(20)
            .as_slice(),
    );
    folder.write("text.wav", b"RIFF");
    folder.write("short.ts", &synthesized(STREAM, 10.0)[..100]);
    fs::create_dir(folder.0.join("folder.ts")).unwrap();
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    for name in ["empty.ts", "text.ts", "text.wav", "short.ts"] {
        let answer = client.ask("DESCRIBE", name, "");
        assert_eq!(answer.code, 415, "{name}");
        assert!(answer.body.starts_with(name), "{}", answer.body);
    }
    assert_eq!(client.ask("DESCRIBE", "folder.ts", "").code, 404);
}

#[test]
fn a_file_cut_short_while_it_plays_ends_its_stream_and_no_other() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        folder.write("cut.ts", &synthesized(STREAM, 10.0));
        let server = serve(&folder, |options| {
            options.buffering = buffering;
            options.cache_bytes = 0;
        });
        let (mut client, mut other) = (Client::new(&server), Client::new(&server));
        let (socket, _) = client.play("cut.ts");
        receive(&socket, STREAM, 0, 1);
        fs::File::options()
            .write(true)
            .open(folder.0.join("cut.ts"))
            .and_then(|file| file.set_len(1000))
            .unwrap();
        let (steady, _) = other.play("a.ts");
        wait_for(&server, |report| report.failed == 1);
        receive(&steady, STREAM, 0, 50);
    }
}

#[test]
fn a_file_replaced_while_it_plays_plays_on_and_the_next_client_gets_the_new_one() {
    let folder = Folder::new();
    let server = serve(&folder, |options| options.cache_bytes = 0);
    let mut client = Client::new(&server);
    let (socket, _) = client.play("a.ts");
    receive(&socket, STREAM, 0, 1);
    let new = Stream { seed: 2, ..STREAM };
    folder.write("new.ts", &synthesized(new, 10.0));
    fs::rename(folder.0.join("new.ts"), folder.0.join("a.ts")).unwrap();
    let mut next = Client::new(&server);
    let (next_socket, _) = next.play("a.ts");
    receive(&next_socket, new, 0, 50);
    // Past the first blocks of the old file, which had been read before.
    receive(&socket, STREAM, 7, 450);
}

#[test]
fn sessions_beyond_the_limit_are_refused_and_the_others_are_not_disturbed() {
    let folder = Folder::new();
    let server = serve(&folder, |options| options.max_sessions = 20);
    let mut clients: Vec<Client> = (0..60).map(|_| Client::new(&server)).collect();
    let codes: Vec<u16> = clients
        .iter_mut()
        .map(|client| client.ask("SETUP", "a.ts", INTERLEAVED).code)
        .collect();
    assert!(codes[..20].iter().all(|&code| code == 200), "{codes:?}");
    assert!(codes[20..].iter().all(|&code| code == 453), "{codes:?}");
    // One leaves, and one more comes in.
    drop(clients.remove(0));
    wait_for(&server, |report| report.sessions_open == 19);
    assert_eq!(clients[30].ask("SETUP", "a.ts", INTERLEAVED).code, 200);
}

#[test]
fn of_10000_sessions_asked_of_a_server_limited_to_1000_a_thousand_are_given() {
    // Both ends of the connections are in this process, and those of the tests beside this one.
    let limit = getrlimit(Resource::Nofile);
    let has_room = |descriptors: Option<u64>| descriptors.is_none_or(|most| most >= DESCRIPTORS);
    if !has_room(limit.maximum) {
        skip(
            "descriptors",
            format_args!("a process may not open {DESCRIPTORS} files"),
        );
        return;
    }
    if !has_room(limit.current) {
        let current = Some(DESCRIPTORS);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    }
    let folder = Folder::new();
    let server = serve(&folder, |options| options.max_sessions = 1000);
    let mut kept = Vec::new();
    for number in 0..10_000 {
        let mut client = Client::new(&server);
        match client.ask("SETUP", "a.ts", INTERLEAVED).code {
            200 => kept.push(client),
            code => assert_eq!((code, kept.len()), (453, 1000), "session {number}"),
        }
    }
    let report = server.report();
    assert_eq!(
        (kept.len(), report.sessions, report.refused),
        (1000, 1000, 9000)
    );
    // Those that have a session are as well off as ever.
    assert_eq!(kept[999].ask("GET_PARAMETER", "a.ts", "").code, 200);
}

#[test]
fn media_cut_off_in_the_middle_of_a_packet_play_as_far_as_they_are_whole() {
    let folder = Folder::new();
    folder.write("cut.ts", &synthesized(STREAM, 10.0)[..70 * 188 + 100]);
    let server = serve(&folder, |_| {});
    let mut client = Client::new(&server);
    let (socket, _) = client.play("cut.ts");
    receive(&socket, STREAM, 0, 10);
    let report = wait_for(&server, |report| report.finished == 1);
    assert_eq!(
        (report.packets, report.bytes, report.failed),
        (10, 70 * 188, 0)
    );
}

#[test]
fn a_stream_beyond_the_rate_is_refused_until_another_pauses() {
    let folder = Folder::new();
    let server = serve(&folder, |options| options.max_rate_bps = 3_000_000);
    let (mut first, mut second) = (Client::new(&server), Client::new(&server));
    let ((_a, a), (_b, b)) = (receiver(), receiver());
    let (first_session, second_session) = (first.set_up("a.ts", a), second.set_up("a.ts", b));
    assert_eq!(first.ask("PLAY", "a.ts", &first_session).code, 200);
    assert_eq!(second.ask("PLAY", "a.ts", &second_session).code, 453);
    assert_eq!(first.ask("PAUSE", "a.ts", &first_session).code, 200);
    assert_eq!(second.ask("PLAY", "a.ts", &second_session).code, 200);
}

#[test]
fn a_session_that_never_tears_down_ends_by_itself() {
    let folder = Folder::new();
    let server = serve(&folder, |options| {
        options.session_timeout = Duration::from_secs(1)
    });
    let mut client = Client::new(&server);
    let _playing = client.play("a.ts");
    let report = wait_for(&server, |report| report.sessions_open == 0);
    assert_eq!((report.timed_out, report.playing), (1, 0));
    assert!(client.is_closed());
}

#[test]
fn a_receiver_that_vanishes_is_not_sent_to_for_ever() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        let server = serve(&folder, |options| options.buffering = buffering);
        let mut client = Client::new(&server);
        let (socket, _) = client.play("a.ts");
        receive(&socket, STREAM, 0, 1);
        drop(socket);
        wait_for(&server, |report| {
            report.unreachable == 1 && report.playing == 0
        });
    }
}

#[test]
fn a_client_that_does_not_read_its_connection_loses_frames_and_delays_nobody() {
    let folder = Folder::new();
    let fast = Stream {
        rate_bps: 200_000_000,
        ..STREAM
    };
    folder.write("fast.ts", &synthesized(fast, 1.5));
    let server = serve(&folder, |_| {});
    let mut slow = Client::new(&server);
    let session = slow.ask("SETUP", "fast.ts", INTERLEAVED).session();
    assert_eq!(slow.ask("PLAY", "fast.ts", &session).code, 200);
    let mut client = Client::new(&server);
    let (socket, _) = client.play("a.ts");
    receive(&socket, STREAM, 0, 50);
    wait_for(&server, |report| report.dropped > 0);
}

#[test]
fn a_viewer_after_another_is_served_from_the_cache() {
    let folder = Folder::new();
    folder.write("short.ts", &synthesized(STREAM, 0.5));
    let server = serve(&folder, |_| {});
    let packets = STREAM.packets_in(0.5) as usize / 7;
    let mut reads = Vec::new();
    for viewer in 1..=3 {
        let mut client = Client::new(&server);
        let (socket, _) = client.play("short.ts");
        receive(&socket, STREAM, 0, packets);
        wait_for(&server, |report| report.finished == viewer);
        drop((client, socket));
        reads.push(wait_for(&server, |report| report.connections_open == 0).reads);
    }
    assert!(reads[0] > 0 && reads[2] == reads[0], "{reads:?}");
}

#[test]
fn a_viewer_after_a_change_of_the_file_gets_the_new_content() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    for seed in [1, 2] {
        let stream = Stream { seed, ..STREAM };
        folder.write("new.ts", &synthesized(stream, 10.0));
        fs::rename(folder.0.join("new.ts"), folder.0.join("a.ts")).unwrap();
        let mut client = Client::new(&server);
        let (socket, _) = client.play("a.ts");
        receive(&socket, stream, 0, 50);
        drop(client);
        wait_for(&server, |report| report.connections_open == 0);
    }
}
