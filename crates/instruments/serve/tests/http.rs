//! Requirements of HTTP, checked in every architecture over loopback.

mod started;

use perpacket_requirements::skip;
use std::fs;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use perpacket_serve::{Architecture, ServeError, Server, Spec};
use perpacket_spec::Time;
use started::{Started, on_cpu, pattern, spec};

/// A server of each architecture that can run in a thread of a test. `processes` forks, which is
/// unsafe in a test program with many threads. The agent's tests cover it.
fn each() -> Vec<Started> {
    each_with(spec)
}

/// A server of each such architecture, with spec that depend on the architecture.
fn each_with(spec: impl Fn(Architecture) -> Spec) -> Vec<Started> {
    Architecture::value_variants()
        .iter()
        .copied()
        .filter(|&architecture| architecture != Architecture::Processes)
        .filter(
            |&architecture| match Server::bind(spec(architecture), None) {
                Err(ServeError::Lacking { what, problem }) => {
                    skip(
                        "io_uring",
                        format_args!("{}: {what}: {problem}", architecture.name()),
                    );
                    false
                }
                _ => true,
            },
        )
        .map(|architecture| Started::new(spec(architecture)))
        .collect()
}

#[test]
fn files_arrive_whole_in_every_architecture() {
    for server in each() {
        for (target, bytes) in [("/a.txt", 612), ("/large", 3 << 20)] {
            for _ in 0..2 {
                let answer = server.get(target, "");
                assert_eq!(answer.status, 200);
                assert!(answer.body == pattern(bytes), "{target}");
            }
        }
        let answer = server.get("/", "");
        assert_eq!(answer.text(), "<p>index");
        assert_eq!(
            answer.field("Content-Type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(server.get("/none", "").status, 404);
    }
}

#[test]
fn a_connection_stays_open_if_the_client_asks_for_it() {
    for server in each() {
        let mut client = server.connect();
        for _ in 0..3 {
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(client.answer().body, pattern(612));
        }
        client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(client.answer().field("Connection"), Some("close"));
        assert!(client.is_ended());

        let mut old = server.connect();
        old.send("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(old.answer().field("Connection"), Some("keep-alive"));
        old.send("GET /a.txt HTTP/1.0\r\n\r\n");
        assert_eq!(old.answer().status, 200);
        assert!(old.is_ended());
    }
}

#[test]
fn a_response_is_a_whole_number_of_cache_lines_long() {
    for server in each() {
        for request in [
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            "HEAD /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            "GET /a.txt HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET /none HTTP/1.0\r\n\r\n",
            "GET /a.txt HTTP/1.0\r\nRange: bytes=5-77\r\n\r\n",
        ] {
            let mut client = server.connect();
            client.send(request);
            let bytes = client.rest().len();
            assert!(bytes > 0 && bytes % 64 == 0, "{bytes} for {request}");
        }
    }
}

#[test]
fn prebuilt_responses_equal_the_others() {
    for server in each() {
        fs::write(server.root().join("b"), pattern(10_240)).unwrap();
        let mut client = server.connect();
        for (target, bytes) in [("/a.txt", 612), ("/b", 10_240), ("/large", 3 << 20)] {
            let get = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
            client.send(&get);
            let first = client.answer();
            assert!(first.body == pattern(bytes), "{target}");
            for _ in 0..40 {
                client.send(&get);
                let answer = client.answer();
                assert!(answer.body == first.body, "{target}");
                assert_eq!(answer.head.len(), first.head.len());
                assert_eq!(answer.field("ETag"), first.field("ETag"));
            }
            // Requests that need a different head get one, even in the same second.
            client.send(&get.replace("GET", "HEAD"));
            assert_eq!(client.answer_to("HEAD").status, 200);
            client.send(&format!(
                "{}Range: bytes=5-9\r\n\r\n",
                &get[..get.len() - 2]
            ));
            assert_eq!(client.answer().body, &pattern(bytes)[5..10]);
            client.send(&get.repeat(3));
            for _ in 0..3 {
                assert!(client.answer().body == first.body, "{target}");
            }
            client.send(&format!(
                "GET {target} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
            ));
            let kept = client.answer();
            assert_eq!(kept.field("Connection"), Some("keep-alive"));
            assert!(kept.body == first.body, "{target}");
            let old = server.request(&format!("GET {target} HTTP/1.0\r\n\r\n"));
            assert_eq!(old.field("Connection"), Some("close"));
            assert!(old.body == first.body, "{target}");
        }
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    for server in each() {
        let mut client = server.connect();
        let mut text = String::new();
        for number in 0..300 {
            text += &format!("GET /bytes/{number} HTTP/1.1\r\nHost: h\r\n\r\n");
            if number % 50 == 0 {
                text += "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
            }
        }
        let mut writer = client.stream.try_clone().unwrap();
        let sender =
            std::thread::spawn(move || std::io::Write::write_all(&mut writer, text.as_bytes()));
        for number in 0..300 {
            assert_eq!(client.answer().body.len(), number);
            if number % 50 == 0 {
                assert!(client.answer().body == pattern(3 << 20));
            }
        }
        sender.join().unwrap().unwrap();
    }
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    for server in each() {
        let mut client = server.connect();
        client.stream.set_nodelay(true).unwrap();
        for byte in "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".chars() {
            client.send(&byte.to_string());
        }
        assert_eq!(client.answer().body, pattern(612));
    }
}

#[test]
fn ranges_and_conditional_requests_follow_the_rfc() {
    let server = Started::new(spec(Architecture::Events));
    let whole = server.get("/a.txt", "");
    let etag = whole.field("ETag").unwrap();
    let date = whole.field("Last-Modified").unwrap();

    let part = server.get("/a.txt", "Range: bytes=10-19\r\n");
    assert_eq!(
        (part.status, part.body),
        (206, pattern(612)[10..20].to_vec())
    );
    let part = server.get("/large", "Range: bytes=-5\r\n");
    assert_eq!(
        part.field("Content-Range"),
        Some("bytes 3145723-3145727/3145728")
    );
    let none = server.get("/a.txt", "Range: bytes=612-\r\n");
    assert_eq!(
        (none.status, none.field("Content-Range")),
        (416, Some("bytes */612"))
    );
    assert_eq!(server.get("/a.txt", "Range: bytes=0-1,3-4\r\n").status, 200);

    let status = |fields: &str| server.get("/a.txt", fields).status;
    assert_eq!(status(&format!("If-None-Match: \"x\", W/{etag}\r\n")), 304);
    assert_eq!(status("If-None-Match: \"x\"\r\n"), 200);
    assert_eq!(status(&format!("If-Modified-Since: {date}\r\n")), 304);
    assert_eq!(
        status("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        200
    );
    assert_eq!(status("If-Match: \"x\"\r\n"), 412);
    assert_eq!(
        status("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        412
    );
    assert_eq!(
        status(&format!("Range: bytes=0-1\r\nIf-Range: {etag}\r\n")),
        206
    );
    assert_eq!(status("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n"), 200);
}

#[test]
fn an_unsupported_method_gets_405_with_allow() {
    let server = Started::new(spec(Architecture::Events));
    let request = |method: &str, target: &str| {
        let mut client = server.connect();
        client.send(&format!(
            "{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        ));
        let answer = client.answer_to(method);
        assert!(client.is_ended());
        answer
    };
    let head = request("HEAD", "/a.txt");
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (200, Some("612"))
    );
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = request(method, "/a.txt");
        assert_eq!(
            (answer.status, answer.field("Allow")),
            (405, Some("GET, HEAD"))
        );
    }
    assert_eq!(request("BREW", "/a.txt").status, 501);
    assert_eq!(request("GET", "http://elsewhere/a.txt").status, 200);
}

#[test]
fn precompressed_files_are_sent_to_clients_that_accept_their_coding() {
    let server = Started::new(spec(Architecture::Events));
    fs::write(server.root().join("p.css"), "plain").unwrap();
    fs::write(server.root().join("p.css.gz"), "gzip").unwrap();
    fs::write(server.root().join("p.css.br"), "brotli").unwrap();
    let mut client = server.connect();
    let mut get = |fields: &str| {
        client.send(&format!("GET /p.css HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        client.answer()
    };
    // Request each variant often enough for a prebuilt response.
    for _ in 0..20 {
        let plain = get("");
        assert_eq!(
            (&*plain.text(), plain.field("Content-Encoding")),
            ("plain", None)
        );
        assert_eq!(plain.field("Vary"), Some("Accept-Encoding"));
        let best = get("Accept-Encoding: gzip, deflate, br\r\n");
        assert_eq!(
            (&*best.text(), best.field("Content-Encoding")),
            ("brotli", Some("br"))
        );
        assert_eq!(best.field("Content-Type"), Some("text/css; charset=utf-8"));
        let gzip = get("Accept-Encoding: br;q=0, gzip\r\n");
        assert_eq!(gzip.text(), "gzip");
        assert_ne!(gzip.field("ETag"), best.field("ETag"));
    }
}

#[test]
fn a_body_that_a_request_does_not_need_is_read_and_discarded() {
    for server in each() {
        let mut client = server.connect();
        client.send("GET /bytes/3 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(client.answer().status, 200);
        client.send(
            "GET /bytes/4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\n\r\nGET /bytes/5 HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        assert_eq!(client.answer().body.len(), 4);
        assert_eq!(client.answer().body.len(), 5);
        client.send(
            "GET /bytes/6 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
        );
        assert_eq!(client.answer().status, 100);
        client.send("ok");
        assert_eq!(client.answer().body.len(), 6);
    }
}

#[test]
fn a_folder_is_served_by_its_index_and_redirected_to_its_slash() {
    let server = Started::new(spec(Architecture::Events));
    fs::create_dir(server.root().join("sub dir")).unwrap();
    fs::write(server.root().join("sub dir/index.html"), "sub").unwrap();
    let answer = server.get("/sub%20dir?x=1", "");
    assert_eq!(
        (answer.status, answer.field("Location")),
        (301, Some("/sub%20dir/?x=1"))
    );
    assert_eq!(server.get("/sub%20dir/", "").text(), "sub");
}

#[test]
fn the_report_does_not_count_requests_for_itself() {
    for server in each() {
        let mut client = server.connect();
        for _ in 0..10 {
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
            client.answer();
            client.send("GET /.perpacket/report HTTP/1.1\r\nHost: h\r\n\r\n");
            let text = client.answer().text();
            assert!(text.contains("\"schema\":2"), "{text}");
        }
        drop(client);
        let report = server.until(|report| report.connections.open == 0);
        assert_eq!(report.requests, 10);
        assert_eq!(report.responses[&200], 10);
        assert!(
            (10 * 612..10 * 1200).contains(&report.bytes_sent),
            "{report:?}"
        );
        assert_eq!((report.cache.hits, report.cache.misses), (9, 1));
        let last = server.finish();
        assert!(last.per_request.unwrap().cpu_us > 0.0);
    }
}

#[test]
fn work_uses_the_requested_processor_time() {
    let server = Started::new(spec(Architecture::Single));
    let cpu_s = || {
        let report = server.reporter.report();
        report.cpu_s.user + report.cpu_s.system
    };
    let before_s = cpu_s();
    assert_eq!(server.get("/work?us=50000", "").status, 200);
    assert!(
        cpu_s() - before_s >= 0.045,
        "CPU time, whatever the elapsed time"
    );
    assert_eq!(server.get("/work?us=x", "").status, 400);
}

/// Two clients send a request while the loop is busy. The second request is long. The first client
/// must get its response before the long request is done. A pause of the machine may hide this in
/// one try, but not in all tries.
#[test]
fn a_long_response_does_not_delay_a_short_one_that_is_ready_at_the_same_time() {
    const TRIES: usize = 3;
    let of_one_loop = |architecture| Spec {
        runs_on: on_cpu(rustix::thread::sched_getcpu()),
        ..spec(architecture)
    };
    for server in each_with(of_one_loop) {
        let is_fair = (0..TRIES).any(|_| {
            assert_eq!(
                server.get("/a.txt", "").status,
                200,
                "in the cache from now"
            );
            let [mut before, mut short, mut long] = [(); 3].map(|()| server.connect());
            before.send("GET /work?us=200000 HTTP/1.1\r\nHost: h\r\n\r\n");
            std::thread::sleep(Duration::from_millis(50));
            short.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
            long.send("GET /work?us=1000000 HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(short.answer().body, pattern(612));
            let is_first = long.is_silent_for(Duration::from_millis(100));
            assert_eq!(before.answer().status, 200);
            is_first
        });
        assert!(is_fair, "{:?}", server.reporter.report().architecture);
    }
}

#[test]
fn work_for_some_clients_does_not_delay_others() {
    const TRIES: usize = 3;
    for architecture in [
        Architecture::Events,
        Architecture::Single,
        Architecture::Uring,
    ] {
        let server = Started::new(Spec {
            runs_on: on_cpu(rustix::thread::sched_getcpu()),
            ..spec(architecture)
        });
        assert_eq!(server.get("/a.txt", "").status, 200);
        let is_shared = (0..TRIES).any(|_| {
            let mut working = [(); 4].map(|()| server.connect());
            for client in &mut working {
                client.send("GET /work?us=300000 HTTP/1.1\r\nHost: h\r\n\r\n");
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(server.get("/a.txt", "").status, 200);
            let silent = working
                .iter_mut()
                .filter_map(|client| client.is_silent_for(Duration::from_millis(1)).then_some(()));
            let is_shared = silent.count() == 4;
            for client in &mut working {
                assert_eq!(client.answer().text(), "done\n");
            }
            is_shared
        });
        assert!(is_shared, "{architecture:?}");
    }
}

#[test]
fn computed_routes_are_off_by_default_and_then_hide_no_file() {
    let server = Started::new(Spec {
        routes: false,
        ..spec(Architecture::Events)
    });
    let refused = server.get("/work?us=1", "");
    assert_eq!(refused.status, 404);
    assert!(refused.text().contains("--routes"), "{}", refused.text());
    assert_eq!(server.get("/bytes/10", "").status, 404);
    assert_eq!(server.get("/specweb99/get?file=/a", "").status, 404);
    fs::write(server.root().join("work"), "a file").unwrap();
    assert_eq!(server.get("/work?us=1", "").text(), "a file");
    assert_eq!(server.get("/.perpacket/report", "").status, 200);
}

/// All architectures have the same caching policy. Otherwise a comparison of architectures would
/// compare policies.
#[test]
fn every_architecture_sends_the_same_files_from_memory_and_prebuilds_responses() {
    let caches = each_with(|architecture| Spec {
        runs_on: on_cpu(rustix::thread::sched_getcpu()),
        ..spec(architecture)
    })
    .into_iter()
    .map(|server| {
        fs::write(server.root().join("small"), pattern(100_000)).unwrap();
        fs::write(server.root().join("medium"), pattern(500_000)).unwrap();
        // Use one connection, because some architectures use a thread or process for each.
        let mut client = server.connect();
        for path in ["/small", "/medium", "/large"]
            .into_iter()
            .chain(["/a.txt"; 100])
        {
            client.send(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            assert_eq!(client.answer().status, 200);
        }
        drop(client);
        let report = server.until(|report| report.connections.open == 0);
        assert!(report.cache.prebuilt > 0, "{report:?}");
        (report.cache.entries, report.cache.bytes)
    });
    let caches: Vec<_> = caches.collect();
    assert!(
        caches.windows(2).all(|pair| pair[0] == pair[1]),
        "{caches:?}"
    );
}

/// Only one of many clients is active, so the loop waits for the others up to the configured time.
#[test]
fn coalesced_clients_all_get_responses_after_a_wait_of_the_configured_time() {
    const REQUESTS: u32 = 5;
    let coalesced = Duration::from_millis(20);
    let server = Started::new(Spec {
        coalesce: Some(Time(coalesced)),
        runs_on: on_cpu(rustix::thread::sched_getcpu()),
        ..spec(Architecture::Events)
    });
    let mut clients: Vec<_> = (0..70).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.answer().body, pattern(612));
    }
    let begin = Instant::now();
    for _ in 0..REQUESTS {
        clients[0].send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(clients[0].answer().status, 200);
    }
    let least = coalesced * REQUESTS;
    assert!(begin.elapsed() >= least, "{:?}", begin.elapsed());
}
