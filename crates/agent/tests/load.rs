//! Exit status and output of `load`.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

mod command;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use command::{agent, error};

/// A web server that closes its port when the flag is set.
fn server() -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&ended);
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        while !own.load(Ordering::SeqCst) {
            let Ok((mut stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            let own = Arc::clone(&own);
            thread::spawn(move || {
                stream.set_nonblocking(false).unwrap();
                let mut buffer = [0; 1024];
                while !own.load(Ordering::SeqCst)
                    && stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0)
                {
                    if stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    (address, ended)
}

/// A load on two connections that prints its result as JSON.
fn json_of(url: &str, options: &str) -> Output {
    agent(&format!(
        "load http {url} --connections 2 {options} --format json"
    ))
}

#[test]
fn a_load_with_responses_ends_with_0_and_prints_the_documented_keys() {
    let (address, ended) = server();
    let url = format!("http://{address}/");
    let directory = tempfile::tempdir().unwrap();
    let histograms = directory.path().join("histograms.json");
    let options = format!("--requests 50 --histograms {}", histograms.display());
    let output = json_of(&url, &options);
    ended.store(true, Ordering::SeqCst);
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["schema"], &report["requests"]),
        (&1.into(), &50.into())
    );
    for name in ["p50", "p90", "p99", "p999", "max"] {
        assert!(report["latency_us"]["service"][name].is_number(), "{name}");
        assert!(report["latency_us"]["response"][name].is_number(), "{name}");
        assert!(report["schedule_lag_us"][name].is_number(), "{name}");
    }
    for name in [
        "requests_per_s",
        "content_mbps",
        "unsent",
        "client_cpu_s",
        "connections",
    ] {
        assert!(report[name].is_number(), "{name}");
    }
    assert!(report["errors"].is_object() && report.get("conforming").is_some());
    let text = std::fs::read_to_string(histograms).unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(
        written["service"].as_str().unwrap().starts_with("HISTF"),
        "{text}"
    );

    let result = directory.path().join("result.json");
    std::fs::write(&result, &output.stdout).unwrap();
    let result = result.display();
    let compared = agent(&format!("load compare {result} {result}"));
    assert_eq!(compared.status.code(), Some(0), "{}", error(&compared));
    assert!(String::from_utf8_lossy(&compared.stdout).contains("1.000"));
}

#[test]
fn a_refused_connection_ends_a_load_with_4_and_a_hint() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let output = agent(&format!("load http http://{address}/"));
    assert_eq!(output.status.code(), Some(4));
    assert!(error(&output).contains(&address.to_string()) && error(&output).contains("hint:"));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_server_that_dies_ends_a_load_with_4_and_the_result() {
    let (address, ended) = server();
    let ender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(800));
        ended.store(true, Ordering::SeqCst);
    });
    let url = format!("http://{address}/");
    let output = json_of(&url, "--duration 60");
    ender.join().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", error(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["requests"].as_u64().unwrap() > 0);
    assert!(error(&output).contains("gone"), "{}", error(&output));
}

#[test]
fn a_limit_of_the_machine_ends_a_load_with_3_and_a_hint() {
    let (address, ended) = server();
    let output = agent(&format!("load http http://{address}/ --connections 200000"));
    ended.store(true, Ordering::SeqCst);
    assert_eq!(output.status.code(), Some(3), "{}", error(&output));
    assert!(error(&output).contains("200"), "{}", error(&output));
    assert!(error(&output).contains("hint:"));
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("set");
    let set = format!(
        "load files surge --into {} --size-limit 1000",
        into.display()
    );
    let output = agent(&set);
    assert_eq!(output.status.code(), Some(3), "{}", error(&output));
}

#[test]
fn webstone_files_have_their_sizes_and_the_same_bytes_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let into = directory.path().join(name);
        let output = agent(&format!("load files webstone --into {}", into.display()));
        assert_eq!(output.status.code(), Some(0), "{}", error(&output));
        std::fs::read(into.join("webstone/file50k.html")).unwrap()
    };
    let (first, second) = (make("a"), make("b"));
    assert_eq!(first.len(), 50_000);
    assert_eq!(first, second);
}

/// A server that answers every request with the same bytes.
fn answering(response: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The thread ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0)
                    && stream.write_all(response).is_ok()
                {}
            });
        }
    });
    address
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_load_with_only_failures_ends_with_4_and_names_them() {
    let url = format!("http://{}/", answering(NOT_FOUND));
    let output = agent(&format!("load http {url} --requests 20"));
    assert_eq!(output.status.code(), Some(4), "{}", error(&output));
    let text = error(&output);
    assert!(text.contains("20 unexpected_status (status 404)"), "{text}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("404: 20"), "{table}");
}

#[test]
fn a_log_at_speed_max_is_replayed_once_and_its_invalid_lines_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let line = "a - - [01/Jul/1995:00:00:00 -0400] \"GET /1 HTTP/1.0\" 200 1\n";
    std::fs::write(&log, format!("{line}torn\n{line}")).unwrap();
    let url = format!("http://{}", answering(OK));
    let replay = format!("load http {url} --replay {} --speed max", log.display());
    let output = agent(&replay);
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("200: 2"), "{table}");
    assert!(table.contains("2 requests were sent once"), "{table}");
    assert!(table.contains("(line 2: "), "{table}");
}

#[test]
fn the_table_prints_a_rate_in_words() {
    let url = format!("http://{}/", answering(OK));
    let output = agent(&format!("load http {url} --rate 200 --requests 2"));
    let table = String::from_utf8_lossy(&output.stdout);
    let head = table.lines().next().unwrap_or_default();
    let expected = "open loop, 200 requests per second, at most 1024 connections";
    assert!(head.contains(expected), "{table} {}", error(&output));
}
