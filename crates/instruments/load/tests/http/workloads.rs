//! Tests of workloads, of their requests, and of the source addresses of connections.

use std::io::Write;
use std::sync::Arc;

use crate::server::{Server, response};

#[test]
fn a_file_of_another_size_than_the_workload_s_is_an_error() {
    let server = Server::of_bytes(5000);
    let report = server.load("/", "--connections 4 --requests 200 --workload webstone");
    let short = report.errors.get("short_body").copied().unwrap_or(0);
    // Half of WebStone's requests are for 5 KB.
    assert!((60..140).contains(&short), "{short}");
    // One request per connection.
    assert_eq!(report.connections_opened, 200);
}

#[test]
fn specweb99_requests_its_files_with_its_operations() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heads = Arc::clone(&seen);
    let server = Server::start(move |head, stream| {
        heads.lock().unwrap().push(head.to_owned());
        let cookie =
            "HTTP/1.1 200 OK\r\nSet-Cookie: user_id=1&last_ad=77\r\nContent-Length: 1\r\n\r\nx";
        let close = head.contains("Connection: close");
        stream.write_all(cookie.as_bytes()).is_ok() && !close
    });
    let report = server.load(
        "/",
        "--connections 20 --requests 2000 --workload specweb99 --dynamic --check none",
    );
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
fn conditional_requests_have_the_date_that_the_server_sent() {
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
    let report = server.load("/file", "--connections 1 --requests 400 --conditional 0.5");
    // Half of 400, within four standard deviations. The first request is never conditional, because
    // the client has no date yet.
    assert!(
        (158..=240).contains(&report.statuses[&304]),
        "{:?}",
        report.statuses
    );
}

#[test]
fn the_request_log_has_a_line_per_request() {
    let server = Server::of_bytes(10);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("requests.csv");
    let report = server.load(
        "/file",
        &format!(
            "--connections 2 --requests 100 --threads 2 --request-log {}",
            path.display()
        ),
    );
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count() as u64, report.requests + 1);
    let columns = text.lines().next().unwrap().split(',').count();
    assert!(text.lines().all(|line| line.split(',').count() == columns));
}

#[test]
fn connections_use_the_given_source_addresses() {
    let peers = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = Arc::clone(&peers);
    let server = Server::start(move |_, stream| {
        seen.lock()
            .unwrap()
            .insert(stream.peer_addr().unwrap().ip().to_string());
        stream.write_all(&response(b"x")).is_ok()
    });
    server.load(
        "/file",
        "--connections 6 --requests 40 --source 127.0.0.11-127.0.0.13",
    );
    let peers: Vec<_> = peers.lock().unwrap().iter().cloned().collect();
    assert_eq!(peers, ["127.0.0.11", "127.0.0.12", "127.0.0.13"]);
}
