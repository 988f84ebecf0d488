//! Tests of the start times of requests, and of reports of requests that could not start.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use perpacket_load::http::run;

use crate::server::{Server, response};
use crate::spec;

#[test]
fn a_closed_loop_counts_every_response_once() {
    let server = Server::of_bytes(700);
    let report = server.load("/file", "--connections 4 --requests 500 --threads 2");
    assert_eq!(
        (report.requests, report.unfinished, report.errors.len()),
        (500, 0, 0)
    );
    assert_eq!(report.body_bytes, 500 * 700);
    assert_eq!(report.latency_us.service.count, 500);
    assert_eq!((report.connections_opened, report.statuses[&200]), (4, 500));
    // Four connections have at most four requests under way.
    assert!(
        report.load_factor > 0.0 && report.load_factor < 4.01,
        "{}",
        report.load_factor
    );
}

/// A server that stops for a fifth of a run delays every request of that time, whether or not the
/// generator has a free connection.
#[test]
fn a_frozen_server_shows_in_the_response_times_and_not_in_the_median_service_time() {
    let server = Arc::new(Server::of_bytes(100));
    let freezer = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(1000));
            server.freeze(Duration::from_millis(800));
        })
    };
    let report = server.load("/file", "--connections 16 --rate 400.0 --duration 4s");
    freezer.join().unwrap();
    let pair = report.latency_us;
    // On every machine, a request that starts at the begin of the freeze waits for the end of the
    // freeze.
    assert!(pair.response.max > 750_000.0, "{pair:?}");
    // Only requests on the sixteen connections waited after their send.
    assert!(pair.service.p90 < pair.response.p90, "{pair:?}");
    let arrived = report.requests + report.unsent + report.unfinished;
    assert_eq!(arrived, 1600, "every arrival is counted");
}

#[test]
fn a_fractional_rate_is_accepted() {
    let server = Server::of_bytes(10);
    let report = server.load("/file", "--connections 4 --rate 2.5 --duration 2s");
    // Arrivals at 0, 0.4, 0.8, 1.2 and 1.6 s.
    let arrived = report.requests + report.unsent + report.unfinished;
    assert_eq!(arrived, 5);
}

#[test]
fn arrivals_without_a_free_connection_are_counted_as_unsent() {
    let server = Server::start(|_, stream| {
        thread::sleep(Duration::from_millis(200));
        stream.write_all(&response(b"late")).is_ok()
    });
    let report = server.load("/file", "--connections 2 --rate 100.0 --duration 1s");
    assert_eq!(report.requests + report.unsent + report.unfinished, 100);
    assert!(report.unsent > 80, "{}", report.unsent);
    assert!(
        report.notes.iter().any(|note| note.contains("not sent")),
        "{:?}",
        report.notes
    );
}

#[test]
fn nothing_in_the_warm_up_counts() {
    let answered = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&answered);
    let server = Server::start(move |_, stream| {
        counter.fetch_add(1, Ordering::SeqCst);
        stream.write_all(&response(b"x")).is_ok()
    });
    let report = server.load(
        "/file",
        "--connections 4 --rate 100.0 --warmup 500ms --duration 500ms",
    );
    let answered = answered.load(Ordering::SeqCst);
    assert!(report.requests < answered, "{} {answered}", report.requests);
    assert!(report.duration_s <= 0.5, "{}", report.duration_s);
}

#[test]
fn each_arriving_session_has_its_own_connection() {
    let server = Server::of_bytes(10);
    let report = server.load(
        "/file",
        "--connections 8 --sessions-rate 40.0 --requests-per-connection 3 --duration 990ms",
    );
    assert_eq!(report.connections_opened + report.unsent, 40);
    // Each session has three requests, unless the end of the run cut it off.
    assert!(
        (1..=3 * report.connections_opened).contains(&report.requests),
        "{report:?}"
    );
}

#[test]
fn an_interrupted_run_returns_its_measurements() {
    let server = Server::of_bytes(10);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let ender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        flag.store(true, Ordering::SeqCst);
    });
    let long = spec(&server.url("/file"), "--connections 2 --duration 3600s");
    let report = run(long, &stop, &mut |_| ()).unwrap();
    ender.join().unwrap();
    assert!(report.interrupted && report.requests > 0 && report.duration_s < 3600.0);
}

#[test]
fn memory_does_not_grow_with_the_run() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let server = Server::of_bytes(10);
    server.load("/file", "--connections 4 --duration 500ms");
    let before = resident();
    let report = server.load("/file", "--connections 4 --duration 1500ms");
    let grown = resident().saturating_sub(before);
    assert!(report.requests > 100, "{}", report.requests);
    // Storing one time per request would need 8 bytes each. The limit is generous, because other
    // tests run at the same time.
    assert!(grown < 64_000_000, "{grown} bytes more");
}
