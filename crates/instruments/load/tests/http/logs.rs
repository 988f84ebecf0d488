//! Logs: replayed with or without their times, whole or in shards.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use perpacket_load::http::run;

use crate::server::{Server, response};
use crate::spec;

/// Writes a log of `lines`. Returns its directory, which is deleted when dropped, and the path of
/// the log.
fn log(lines: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    std::fs::write(&path, lines).unwrap();
    (directory, path)
}

fn line(host: &str, second: u32, request: &str, status: u16, bytes: &str) -> String {
    format!("{host} - - [01/Jul/1995:00:00:{second:02} -0400] \"{request}\" {status} {bytes}\n")
}

#[test]
fn a_log_is_replayed_at_its_times_with_one_connection_per_session() {
    let lines = [
        line("a", 0, "GET /1 HTTP/1.0", 200, "10"),
        line("b", 0, "GET /2 HTTP/1.0", 200, "10"),
        line("a", 1, "GET /3 HTTP/1.0", 304, "-"),
        line("a", 40, "GET /1 HTTP/1.0", 200, "10"),
        line("c", 40, "PUT /1 HTTP/1.0", 200, "10"),
        "garbage\n".to_owned(),
    ];
    let (_directory, path) = log(&lines.concat());
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heads = Arc::clone(&seen);
    let begun = Instant::now();
    let server = Server::start(move |head, stream| {
        heads
            .lock()
            .unwrap()
            .push((begun.elapsed(), head.to_owned()));
        let close = head.contains("Connection: close");
        stream.write_all(&response(b"0123456789")).is_ok() && !close
    });
    let report = server.load(
        "/",
        &format!(
            "--connections 8 --speed 20.0 --replay {} --spread none",
            path.display()
        ),
    );
    let trace = report.trace.unwrap();
    assert_eq!(
        (
            trace.requests,
            trace.sessions,
            trace.skipped,
            trace.rejected
        ),
        (4, 3, 1, 1)
    );
    assert_eq!(
        (report.requests, report.errors.len(), report.unsent),
        (4, 0, 0)
    );
    // A pause of more than fifteen seconds ends a session, so the request of host a at 39 s opens a
    // new connection.
    assert_eq!(report.connections_opened, 3);
    let seen = seen.lock().unwrap();
    // No request arrives before its time. On a busy machine a request may arrive later.
    let times: Vec<_> = seen.iter().map(|(time, _)| *time).collect();
    assert!(
        times[2] >= Duration::from_millis(50) && times[3] >= Duration::from_secs(2),
        "{times:?}"
    );
    assert!(seen[2].1.contains("If-Modified-Since: "), "{}", seen[2].1);
}

#[test]
fn the_shards_of_a_log_contain_every_request_once() {
    let hosts = 0..30;
    let lines = hosts.map(|host| line(&format!("h{host}"), host % 3, "GET /1 HTTP/1.0", 200, "10"));
    let (_directory, path) = log(&lines.collect::<String>());
    let server = Server::of_bytes(10);
    let requests = (0..3).map(|index| {
        server
            .load(
                "/",
                &format!(
                    "--connections 9 --speed 100.0 --replay {} --spread none --shard {}/3",
                    path.display(),
                    index + 1
                ),
            )
            .requests
    });
    assert_eq!(requests.collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn a_log_without_a_usable_request_is_an_error() {
    let server = Server::of_bytes(10);
    let (_directory, path) = log(&line("a", 0, "DELETE /1 HTTP/1.0", 200, "10"));
    let error = run(
        spec(
            &server.url("/file"),
            &format!(
                "--connections 1 --speed 1.0 --replay {} --spread none",
                path.display()
            ),
        ),
        &AtomicBool::new(false),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(error.to_string().contains("no usable request"), "{error}");
    assert_eq!(server.connections(), 0);
}

/// A log of three clients with two requests each.
fn six_requests() -> String {
    let clients = ["a", "b", "c"];
    let of = |client| line(client, 0, "GET /1 HTTP/1.0", 200, "1").repeat(2);
    clients.map(of).concat()
}

#[test]
fn a_log_without_its_times_is_replayed_once_with_a_note() {
    let (_directory, path) = log(&six_requests());
    let server = Server::of_bytes(1);
    let report = server.load(
        "/",
        &format!("--connections 64 --replay {} --speed max", path.display()),
    );
    assert_eq!((report.requests, report.errors.len()), (6, 0));
    assert_eq!(report.trace.as_ref().unwrap().begun, 6);
    let notes = report.notes.join("\n");
    assert!(notes.contains("sent once"), "{notes}");
}

#[test]
fn a_replay_that_ends_early_reports_its_progress() {
    let (_directory, path) = log(&six_requests());
    let server = Server::of_bytes(1);
    let report = server.load(
        "/",
        &format!(
            "--connections 1 --replay {} --speed max --requests 4",
            path.display()
        ),
    );
    assert_eq!(report.requests, 4);
    let notes = report.notes.join("\n");
    assert!(notes.contains("after 4 of the log's 6 requests"), "{notes}");
}

#[test]
fn a_repeated_log_lasts_until_the_end_of_the_run_with_a_note() {
    let (_directory, path) = log(&six_requests());
    let server = Server::of_bytes(1);
    let report = server.load(
        "/",
        &format!(
            "--connections 2 --replay {} --speed max --repeat --requests 15",
            path.display()
        ),
    );
    assert_eq!(report.requests, 15);
    let notes = report.notes.join("\n");
    assert!(notes.contains("6 requests were sent 2.5 times"), "{notes}");
}

#[test]
fn rejected_lines_are_listed_with_number_and_reason() {
    let lines = [
        line("a", 0, "GET /1 HTTP/1.0", 200, "1"),
        "a - - [01/Jul/1995:00:00:00 -0400] \"GET /torn\n".to_owned(),
        line("a", 0, "PUT /1 HTTP/1.0", 200, "1"),
        "garbage\n".to_owned(),
    ];
    let (_directory, path) = log(&lines.concat());
    let server = Server::of_bytes(1);
    let report = server.load(
        "/",
        &format!("--connections 1 --replay {} --speed max", path.display()),
    );
    let trace = report.trace.as_ref().unwrap();
    let numbers: Vec<u64> = trace
        .rejected_lines
        .iter()
        .map(|rejected| rejected.line)
        .collect();
    assert_eq!((trace.rejected, numbers), (2, vec![2, 4]));
    let notes = report.notes.join("\n");
    assert!(notes.contains("line 2: request is not closed"), "{notes}");
    assert!(notes.contains("only GET, HEAD and POST"), "{notes}");
}

#[test]
fn a_redirect_that_the_log_recorded_is_expected() {
    let (_directory, path) = log(&line("a", 0, "GET /old HTTP/1.0", 302, "-"));
    let server = Server::start(|_, stream| {
        let text = b"HTTP/1.1 301 Moved Permanently\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(text).is_ok()
    });
    let report = server.load(
        "/",
        &format!("--connections 1 --replay {} --speed max", path.display()),
    );
    assert_eq!((report.sound, report.errors.len()), (1, 0));
}

#[test]
fn object_mappings_of_a_text_log_are_refused() {
    let (directory, path) = log(&six_requests());
    let objects = directory.path().join("object_mappings");
    std::fs::write(&objects, "         0 /x\n").unwrap();
    let server = Server::of_bytes(1);
    let spec = spec(
        &server.url("/file"),
        &format!(
            "--connections 1 --replay {} --speed max --object-mappings {}",
            path.display(),
            objects.display()
        ),
    );
    let error = run(spec, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(error.to_string().starts_with("object-mappings:"), "{error}");
}
