//! Servers that disappear, close early, or send invalid responses or none.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use perpacket_load::LoadError;
use perpacket_load::http::run;

use crate::server::{Server, response};
use crate::spec;

#[test]
fn the_report_of_a_server_that_dies_contains_its_earlier_responses() {
    let server = Arc::new(Server::of_bytes(100));
    let killer = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            server.kill();
        })
    };
    // The load lasts an hour, but without a server the run ends long before that.
    let report = server.load("/file", "--connections 8 --duration 3600s");
    killer.join().unwrap();
    assert!(report.duration_s < 3600.0, "{}", report.duration_s);
    assert!(
        report.requests > 0 && report.errors["refused"] > 0,
        "{:?}",
        report.errors
    );
    assert!(report.server_gone_s.is_some());
    assert!(
        report.failure().unwrap().contains("gone"),
        "{:?}",
        report.failure()
    );
}

#[test]
fn a_missing_server_is_an_error_before_the_run() {
    let server = Server::of_bytes(1);
    server.kill();
    thread::sleep(Duration::from_millis(100));
    let error = run(
        spec(&server.url("/file"), "--connections 1 --duration 500ms"),
        &AtomicBool::new(false),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&server.address.to_string()));
    assert!(error.hint().is_some());
}

/// Expects ten errors of one kind from a server that sends some bytes and closes.
fn errors_of(bytes: &'static [u8], expected: &str) {
    let server = Server::start(move |_, stream| {
        stream.write_all(bytes).unwrap();
        false
    });
    let report = server.load("/file", "--connections 2 --requests 10");
    assert_eq!(
        report.errors.get(expected),
        Some(&10),
        "{:?}",
        report.errors
    );
    assert!(!report.error_examples[expected].is_empty());
}

#[test]
fn invalid_responses_are_counted_by_kind() {
    errors_of(
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        "short_body",
    );
    errors_of(b"SMTP ready\r\n\r\n", "bad_response");
    errors_of(b"", "closed");
    errors_of(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "short_body",
    );
    errors_of(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        "bad_response",
    );
    errors_of(
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        "unexpected_status",
    );
}

#[test]
fn a_reset_and_a_time_out_are_counted_separately() {
    let server = Server::start(|_, stream| {
        rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
        // A socket that is dropped with unread data and no linger sends a reset.
        false
    });
    let report = server.load("/file", "--connections 1 --requests 3");
    let resets = report.errors.get("reset").copied().unwrap_or(0);
    let closed = report.errors.get("closed").copied().unwrap_or(0);
    assert_eq!(resets + closed, 3, "{:?}", report.errors);
    let silent = Server::start(|_, _| {
        thread::sleep(Duration::from_secs(2));
        false
    });
    let report = silent.load("/file", "--connections 2 --requests 2 --timeout 200ms");
    assert_eq!(
        report.errors.get("timed_out"),
        Some(&2),
        "{:?}",
        report.errors
    );
    assert!(report.failure().unwrap().contains("timed_out"));
}

#[test]
fn a_server_that_closes_an_idle_connection_causes_no_error() {
    let requests = AtomicU64::new(0);
    let server = Server::start(move |_, stream| {
        // Closes the connection after every third response without announcing it.
        stream.write_all(&response(b"x")).is_ok()
            && requests.fetch_add(1, Ordering::SeqCst) % 3 != 2
    });
    let report = server.load("/file", "--connections 1 --requests 60");
    assert_eq!(
        (report.requests, report.errors.len()),
        (60, 0),
        "{:?}",
        report.errors
    );
    assert!(
        report.connections_opened >= 20,
        "{}",
        report.connections_opened
    );
}

/// After the server has ended, requests are not sent. The report must not blame busy connections.
#[test]
fn the_notes_name_a_missing_server_instead_of_busy_connections() {
    let server = Arc::new(Server::of_bytes(100));
    let killer = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            server.kill();
        })
    };
    let report = server.load("/file", "--connections 4 --rate 500.0 --duration 60s");
    killer.join().unwrap();
    assert!(report.server_gone_s.is_some());
    let notes = report.notes.join("\n");
    assert!(!notes.contains("busy"), "{notes}");
    if report.unsent > 0 {
        assert!(notes.contains("the server was gone"), "{notes}");
    }
}

/// A response with an unexpected status is a failed request.
#[test]
fn a_load_of_failures_only_has_failed_and_names_the_errors() {
    let server = Server::start(|_, stream| {
        let text = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(text).is_ok()
    });
    let report = server.load("/file", "--connections 2 --requests 10");
    assert_eq!((report.requests, report.sound), (10, 0));
    let failure = report.failure().unwrap();
    assert!(
        failure.contains("10 unexpected_status (status 404)"),
        "{failure}"
    );
}

#[test]
fn a_load_with_one_good_response_has_not_failed() {
    let requests = AtomicU64::new(0);
    let server = Server::start(
        move |_, stream| match requests.fetch_add(1, Ordering::SeqCst) {
            0 => stream.write_all(&response(b"x")).is_ok(),
            _ => false,
        },
    );
    let report = server.load("/file", "--connections 1 --requests 5");
    assert_eq!(report.sound, 1, "{:?}", report.errors);
    assert!(!report.errors.is_empty() && report.failure().is_none());
}

#[test]
fn a_load_without_a_response_has_failed() {
    let server = Server::start(|_, _| {
        thread::sleep(Duration::from_secs(2));
        false
    });
    let report = server.load("/file", "--connections 2 --duration 500ms");
    assert_eq!((report.requests, report.errors.len()), (0, 0));
    assert!(report.failure().unwrap().contains("to 2 requests"));
}
