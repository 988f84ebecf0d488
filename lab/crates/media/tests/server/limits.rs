//! Limits of sessions, rates and times, and clients that do not read.

use perpacket_media::wire::synthesis::Stream;
use perpacket_requirements::skip;
use perpacket_spec::{BitRate, Time};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::client::{
    BUFFERINGS, Client, Folder, INTERLEAVED, STREAM, receive, receiver, serve, synthesized,
    wait_for,
};

/// Descriptors for the test of a thousand sessions.
const DESCRIPTORS: u64 = 4_000;

#[test]
fn sessions_above_the_limit_are_refused() {
    let folder = Folder::new();
    let server = serve(&folder, |spec| spec.max_sessions = 20);
    let mut clients: Vec<Client> = (0..60).map(|_| Client::new(&server)).collect();
    let codes: Vec<u16> = clients
        .iter_mut()
        .map(|client| client.request("SETUP", "a.ts", INTERLEAVED).code)
        .collect();
    assert!(codes[..20].iter().all(|&code| code == 200), "{codes:?}");
    assert!(codes[20..].iter().all(|&code| code == 453), "{codes:?}");
    // After one session ends, another is admitted.
    drop(clients.remove(0));
    wait_for(&server, |report| report.sessions_open == 19);
    assert_eq!(clients[30].request("SETUP", "a.ts", INTERLEAVED).code, 200);
}

#[test]
fn a_server_limited_to_1000_sessions_admits_1000_of_10000() {
    // This process has the descriptors of both ends of the connections, and those of other tests.
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
    let server = serve(&folder, |spec| spec.max_sessions = 1000);
    let mut kept = Vec::new();
    for number in 0..10_000 {
        let mut client = Client::new(&server);
        match client.request("SETUP", "a.ts", INTERLEAVED).code {
            200 => kept.push(client),
            code => assert_eq!((code, kept.len()), (453, 1000), "session {number}"),
        }
    }
    let report = server.report();
    assert_eq!(
        (kept.len(), report.sessions, report.refused),
        (1000, 1000, 9000)
    );
    // The admitted sessions still work.
    assert_eq!(kept[999].request("GET_PARAMETER", "a.ts", "").code, 200);
}

#[test]
fn a_stream_above_the_rate_is_refused_until_another_pauses() {
    let folder = Folder::new();
    let server = serve(&folder, |spec| spec.max_bit_rate = Some(BitRate(3_000_000)));
    let (mut first, mut second) = (Client::new(&server), Client::new(&server));
    let ((_a, a), (_b, b)) = (receiver(), receiver());
    let (first_session, second_session) = (first.set_up("a.ts", a), second.set_up("a.ts", b));
    assert_eq!(first.request("PLAY", "a.ts", &first_session).code, 200);
    assert_eq!(second.request("PLAY", "a.ts", &second_session).code, 453);
    assert_eq!(first.request("PAUSE", "a.ts", &first_session).code, 200);
    assert_eq!(second.request("PLAY", "a.ts", &second_session).code, 200);
}

#[test]
fn a_session_without_teardown_times_out() {
    let folder = Folder::new();
    let server = serve(&folder, |spec| spec.session_timeout = Time::from_secs(1));
    let mut client = Client::new(&server);
    let _playing = client.play("a.ts");
    let report = wait_for(&server, |report| report.sessions_open == 0);
    assert_eq!((report.timed_out, report.playing), (1, 0));
    assert!(client.is_closed());
}

#[test]
fn a_stream_to_a_closed_port_ends() {
    for buffering in BUFFERINGS {
        let folder = Folder::new();
        let server = serve(&folder, |spec| spec.buffering = buffering);
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
fn a_client_that_does_not_read_loses_frames_and_delays_no_other() {
    let folder = Folder::new();
    let fast = Stream {
        rate_bps: 200_000_000,
        ..STREAM
    };
    folder.write("fast.ts", &synthesized(fast, 1.5));
    let server = serve(&folder, |_| {});
    let mut slow = Client::new(&server);
    let session = slow.request("SETUP", "fast.ts", INTERLEAVED).session();
    assert_eq!(slow.request("PLAY", "fast.ts", &session).code, 200);
    let mut client = Client::new(&server);
    let (socket, _) = client.play("a.ts");
    receive(&socket, STREAM, 0, 50);
    wait_for(&server, |report| report.dropped > 0);
}
