//! Reading and checking responses.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::server::{Server, response};

#[test]
fn chunked_bodies_and_bodies_until_the_close_are_read() {
    let server = Server::start(|head, stream| {
        if head.starts_with("GET /file HTTP/1.0") {
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil").unwrap();
            return false;
        }
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        stream.write_all(chunks).is_ok()
    });
    for version in ["1.0", "1.1"] {
        let report = server.load(
            "/file",
            &format!("--connections 2 --requests 20 --http {version}"),
        );
        assert_eq!(
            (report.body_bytes, report.errors.len()),
            (100, 0),
            "{:?}",
            report.errors
        );
    }
}

#[test]
fn a_body_with_another_digest_is_an_error() {
    let requests = AtomicU64::new(0);
    let server = Server::start(move |_, stream| {
        let body = if requests.fetch_add(1, Ordering::SeqCst) == 5 {
            b"abd"
        } else {
            b"abc"
        };
        stream.write_all(&response(body)).is_ok()
    });
    let report = server.load("/file", "--connections 1 --requests 10 --check digest");
    assert_eq!(
        report.errors.get("changed_body"),
        Some(&1),
        "{:?}",
        report.errors
    );
}

#[test]
fn a_line_of_400_kilobits_carries_90_kilobytes_in_1_8_seconds() {
    let server = Server::of_bytes(90_000);
    let report = server.load("/file", "--connections 2 --requests 2 --line-speed 400000");
    // SPECweb99's 320,000 b/s. A busy machine may be slower, and then the connection does not
    // conform.
    let bps = report.body_bytes as f64 / 2.0 * 8.0 / report.duration_s;
    if bps > 320_000.0 {
        assert_eq!(report.conforming, Some(2));
    }
    assert!(
        report.latency_us.service.p50 >= 1_800_000.0,
        "{:?}",
        report.latency_us
    );
}

#[test]
fn connections_below_their_line_speed_do_not_conform() {
    let server = Server::start(|_, stream| {
        thread::sleep(Duration::from_millis(300));
        stream.write_all(&response(&[b'x'; 1000])).is_ok()
    });
    let report = server.load("/file", "--connections 2 --line-speed 400000 --duration 1s");
    assert_eq!(report.conforming, Some(0));
}

#[test]
fn every_status_is_counted_under_its_own_code() {
    for status in [204, 599, 600, 999] {
        let server = Server::start(move |_, stream| {
            let text = format!("HTTP/1.1 {status} Odd\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(text.as_bytes()).is_ok()
        });
        let report = server.load("/file", "--connections 1 --requests 4");
        let statuses: Vec<_> = report.statuses.into_iter().collect();
        assert_eq!(statuses, [(status, 4)]);
    }
}

/// A server that redirects every request elsewhere.
fn redirecting(status: &'static str) -> Server {
    Server::start(move |_, stream| {
        let text = format!("HTTP/1.1 {status}\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(text.as_bytes()).is_ok()
    })
}

#[test]
fn a_load_that_only_gets_redirects_has_failed_and_names_the_new_location() {
    for status in ["301 Moved Permanently", "307 Temporary Redirect"] {
        let server = redirecting(status);
        let report = server.load("/file", "--connections 2 --requests 10");
        assert_eq!((report.requests, report.sound), (10, 0));
        assert_eq!(report.errors["unexpected_status"], 10);
        let failure = report.failure().unwrap();
        assert!(failure.contains("to /new"), "{failure}");
        let notes = report.notes.join("\n");
        assert!(notes.contains("10 responses are redirects"), "{notes}");
    }
}

#[test]
fn not_modified_is_not_a_redirect() {
    let server = redirecting("304 Not Modified");
    let report = server.load("/file", "--connections 2 --requests 10");
    assert_eq!((report.sound, report.errors.len()), (10, 0));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}
