//! Invalid input, slow and broken clients, files that change, and exhausted resources.
#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod started;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perpacket_serve::{Architecture, Spec};
use perpacket_spec::{Size, Time, Whole};
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
};
use started::{Started, on_cpu, pattern, spec};

/// One event loop with epoll, one with io_uring, and one pool with blocking calls: their code paths
/// differ.
const ARCHITECTURES: [Architecture; 3] = [
    Architecture::Events,
    Architecture::Threads,
    Architecture::Uring,
];

/// A CPU that this program may use.
fn first_core() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU)
        .find(|&core| allowed.is_set(core))
        .unwrap()
}

fn quick(architecture: Architecture) -> Spec {
    Spec {
        // Long enough for a client on a busy machine to send its first request.
        idle_timeout: Time(Duration::from_secs_f64(1.5)),
        request_timeout: Time(Duration::from_secs_f64(0.3)),
        ..spec(architecture)
    }
}

#[test]
fn malformed_and_oversized_requests_get_an_error_status_and_close_the_connection() {
    let long = "a".repeat(20_000);
    let cases = [
        ("\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), 400),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n".to_owned(),
            400,
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a b/c@d\r\n\r\n".to_owned(), 400),
        ("GET /a b HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/3.0\r\n\r\n".to_owned(), 505),
        (format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), 414),
        (
            format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n"),
            431,
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n".to_owned(),
            413,
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(),
            501,
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(),
            400,
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
            400,
        ),
    ];
    for architecture in ARCHITECTURES {
        let server = Started::new(spec(architecture));
        for (request, status) in &cases {
            for mut client in server.both() {
                client.send(request);
                assert_eq!(client.answer().status, *status, "{request:.60}");
                assert!(client.is_ended());
            }
        }
        assert_eq!(server.get("/a.txt", "").status, 200);
    }
}

#[test]
fn slow_and_idle_clients_are_closed_by_the_time_outs() {
    for architecture in ARCHITECTURES {
        let server = Started::new(quick(architecture));
        for mut slow in server.both() {
            slow.send("GET / HT");
            assert_eq!(slow.answer().status, 408);
            assert!(slow.is_ended());
        }
        for mut idle in server.both() {
            assert!(idle.is_ended());
        }
        for mut dripping in server.both() {
            dripping.send("GET / HTTP/1.1\r\n");
            // Single bytes do not extend the time-out.
            while dripping.stream.write_all(b"A: b\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(40));
            }
        }
        server.until(|report| report.connections.timed_out == 6 && report.connections.open == 0);
    }
}

#[test]
fn a_client_that_reads_nothing_is_closed() {
    for architecture in ARCHITECTURES {
        let server = Started::new(quick(architecture));
        let clients = server.both().map(|mut client| {
            client.send("GET /bytes/100000000 HTTP/1.1\r\nHost: h\r\n\r\n");
            client
        });
        server.until(|report| report.connections.timed_out == 2 && report.connections.open == 0);
        for mut client in clients {
            assert!(client.rest().len() < 100_000_000);
        }
    }
}

