//! What `load http` measures and what it says when things go wrong, against a server of its own.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

mod server;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perpacket_load::LoadError;
use perpacket_load::http::{
    Arrivals, Check, Part, Process, Report, Settings, Spread, Version, Workload, run,
};
use server::{Server, response};

fn load(settings: Settings) -> Report {
    run(settings, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

fn settings(server: &Server, connections: u32) -> Settings {
    Settings {
        threads: Some(1),
        duration: Some(Duration::from_millis(500)),
        timeout: Duration::from_secs(5),
        ..Settings::new(&server.url("/file"), connections)
    }
}

fn at_rate(per_s: f64) -> Arrivals {
    Arrivals::Requests {
        per_s,
        process: Process::Fixed,
    }
}

/// Writes a log of `lines` and returns its directory, which has to live on, and its path.
fn log(lines: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    std::fs::write(&path, lines).unwrap();
    (directory, path)
}

fn line(host: &str, second: u32, request: &str, status: u16, bytes: &str) -> String {
    format!("{host} - - [01/Jul/1995:00:00:{second:02} -0400] \"{request}\" {status} {bytes}\n")
}

#[test]
fn a_closed_loop_counts_every_response_once() {
    let server = Server::of_bytes(700);
    let report = load(Settings {
        requests: Some(500),
        duration: None,
        threads: Some(2),
        ..settings(&server, 4)
    });
    assert_eq!(
        (report.requests, report.unfinished, report.errors.len()),
        (500, 0, 0)
    );
    assert_eq!(report.body_bytes, 500 * 700);
    assert_eq!(report.latency_us.service.count, 500);
    assert_eq!((report.connections_opened, report.statuses[&200]), (4, 500));
    // Four connections that never pause have four requests under way.
    assert!(
        (2.0..4.5).contains(&report.load_factor),
        "{}",
        report.load_factor
    );
}

/// A server that stands still for a fifth of a run makes every request of that time late, whether or
/// not the generator had a connection to send it on.
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
    let report = load(Settings {
        arrivals: at_rate(400.0),
        duration: Some(Duration::from_secs(4)),
        ..settings(&server, 16)
    });
    freezer.join().unwrap();
    let pair = report.latency_us;
    // The shape is that of 2 s in a run of 10 s: the time 0.9 s of it becomes 0.36 s.
    assert!(pair.response.p90 > 360_000.0, "{pair:?}");
    assert!(pair.response.max > 750_000.0, "{pair:?}");
    assert!(pair.service.p50 < 100_000.0, "{pair:?}");
    // Only what was under way on sixteen connections waited after it was sent.
    assert!(pair.service.p90 < 360_000.0, "{pair:?}");
    assert!(report.requests > 1500, "{}", report.requests);
}

#[test]
fn a_line_of_400_kilobits_carries_90_kilobytes_in_1_8_seconds() {
    let server = Server::of_bytes(90_000);
    let report = load(Settings {
        requests: Some(2),
        duration: None,
        line_speed_bps: Some(400_000),
        ..settings(&server, 2)
    });
    assert_eq!(report.conforming, Some(2));
    // The lower end is what the line allows; the upper one leaves room for a busy machine.
    assert!(
        report.latency_us.service.p50 >= 1_800_000.0,
        "{:?}",
        report.latency_us
    );
    assert!(
        report.latency_us.service.p50 < 2_400_000.0,
        "{:?}",
        report.latency_us
    );
}

#[test]
fn connections_that_get_less_than_their_line_could_carry_do_not_conform() {
    let server = Server::start(|_, stream| {
        thread::sleep(Duration::from_millis(300));
        stream.write_all(&response(&[b'x'; 1000])).is_ok()
    });
    let report = load(Settings {
        line_speed_bps: Some(400_000),
        duration: Some(Duration::from_secs(1)),
        ..settings(&server, 2)
    });
    assert_eq!(report.conforming, Some(0));
}

#[test]
fn fractions_of_a_request_a_second_are_kept() {
    let server = Server::of_bytes(10);
    let report = load(Settings {
        arrivals: at_rate(2.5),
        duration: Some(Duration::from_secs(2)),
        ..settings(&server, 4)
    });
    // At 0, 0.4, 0.8, 1.2 and 1.6 s.
    assert_eq!(report.requests, 5);
}

#[test]
fn what_finds_no_connection_is_counted_as_unsent() {
    let server = Server::start(|_, stream| {
        thread::sleep(Duration::from_millis(200));
        stream.write_all(&response(b"late")).is_ok()
    });
    let report = load(Settings {
        arrivals: at_rate(100.0),
        duration: Some(Duration::from_secs(1)),
        ..settings(&server, 2)
    });
    assert_eq!(report.requests + report.unsent + report.unfinished, 100);
    assert!(report.unsent > 80, "{}", report.unsent);
    assert!(
        report.notes.iter().any(|note| note.contains("not sent")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_warm_up_counts_nowhere() {
    let server = Server::of_bytes(10);
    let report = load(Settings {
        arrivals: at_rate(100.0),
        warmup: Duration::from_millis(500),
        ..settings(&server, 4)
    });
    assert!((45..=51).contains(&report.requests), "{}", report.requests);
    assert!(
        (report.duration_s - 0.5).abs() < 0.02,
        "{}",
        report.duration_s
    );
}

#[test]
fn sessions_that_arrive_bring_their_own_connections() {
    let server = Server::of_bytes(10);
    let report = load(Settings {
        arrivals: Arrivals::Sessions {
            per_s: 40.0,
            process: Process::Fixed,
        },
        requests_per_connection: Some("3".parse().unwrap()),
        duration: Some(Duration::from_millis(990)),
        ..settings(&server, 8)
    });
    assert_eq!(report.connections_opened, 40);
    assert!(
        (115..=120).contains(&report.requests),
        "{}",
        report.requests
    );
}

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
    let begun = Instant::now();
    let report = load(Settings {
        duration: Some(Duration::from_secs(60)),
        ..settings(&server, 8)
    });
    killer.join().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "the run goes on without a server"
    );
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
    for version in [Version::Http10, Version::Http11] {
        let report = load(Settings {
            requests: Some(20),
            duration: None,
            version,
            ..settings(&server, 2)
        });
        assert_eq!(
            (report.body_bytes, report.errors.len()),
            (100, 0),
            "{:?}",
            report.errors
        );
    }
}

#[test]
fn a_body_that_changes_under_the_digest_is_an_error() {
    let asked = AtomicU64::new(0);
    let server = Server::start(move |_, stream| {
        let body = if asked.fetch_add(1, Ordering::SeqCst) == 5 {
            b"abd"
        } else {
            b"abc"
        };
        stream.write_all(&response(body)).is_ok()
    });
    let report = load(Settings {
        requests: Some(10),
        duration: None,
        check: Check::Digest,
        ..settings(&server, 1)
    });
    assert_eq!(
        report.errors.get("changed_body"),
        Some(&1),
        "{:?}",
        report.errors
    );
}

#[test]
fn a_file_of_another_size_than_the_workload_s_is_an_error() {
    let server = Server::of_bytes(5000);
    let report = load(Settings {
        requests: Some(200),
        duration: None,
        workload: Workload::WebStone,
        url: server.url("/"),
        ..settings(&server, 4)
    });
    let short = report.errors.get("short_body").copied().unwrap_or(0);
    // Half of WebStone's requests are for 5 KB.
    assert!((60..140).contains(&short), "{short}");
    // One request a connection.
    assert_eq!(report.connections_opened, 200);
}

#[test]
fn specweb99_asks_for_its_files_with_its_operations() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heads = Arc::clone(&seen);
    let server = Server::start(move |head, stream| {
        heads.lock().unwrap().push(head.to_owned());
        let cookie =
            "HTTP/1.1 200 OK\r\nSet-Cookie: user_id=1&last_ad=77\r\nContent-Length: 1\r\n\r\nx";
        let close = head.contains("Connection: close");
        stream.write_all(cookie.as_bytes()).is_ok() && !close
    });
    let report = load(Settings {
        requests: Some(2000),
        duration: None,
        workload: Workload::SpecWeb99 { dynamic: true },
        check: Check::None,
        url: server.url("/"),
        ..settings(&server, 20)
    });
    assert_eq!(
        (report.requests, report.errors.len()),
        (2000, 0),
        "{:?}",
        report.errors
    );
    let seen = seen.lock().unwrap();
    let count = |start: &str| seen.iter().filter(|head| head.starts_with(start)).count();
    let dynamic = count("GET /specweb99/get?file=/file_set/dir0")
        + count("GET /specweb99/ad?file=/file_set/dir0")
        + count("GET /specweb99/cgi?file=/file_set/dir0")
        + count("POST /specweb99/post");
    assert_eq!(count("GET /file_set/dir0") + dynamic, 2000);
    // 30 % of 2000, within four standard deviations.
    assert!((518..=682).contains(&dynamic), "{dynamic}");
    assert!(
        seen.iter().any(|head| head.contains("&last_ad=77")),
        "the cookie is not sent back"
    );
}

#[test]
fn a_log_is_replayed_at_its_own_times_a_client_a_connection() {
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
    let report = load(Settings {
        arrivals: Arrivals::Recorded { speed: 20.0 },
        workload: Workload::Trace {
            file: path,
            objects: None,
            spread: Spread::None,
        },
        duration: None,
        url: server.url("/"),
        ..settings(&server, 8)
    });
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
    // The fifteen-second rule: a's request after 39 s has a connection of its own.
    assert_eq!(report.connections_opened, 3);
    let seen = seen.lock().unwrap();
    let times: Vec<_> = seen.iter().map(|(time, _)| *time - seen[0].0).collect();
    // No request comes before its time; a busy machine may send it later.
    assert!(
        times[2] >= Duration::from_millis(45) && times[3] >= Duration::from_millis(1990),
        "{times:?}"
    );
    assert!(seen[2].1.contains("If-Modified-Since: "), "{}", seen[2].1);
}

#[test]
fn the_parts_of_a_log_are_all_of_it() {
    let hosts = 0..30;
    let lines = hosts.map(|host| line(&format!("h{host}"), host % 3, "GET /1 HTTP/1.0", 200, "10"));
    let (_directory, path) = log(&lines.collect::<String>());
    let server = Server::of_bytes(10);
    let requests = (0..3).map(|index| {
        load(Settings {
            arrivals: Arrivals::Recorded { speed: 100.0 },
            workload: Workload::Trace {
                file: path.clone(),
                objects: None,
                spread: Spread::Uniform,
            },
            duration: None,
            part: Part { index, of: 3 },
            url: server.url("/"),
            ..settings(&server, 9)
        })
        .requests
    });
    assert_eq!(requests.collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn a_log_that_holds_nothing_to_replay_is_refused() {
    let server = Server::of_bytes(10);
    let (_directory, path) = log(&line("a", 0, "DELETE /1 HTTP/1.0", 200, "10"));
    let error = run(
        Settings {
            arrivals: Arrivals::Recorded { speed: 1.0 },
            workload: Workload::Trace {
                file: path,
                objects: None,
                spread: Spread::None,
            },
            ..settings(&server, 1)
        },
        &AtomicBool::new(false),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(error.to_string().contains("no usable request"), "{error}");
    assert_eq!(server.connections(), 0);
}

#[test]
fn conditional_requests_name_the_date_the_server_gave() {
    let server = Server::start(|head, stream| {
        let not_modified = head.contains("If-Modified-Since: Sat, 21 Nov 2026 00:00:00 GMT");
        let text = match not_modified {
            true => "HTTP/1.1 304 Not Modified\r\n\r\n",
            false => {
                "HTTP/1.1 200 OK\r\nLast-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\n\
                 Content-Length: 1\r\n\r\nx"
            }
        };
        stream.write_all(text.as_bytes()).is_ok()
    });
    let report = load(Settings {
        requests: Some(400),
        duration: None,
        conditional_share: 0.5,
        ..settings(&server, 1)
    });
    // Half of 400 within four standard deviations, less the one that knew no date yet.
    assert!(
        (158..=240).contains(&report.statuses[&304]),
        "{:?}",
        report.statuses
    );
}

#[test]
fn an_ended_run_keeps_what_was_measured() {
    let server = Server::of_bytes(10);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let ender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        flag.store(true, Ordering::SeqCst);
    });
    let long = Settings {
        duration: Some(Duration::from_secs(60)),
        ..settings(&server, 2)
    };
    let report = run(long, &stop, &mut |_| ()).unwrap();
    ender.join().unwrap();
    assert!(report.interrupted && report.requests > 0 && report.duration_s < 30.0);
}

#[test]
fn memory_does_not_grow_with_the_run() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let server = Server::of_bytes(10);
    load(settings(&server, 4));
    let before = resident();
    let report = load(Settings {
        duration: Some(Duration::from_millis(1500)),
        ..settings(&server, 4)
    });
    let grown = resident().saturating_sub(before);
    assert!(report.requests > 1000, "{}", report.requests);
    // Keeping one time a request would take 8 bytes of each; other tests run beside this one.
    assert!(grown < 64_000_000, "{grown} bytes more");
}

#[test]
fn every_request_has_its_line_in_the_log() {
    let server = Server::of_bytes(10);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("requests.csv");
    let report = load(Settings {
        requests: Some(100),
        duration: None,
        threads: Some(2),
        request_log: Some(path.clone()),
        ..settings(&server, 2)
    });
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count() as u64, report.requests + 1);
    let columns = text.lines().next().unwrap().split(',').count();
    assert!(text.lines().all(|line| line.split(',').count() == columns));
}

#[test]
fn connections_come_from_the_addresses_they_were_given() {
    let peers = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = Arc::clone(&peers);
    let server = Server::start(move |_, stream| {
        seen.lock()
            .unwrap()
            .insert(stream.peer_addr().unwrap().ip().to_string());
        stream.write_all(&response(b"x")).is_ok()
    });
    load(Settings {
        requests: Some(40),
        duration: None,
        sources: "127.0.0.11-127.0.0.13".parse().unwrap(),
        ..settings(&server, 6)
    });
    let peers: Vec<_> = peers.lock().unwrap().iter().cloned().collect();
    assert_eq!(peers, ["127.0.0.11", "127.0.0.12", "127.0.0.13"]);
}
