//! Tests of the steps of a loop, on a socket pair.

use super::*;
use crate::files::cache::{Cache, CacheHandle};
use crate::site::Site;
use crate::spec::Spec;
use perpacket_linux::memory::SharedTable;
use perpacket_spec::parse;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A handler that serves a folder with one file.
fn handler(folder: &std::path::Path) -> ConnectionHandler {
    std::fs::write(folder.join("a.txt"), "short").unwrap();
    let spec: Spec = parse(&format!("--routes --root {}", folder.display())).unwrap();
    let counters = Arc::new(SharedTable::new(1).unwrap());
    let site = Site::new(spec, None, counters, 10).unwrap();
    let cache = CacheHandle::Own(Box::new(Cache::new(1 << 20)));
    ConnectionHandler::new(Worker::new(Arc::new(site), 0, cache, false), None)
}

/// A connection on which a client has just sent a request.
fn requesting(path: &str) -> (UnixStream, Connection) {
    let (mut client, socket) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut connection = Connection::new(socket.into(), Ipv4Addr::LOCALHOST.into(), None);
    connection.is_readable = true;
    (client, connection)
}

/// The first line of a response that has arrived.
fn status_line(client: &mut UnixStream) -> String {
    let mut answer = [0; 4096];
    let count = client.read(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer[..count]).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn only_cached_files_are_answered_before_the_responses_to_others_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let mut handler = handler(folder.path());
    let (mut client, mut first) = requesting("/a.txt");
    handler.worker.defers = true;
    assert_eq!(handler.read_and_answer(&mut first), ConnectionStatus::Open);
    assert!(first.out.is_none(), "the file has to be read first");
    assert_eq!(handler.advance(&mut first, 0), ConnectionStatus::Deferred);
    handler.worker.defers = false;
    assert_eq!(handler.advance(&mut first, 0), ConnectionStatus::Open);
    assert_eq!(status_line(&mut client), "HTTP/1.1 200 OK");

    let (mut short_client, mut short) = requesting("/a.txt");
    let (mut long_client, mut long) = requesting("/work?us=1");
    handler.worker.defers = true;
    assert_eq!(handler.read_and_answer(&mut short), ConnectionStatus::Open);
    assert_eq!(handler.read_and_answer(&mut long), ConnectionStatus::Open);
    assert!(short.out.is_some(), "answered from the cache");
    assert!(long.out.is_none() && long.has_requests, "deferred");
    assert_eq!(handler.advance(&mut short, 1), ConnectionStatus::Open);
    assert_eq!(status_line(&mut short_client), "HTTP/1.1 200 OK");
    assert_eq!(handler.advance(&mut long, 2), ConnectionStatus::Deferred);
    handler.worker.defers = false;
    assert_eq!(handler.advance(&mut long, 2), ConnectionStatus::Open);
    assert_eq!(status_line(&mut long_client), "HTTP/1.1 200 OK");
    assert!(!long.has_requests && long.input.is_empty() && long.out.is_none());
}

#[test]
fn a_100_response_does_not_extend_the_time_for_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let mut handler = handler(folder.path());
    let (mut client, socket) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut connection = Connection::new(socket.into(), Ipv4Addr::LOCALHOST.into(), None);
    for part in [
        "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n",
        "Expect: 100-continue\r\n\r\n",
    ] {
        client.write_all(part.as_bytes()).unwrap();
        connection.is_readable = true;
        assert_eq!(handler.advance(&mut connection, 0), ConnectionStatus::Open);
        handler.worker.clock.now_ms += 1000;
    }
    assert_eq!(status_line(&mut client), "HTTP/1.1 100 Continue");
    assert_eq!(connection.waiting, Waiting::Request);
    let since_ms = connection.deadline_ms - handler.request_ms;
    assert_eq!(
        since_ms,
        handler.worker.clock.now_ms - 2000,
        "since the request began"
    );
}

#[test]
fn a_complete_body_survives_the_deferral_of_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let mut handler = handler(folder.path());
    let (mut client, mut connection) = requesting("/");
    write!(
        client,
        "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
         GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n"
    )
    .unwrap();
    handler.worker.defers = true;
    assert_eq!(
        handler.read_and_answer(&mut connection),
        ConnectionStatus::Open
    );
    assert_eq!(
        handler.advance(&mut connection, 0),
        ConnectionStatus::Deferred
    );
    handler.worker.defers = false;
    assert_eq!(handler.advance(&mut connection, 0), ConnectionStatus::Open);
    let mut answers = [0; 65_536];
    let count = client.read(&mut answers).unwrap();
    let text = String::from_utf8_lossy(&answers[..count]).into_owned();
    let statuses: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("HTTP/"))
        .collect();
    assert_eq!(statuses.len(), 3, "{text}");
    assert!(
        statuses[1].contains(" 405 ") && statuses[2].contains(" 200 "),
        "{text}"
    );
}
