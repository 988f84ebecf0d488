//! Mechanisms of the simulator, each against a closed form.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use perpacket_simulate::{Outcome, Progress, Simulation};
use perpacket_workload::Replay;

fn run(configuration: &str, overrides: &[(&str, &str)], trace: Option<Replay>) -> Outcome {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let simulation = Simulation::new(configuration, &overrides, trace).unwrap();
    simulation
        .run(1, false, &Progress::default())
        .unwrap()
        .outcome
}

/// A trace of one client; all responses have this size.
fn trace_of(size_bytes: u32) -> Replay {
    let line = |second: u32| {
        format!(
            "host - - [01/Jul/1995:00:00:{second:02} -0400] \"GET /a HTTP/1.0\" 200 {size_bytes}\n"
        )
    };
    let log: String = (0..60).map(line).collect();
    Replay::read(log.as_bytes(), None, 15.0).unwrap()
}

const SMALL: [(&str, &str); 4] = [
    ("workload.connections", "4"),
    ("client.start_spread_ms", "1"),
    ("run.warmup_packets", "2000"),
    ("run.packets", "10000"),
];

/// A client with a reading rate waits after each read but the last: a response of `n` bytes takes
/// `(n - segment) / rate`, not `n / rate`.
#[test]
fn the_last_read_of_a_throttled_response_delays_nothing() {
    const RATE_BYTES_PER_S: f64 = 400_000.0 / 8.0;
    const HEADER_BYTES: f64 = 250.0;
    for (chunk, bytes) in [("1460", 1460.0), ("0", 0.0)] {
        let size_bytes = 14_350;
        let overrides = [SMALL.as_slice(), &[("client.read_chunk_bytes", chunk)]].concat();
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

/// Code that fits the instruction cache is fetched once; the code of one packet of the bulk sender
/// is about 20 KB. A cache of 8 KiB with two ways must miss on nearly every line of it.
#[test]
fn code_that_fits_its_cache_is_not_fetched_again() {
    let fetched = |size_kib: &str| {
        let overrides = [("machine.l1i.size_kib", size_kib)];
        let layers = run("bulk", &overrides, None).layers;
        layers
            .values()
            .map(|cost| cost.fetch_misses_per_packet)
            .sum::<f64>()
    };
    assert_eq!(fetched("0"), 0.0, "without a cache fetching is free");
    assert!(fetched("64") < 0.1);
    // A packet needs 3.0 thousand instructions of 5 bytes each, which are 237 lines.
    let thrashed = fetched("8");
    assert!(
        (150.0..260.0).contains(&thrashed),
        "{thrashed} lines a packet"
    );
}

/// The pages of 2048 connections do not fit 256 entries; those of 4 connections do.
#[test]
fn translations_are_missing_when_connections_need_more_pages_than_the_buffer_has() {
    let missing = |connections: &str, entries: &str| {
        let overrides = [
            ("workload.connections", connections),
            ("machine.tlb.entries", entries),
        ];
        let layers = run("bulk", &overrides, None).layers;
        layers
            .values()
            .map(|cost| cost.tlb_misses_per_packet)
            .sum::<f64>()
    };
    assert!(missing("4", "256") < 0.01);
    assert!(missing("2048", "256") > 1.0);
    assert_eq!(missing("2048", "0"), 0.0);
}
