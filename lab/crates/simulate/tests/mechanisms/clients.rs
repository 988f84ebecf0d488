//! What clients do, and when.

use super::{SMALL, explained, run, small, trace_of};

/// A client with a reading rate waits after each read except the last. So a response of `n` bytes
/// takes `(n - segment) / rate` instead of `n / rate`.
#[test]
fn the_last_read_of_a_throttled_response_delays_nothing() {
    const RATE_BYTES_PER_S: f64 = 400_000.0 / 8.0;
    const HEADER_BYTES: f64 = 250.0;
    for (chunk, bytes) in [("1460", 1460.0), ("0", 0.0)] {
        let size_bytes = 14_350;
        let overrides = small(&[
            ("client.read_chunk_bytes", chunk),
            ("client.acknowledges_reads", "false"),
        ]);
        let outcome = run("S-0-N-N-FCFS-400", &overrides, Some(trace_of(size_bytes)));
        let response = f64::from(size_bytes) + HEADER_BYTES;
        let expected_ms = (response - bytes) / RATE_BYTES_PER_S * 1e3;
        let rate = 4.0 / outcome.requests_per_s.unwrap() * 1e3;
        // An idle server and a round trip of 20 us add less than 1 ms.
        assert!(
            (0.0..1.5).contains(&(rate - expected_ms)),
            "{chunk}: {rate} ms a request, not {expected_ms}"
        );
    }
    // A response of one segment is not delayed at all.
    let outcome = run("S-0-N-N-FCFS-400", &SMALL, Some(trace_of(1_000)));
    assert!(outcome.response_ms.unwrap().mean < 1.0);
}

/// A slot opens its next connection when the server has closed the last one, so the clients never
/// have more connections than slots.
#[test]
fn a_slot_waits_for_the_end_of_its_connection() {
    let mean = |waits: &str| {
        let overrides = [
            ("workload.connections", "64"),
            ("client.think_time_ms", "0"),
            ("client.start_spread_ms", "5"),
            ("client.waits_for_fin", waits),
            ("run.warmup_packets", "20000"),
            ("run.packets", "40000"),
        ];
        run("W-4096-P-N-FCFS-400", &overrides, None)
            .connections_on_nic
            .mean
    };
    let (waits, at_once) = (mean("true"), mean("false"));
    // The NIC forgets a connection a little later, when the client has acknowledged its end.
    assert!(
        waits < 68.0 && at_once > waits + 2.0,
        "{waits}, {at_once} without"
    );
}

/// A client that acknowledges what it reads waits the time of each segment before it reads the next.
/// The acknowledgments of one response are then as far apart.
#[test]
fn a_client_that_acknowledges_reads_waits_after_each_segment() {
    let size_bytes = 14_350;
    let (outcome, _) = explained("S-0-N-N-FCFS-400", &SMALL, Some(trace_of(size_bytes)));
    assert!(outcome.conserved);
    // Nine of ten segments at 50,000 B/s.
    let expected_ms = 9.0 * 1_460.0 / 50.0;
    let response_ms = outcome.response_ms.unwrap().mean;
    assert!(
        (0.0..1.5).contains(&(response_ms - expected_ms)),
        "{response_ms} ms, not {expected_ms}"
    );
    // A request and its response need 10 segments and 11 acknowledgments or fewer, and a connection
    // begins and ends once for many requests. Window updates would add to them.
    let packets = outcome.packets_per_s / outcome.requests_per_s.unwrap();
    assert!((20.0..24.0).contains(&packets), "{packets}");
}

/// A client that acknowledges reads does not wait after the last one: the server's close and the next
/// connection come as early as with a client whose TCP acknowledges what arrives.
#[test]
fn nothing_waits_after_the_last_read() {
    let outside_ms = |acknowledges: &str| {
        let overrides = small(&[
            ("workload.sessions.keep_alive_share", "0"),
            ("workload.connections", "64"),
            ("run.packets", "100000"),
            ("client.acknowledges_reads", acknowledges),
        ]);
        let outcome = run("S-0-N-N-FCFS-400", &overrides, None);
        let response_ms = outcome.response_ms.unwrap().mean;
        64.0 / outcome.requests_per_s.unwrap() * 1e3 - response_ms
    };
    let (with, without) = (outside_ms("true"), outside_ms("false"));
    assert!(with < without + 2.0, "{with} ms, {without} without");
}

/// The response time of a connection's first request includes the handshake, which takes a round trip.
#[test]
fn a_first_response_includes_the_handshake() {
    let outcome = |times: &str| {
        let overrides = small(&[
            ("client.times_connections", times),
            ("network.added_latency_ms", "5"),
            ("client.think_time_ms", "50"),
        ]);
        run("W-0-N-N-FCFS-400", &overrides, Some(trace_of(1_000)))
    };
    let (with, without) = (outcome("true"), outcome("false"));
    let handshake_ms = with.response_ms.unwrap().mean - without.response_ms.unwrap().mean;
    let connections_a_request = with.connections_per_s / with.requests_per_s.unwrap();
    let expected_ms = 10.0 * connections_a_request;
    assert!(
        (handshake_ms / expected_ms - 1.0).abs() < 0.2,
        "{handshake_ms}, not {expected_ms}"
    );
}

/// A frame to the server waits for a time between 0 and the jitter, so a request waits for half of it
/// on average.
#[test]
fn a_request_waits_for_half_of_the_jitter() {
    let response_ms = |jitter_us: &str| {
        let overrides = small(&[
            ("machine.network.jitter_us", jitter_us),
            // A frame must not wait for those of other connections.
            ("workload.connections", "500"),
            ("client.start_spread_ms", "200"),
            ("client.think_time_ms", "200"),
            ("run.warmup_packets", "50000"),
            ("run.packets", "200000"),
        ]);
        let outcome = run("W-0-N-N-FCFS-400", &overrides, Some(trace_of(1_000)));
        assert!(outcome.conserved);
        outcome.response_ms.unwrap().mean
    };
    let waited_ms = response_ms("2000") - response_ms("0");
    assert!((waited_ms - 1.0).abs() < 0.1, "{waited_ms} ms");
}
