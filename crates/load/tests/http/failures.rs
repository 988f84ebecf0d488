//! Servers that are gone, break off, answer nonsense or nothing.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use perpacket_load::LoadError;
use perpacket_load::http::{Arrivals, Process, Settings, run};

use crate::server::{Server, response};
use crate::{load, settings};

#[test]
fn a_server_that_dies_in_the_middle_is_reported_with_what_it_did_before() {
    let server = Arc::new(Server::of_bytes(100));
    let killer = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            server.kill();
        })
    };
    // Of an hour, which it does not wait for without a server.
    let report = load(Settings {
        duration: Some(Duration::from_secs(3600)),
        ..settings(&server, 8)
    });
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
fn a_server_that_is_not_there_is_named_before_the_run() {
    let server = Server::of_bytes(1);
    server.kill();
    thread::sleep(Duration::from_millis(100));
    let error = run(settings(&server, 1), &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&server.address.to_string()));
    assert!(error.hint().is_some());
}

/// The errors of ten requests to a server that answers with some bytes and closes.
fn errors_of(bytes: &'static [u8], expected: &str) {
    let server = Server::start(move |_, stream| {
        stream.write_all(bytes).unwrap();
        false
    });
    let report = load(Settings {
        requests: Some(10),
        duration: None,
        ..settings(&server, 2)
    });
    assert_eq!(
        report.errors.get(expected),
        Some(&10),
        "{:?}",
        report.errors
    );
    assert!(!report.error_examples[expected].is_empty());
}

#[test]
fn broken_responses_are_told_apart() {
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
fn a_reset_and_a_silence_are_told_apart() {
    let server = Server::start(|_, stream| {
        rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
        // Dropped with data unread and no linger, a socket sends a reset.
        false
    });
    let report = load(Settings {
        requests: Some(3),
        duration: None,
        ..settings(&server, 1)
    });
    let resets = report.errors.get("reset").copied().unwrap_or(0);
    let closed = report.errors.get("closed").copied().unwrap_or(0);
    assert_eq!(resets + closed, 3, "{:?}", report.errors);
    let silent = Server::start(|_, _| {
        thread::sleep(Duration::from_secs(2));
        false
    });
    let report = load(Settings {
        requests: Some(2),
        duration: None,
        timeout: Duration::from_millis(200),
        ..settings(&silent, 2)
    });
    assert_eq!(
        report.errors.get("timed_out"),
        Some(&2),
        "{:?}",
        report.errors
    );
    assert!(report.failure().unwrap().contains("timed_out"));
}

#[test]
fn a_kept_connection_that_the_server_closes_costs_no_request() {
    let asked = AtomicU64::new(0);
    let server = Server::start(move |_, stream| {
        // Closes after every third answer, without a word.
        stream.write_all(&response(b"x")).is_ok() && asked.fetch_add(1, Ordering::SeqCst) % 3 != 2
    });
    let report = load(Settings {
        requests: Some(60),
        duration: None,
        ..settings(&server, 1)
    });
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

/// What was not sent to a server that had died was not held up by busy connections.
#[test]
fn an_open_load_whose_server_dies_does_not_blame_its_connections() {
    let server = Arc::new(Server::of_bytes(100));
    let killer = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            server.kill();
        })
    };
    let report = load(Settings {
        arrivals: Arrivals::Requests {
            per_s: 500.0,
            process: Process::Fixed,
        },
        duration: Some(Duration::from_secs(60)),
        ..settings(&server, 4)
    });
    killer.join().unwrap();
    assert!(report.server_gone_s.is_some());
    let notes = report.notes.join("\n");
    assert!(!notes.contains("busy"), "{notes}");
    if report.unsent > 0 {
        assert!(notes.contains("the server was gone"), "{notes}");
    }
}

/// An answer that the workload cannot use is a failed request as well: a load of nothing else failed.
#[test]
fn a_load_in_which_every_request_fails_has_failed_and_names_the_kinds() {
    let server = Server::start(|_, stream| {
        let text = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(text).is_ok()
    });
    let report = load(Settings {
        requests: Some(10),
        duration: None,
        ..settings(&server, 2)
    });
    assert_eq!((report.requests, report.sound), (10, 0));
    let failure = report.failure().unwrap();
    assert!(
        failure.contains("10 unexpected_status (status 404)"),
        "{failure}"
    );
}

#[test]
fn a_load_in_which_one_request_went_well_has_not_failed() {
    let asked = AtomicU64::new(0);
    let server = Server::start(
        move |_, stream| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => stream.write_all(&response(b"x")).is_ok(),
            _ => false,
        },
    );
    let report = load(Settings {
        requests: Some(5),
        duration: None,
        ..settings(&server, 1)
    });
    assert_eq!(report.sound, 1, "{:?}", report.errors);
    assert!(!report.errors.is_empty() && report.failure().is_none());
}

#[test]
fn a_load_that_nobody_answers_has_failed() {
    let server = Server::start(|_, _| {
        thread::sleep(Duration::from_secs(2));
        false
    });
    let report = load(settings(&server, 2));
    assert_eq!((report.requests, report.errors.len()), (0, 0));
    assert!(report.failure().unwrap().contains("to 2 requests"));
}