/// The kernel reports a socket as writable only when a third of its send buffer is free. A client
/// that reads slowly but steadily may need longer than the time-out to free that much.
#[test]
fn a_client_that_reads_slowly_but_steadily_gets_the_whole_response() {
    const BODY_BYTES: usize = 6 << 20;
    let read_all = |architecture| {
        let server = Started::new(Spec {
            request_timeout: Time(Duration::from_secs_f64(1.0)),
            ..spec(architecture)
        });
        let client = server.connect();
        set_socket_recv_buffer_size(&client.stream, 1 << 16).unwrap();
        let mut stream = &client.stream;
        let request = format!("GET /bytes/{BODY_BYTES} HTTP/1.1\r\nHost: h\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let (mut part, mut read_bytes) = ([0; 16_384], 0);
        while read_bytes < BODY_BYTES {
            match stream.read(&mut part) {
                // An io_uring that this thread has dropped interrupts the read.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(count) => read_bytes += count,
            }
            std::thread::sleep(Duration::from_millis(15));
        }
        assert!(read_bytes >= BODY_BYTES, "{architecture:?} {read_bytes}");
        assert_eq!(server.finish().connections.timed_out, 0);
    };
    std::thread::scope(|scope| {
        for architecture in ARCHITECTURES.into_iter().chain([Architecture::Single]) {
            scope.spawn(move || read_all(architecture));
        }
    });
}

#[test]
fn a_last_response_arrives_whole_also_when_the_client_sends_more() {
    for architecture in ARCHITECTURES {
        let server = Started::new(spec(architecture));
        for mut client in server.both() {
            let last = "GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            let more = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(3000);
            client.send(&format!("{last}{more}"));
            server.until(|report| report.bytes_sent > 1000);
            std::thread::sleep(Duration::from_millis(50));
            let rest = client.rest();
            assert!(
                rest.ends_with(&pattern(3 << 20)),
                "{architecture:?} {}",
                rest.len()
            );
        }
    }
}

#[test]
fn a_file_that_grows_is_served_up_to_the_length_that_it_had() {
    let server = Started::new(Spec {
        revalidate: Some(Time(Duration::ZERO)),
        ..spec(Architecture::Events)
    });
    let path = server.root().join("log");
    let mut log = fs::File::create(&path).unwrap();
    log.write_all(b"line\n").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The file stays small enough to be read into memory.
            for _ in 0..20_000 {
                log.write_all(b"line\n").unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..50 {
            let answer = server.get("/log", "");
            assert_eq!(answer.status, 200);
            // The kernel raises the length page by page, so the end may be inside a line.
            let lines = b"line\n".iter().cycle().take(answer.body.len());
            assert!(answer.body.len() >= 5 && answer.body.iter().eq(lines));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn requests_of_a_client_that_reads_nothing_stay_in_the_kernel() {
    const MOST_BYTES: usize = 300 << 20;
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: {}\r\n\r\n", "h".repeat(400));
    for architecture in ARCHITECTURES {
        let server = Started::new(Spec {
            request_timeout: Time(Duration::from_secs_f64(600.0)),
            ..spec(architecture)
        });
        let mut client = server.connect_and_request();
        set_socket_recv_buffer_size(&client.stream, 1 << 16).unwrap();
        set_socket_send_buffer_size(&client.stream, 1 << 16).unwrap();
        client.stream.set_nonblocking(true).unwrap();
        let text = request.repeat(100);
        let (mut sent, mut waits) = (0, 0);
        while waits < 20 && sent < MOST_BYTES {
            match client.stream.write(&text.as_bytes()[sent % text.len()..]) {
                Ok(bytes) => (sent, waits) = (sent + bytes, 0),
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(50));
                    waits += 1;
                }
            }
        }
        assert!(sent < MOST_BYTES, "all was taken");
        client.stream.set_nonblocking(false).unwrap();
        let mut writer = client.stream.try_clone().unwrap();
        let requests = sent.div_ceil(request.len());
        let left_bytes = requests * request.len() - sent;
        let left = request.as_bytes()[request.len() - left_bytes..].to_vec();
        let rest = std::thread::spawn(move || writer.write_all(&left));
        for _ in 0..requests {
            assert_eq!(client.answer().body, pattern(612));
        }
        rest.join().unwrap().unwrap();
        client.send(&request);
        assert_eq!(client.answer().body, pattern(612));
    }
}

#[test]
fn a_half_closed_client_gets_its_responses() {
    for architecture in ARCHITECTURES {
        let server = Started::new(spec(architecture));
        for mut client in server.both() {
            client.send(
                "GET /large HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /cut",
            );
            client.half_close();
            assert!(client.answer().body == pattern(3 << 20));
            assert_eq!(client.answer().body, pattern(612));
            assert!(client.is_ended());
        }
    }
}

#[test]
fn clients_that_reset_their_connections_leave_nothing_behind() {
    for architecture in ARCHITECTURES {
        let server = Started::new(spec(architecture));
        for number in 0..40 {
            let mut client = if number < 20 {
                server.connect()
            } else {
                server.connect_and_request()
            };
            match number % 4 {
                0 => {}
                1 => client.send("GET /a.t"),
                2 => client.send("GET /bytes/50000000 HTTP/1.1\r\nHost: h\r\n\r\n"),
                _ => client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n"),
            }
            // With a linger of zero seconds, close(2) sends a reset.
            set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
        }
        let report = server
            .until(|report| report.connections.accepted == 40 && report.connections.open == 0);
        assert_eq!(report.connections.shed, 0);
        assert_eq!(server.get("/a.txt", "").body, pattern(612));
    }
}

#[test]
fn nothing_outside_the_root_is_served() {
    for architecture in ARCHITECTURES {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let server = Started::new(spec(architecture));
        symlink(outside.path().join("secret"), server.root().join("link")).unwrap();
        symlink(outside.path(), server.root().join("folder")).unwrap();
        symlink("a.txt", server.root().join("inside")).unwrap();
        for target in [
            "/link",
            "/folder/secret",
            "/../secret",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/..%2f..%2fetc%2fpasswd",
            "//etc/passwd",
            "/a.txt/../../etc/passwd",
        ] {
            let answer = server.get(target, "");
            assert_eq!(answer.status, 404, "{target}");
            assert!(!answer.text().contains("secret"));
        }
        assert_eq!(server.get("/a.txt%00.html", "").status, 400);
        assert_eq!(server.get("/inside", "").body, pattern(612));
    }
}

#[test]
fn a_pipe_in_the_root_does_not_block_the_server() {
    let server = Started::new(spec(Architecture::Single));
    let pipe = server.root().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(server.get("/pipe", "").status, 404);
    assert_eq!(server.get("/a.txt", "").status, 200);
}

#[test]
fn a_changed_file_is_served_with_its_new_content_and_a_deleted_one_is_not_found() {
    for architecture in ARCHITECTURES {
        let server = Started::new(Spec {
            revalidate: Some(Time(Duration::ZERO)),
            ..spec(architecture)
        });
        let path = server.root().join("a.txt");
        assert_eq!(server.get("/a.txt", "").body, pattern(612));
        // The clock of the cache is only as fine as the kernel's tick.
        let tick = || std::thread::sleep(Duration::from_millis(30));
        tick();
        fs::write(&path, "new").unwrap();
        assert_eq!(server.get("/a.txt", "").text(), "new");
        // Test the same for a file that is requested often.
        let mut client = server.connect();
        for text in ["new", "newer"] {
            fs::write(&path, text).unwrap();
            tick();
            for _ in 0..20 {
                client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
                assert_eq!(client.answer().text(), text);
            }
        }
        tick();
        fs::remove_file(&path).unwrap();
        assert_eq!(server.get("/a.txt", "").status, 404);
        fs::write(&path, "again").unwrap();
        assert_eq!(server.get("/a.txt", "").text(), "again");
    }
}

#[test]
fn a_file_truncated_while_it_is_sent_closes_only_that_connection() {
    for architecture in ARCHITECTURES {
        let server = Started::new(spec(architecture));
        let path = server.root().join("huge");
        let file = fs::File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        let mut client = server.connect();
        client.send("GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut first = [0; 1000];
        client.stream.read_exact(&mut first).unwrap();
        file.set_len(1 << 20).unwrap();
        assert!(
            client.rest().len() < 64 << 20,
            "less than was promised, and then the end"
        );
        assert_eq!(server.get("/a.txt", "").status, 200);
    }
}

#[test]
fn a_file_deleted_while_it_is_sent_arrives_whole() {
    for architecture in ARCHITECTURES {
        let server = Started::new(spec(architecture));
        let mut client = server.connect();
        client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
        server.until(|report| report.requests == 1);
        fs::remove_file(server.root().join("large")).unwrap();
        assert!(client.answer().body == pattern(3 << 20));
    }
}

#[test]
fn a_disk_error_is_500_for_that_request_alone() {
    // A read of address 0 in `/proc/self/mem` fails with EIO, like a failed disk.
    for architecture in ARCHITECTURES {
        let server = Started::new(Spec {
            root: Some("/proc/self".into()),
            ..spec(architecture)
        });
        assert_eq!(server.get("/mem", "").status, 500);
        assert_eq!(server.get("/bytes/10", "").status, 200);
        assert_eq!(server.get("/mem", "").status, 500);
    }
}

#[test]
fn clients_above_the_limit_get_503_with_retry_after() {
    for architecture in ARCHITECTURES {
        let server = Started::new(Spec {
            max_connections: Some(Whole::nearest(2)),
            ..spec(architecture)
        });
        let mut kept = [server.connect(), server.connect()];
        for client in &mut kept {
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(client.answer().status, 200);
        }
        let refused = server.get("/a.txt", "");
        assert_eq!(
            (refused.status, refused.field("Retry-After")),
            (503, Some("1"))
        );
        drop(kept);
        server.until(|report| report.connections.open == 0);
        assert_eq!(server.get("/a.txt", "").status, 200);
        assert!(server.finish().connections.shed >= 1);
    }
}

#[test]
fn the_cache_stays_within_its_budget_when_files_do_not_fit() {
    let server = Started::new(Spec {
        cache_size: Some(Size(64 << 10)),
        // Run one loop, because each loop has a cache budget of its own.
        runs_on: on_cpu(first_core()),
        ..spec(Architecture::Events)
    });
    for number in 0..100 {
        fs::write(
            server.root().join(format!("f{number}")),
            pattern(4000 + number),
        )
        .unwrap();
    }
    for _ in 0..2 {
        for number in 0..100 {
            assert_eq!(
                server.get(&format!("/f{number}"), "").body,
                pattern(4000 + number)
            );
        }
    }
    let report = server.finish();
    assert!(report.cache.bytes <= 64 << 10, "{report:?}");
    assert!(report.cache.entries > 0);
}
