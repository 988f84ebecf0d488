//! Tests mechanisms of the simulator. Each is compared with a closed form.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::collections::BTreeMap;

use perpacket_simulate::{Explanation, LayerPerPacket, Outcome, Progress, Simulation};
use perpacket_workload::Replay;

fn run(configuration: &str, overrides: &[(&str, &str)], trace: Option<Replay>) -> Outcome {
    explained(configuration, overrides, trace).0
}

fn explained(
    configuration: &str,
    overrides: &[(&str, &str)],
    trace: Option<Replay>,
) -> (Outcome, Explanation) {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let simulation = Simulation::new(configuration, &overrides, trace).unwrap();
    let simulated = simulation.run(1, false, &Progress::default()).unwrap();
    (simulated.outcome, simulated.explanation)
}

/// Calls of an operation per request.
fn calls(explanation: &Explanation, operation: &str) -> f64 {
    explanation
        .host
        .iter()
        .find(|cost| cost.operation == operation)
        .map_or(0.0, |cost| cost.calls)
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

/// A client with a reading rate waits after each read except the last. So a response of `n` bytes
/// takes `(n - segment) / rate` instead of `n / rate`.
#[test]
fn the_last_read_of_a_throttled_response_delays_nothing() {
    const RATE_BYTES_PER_S: f64 = 400_000.0 / 8.0;
    const HEADER_BYTES: f64 = 250.0;
    for (chunk, bytes) in [("1460", 1460.0), ("0", 0.0)] {
        let size_bytes = 14_350;
        let overrides = [
            SMALL.as_slice(),
            &[
                ("client.read_chunk_bytes", chunk),
                ("client.acknowledges_reads", "false"),
            ],
        ]
        .concat();
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

/// Code that fits into the instruction cache is fetched once. The code of one packet of the bulk
/// sender has about 20 KB. A cache of 8 KiB with two ways must miss on nearly every line of this
/// code.
#[test]
fn code_that_fits_its_cache_is_not_fetched_again() {
    let fetched = |size_kib: &str| {
        let overrides = [
            ("machine.l1i.size_kib", size_kib),
            ("machine.interrupt.is_on", "false"),
        ];
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

/// The pages of 2048 connections do not fit into 256 entries. Those of 4 connections do.
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

/// OSDI 2006, section 2: the host forwards socket operations to the NIC. A request on a connection
/// of the NIC causes three commands: a read, a write of the header, and a write of a file of one
/// page.
#[test]
fn the_host_reads_requests_of_connections_on_the_nic_by_commands() {
    let commands = |reads: &str| {
        let overrides = [
            SMALL.as_slice(),
            &[
                ("client.read_rate_bps", "0"),
                ("host.reads_by_command", reads),
            ],
        ]
        .concat();
        let trace = Some(trace_of(1_000));
        let (outcome, explanation) = explained("W-64-N-N-FCFS-400", &overrides, trace);
        assert!(outcome.conserved);
        let closes = calls(&explanation, "syscall.close");
        calls(&explanation, "bypass.command") - closes
    };
    let (by_command, by_nic) = (commands("true"), commands("false"));
    assert!((by_command - 3.0).abs() < 0.02, "{by_command}");
    assert!((by_nic - 2.0).abs() < 0.02, "{by_nic}");
}

/// OSDI 2006, section 4.2: the kernel copies computed responses. A copy of a page writes 64 lines
/// that no cache has, and files are not sent.
#[test]
fn computed_responses_are_copied_line_by_line() {
    let run = |copies: &str| {
        let overrides = [
            ("workload.connections", "64"),
            ("workload.sessions.dynamic_share", "1"),
            ("server.copies_dynamic", copies),
            ("run.warmup_packets", "20000"),
            ("run.packets", "40000"),
        ];
        explained("D-0-N-N-FCFS-400", &overrides, None).1
    };
    let (copied, sent) = (run("true"), run("false"));
    assert_eq!(calls(&copied, "syscall.sendfile_page"), 0.0);
    assert_eq!(calls(&sent, "syscall.write_copy"), 0.0);
    let copy = copied
        .host
        .iter()
        .find(|cost| cost.operation == "syscall.write_copy")
        .unwrap();
    let misses = copy.l2_misses / copy.calls;
    assert!((64.0..75.0).contains(&misses), "{misses} lines a page");
}

/// A server that waits for room in a send buffer of 32 KiB is woken as soon as `room` bytes are
/// free. With one segment of room at a time it sends what is left in as many calls.
#[test]
fn the_room_that_wakes_a_server_decides_how_often_it_writes() {
    let pages = |room: &str| {
        let overrides = [
            SMALL.as_slice(),
            &[
                ("server.writable_room_bytes", room),
                ("client.acknowledges_reads", "false"),
            ],
        ]
        .concat();
        let trace = Some(trace_of(400_000));
        let (_, explanation) = explained("S-0-N-N-FCFS-400", &overrides, trace);
        calls(&explanation, "syscall.sendfile")
    };
    // This is the part of the response that does not fit into the buffer at first. It is sent in
    // steps of the room, rounded up to segments.
    let left = f64::from(400_000 + 250 - 32_768);
    for (room, segments) in [("2048", 2.0), ("8192", 6.0)] {
        let expected = left / (segments * 1_460.0);
        let calls = pages(room);
        assert!(
            (calls / expected - 1.0).abs() < 0.1,
            "{room}: {calls} calls, not {expected}"
        );
    }
}

/// A line occupies the channel of DRAM for `service_cycles`. A processor with one miss at a time
/// waits for the channel only if this time is longer than the latency.
#[test]
fn the_channel_delays_misses_only_if_it_is_slower_than_the_latency() {
    let stall = |service: &str| {
        let overrides = [
            ("workload.connections", "2048"),
            ("machine.tlb.entries", "0"),
            ("machine.dram.service_cycles", service),
        ];
        run("bulk", &overrides, None).layers["tcp"].cycles_per_packet
    };
    let (free, slower) = (stall("0"), stall("3500"));
    assert!((stall("48") / free - 1.0).abs() < 0.01);
    assert!(slower > 1.5 * free, "{slower}, {free} with a free channel");
}

/// An interrupt for received frames occurs at most once in `gap`. If acknowledgments are further
/// apart, there is one interrupt for each. If they are not, there is one interrupt in each gap.
#[test]
fn interrupts_come_for_each_frame_or_once_in_a_gap() {
    const SEGMENT_BITS: f64 = 1_460.0 * 8.0;
    for (rate_mbps, gap_us) in [(100.0, 80.0), (900.0, 80.0), (900.0, 10.0)] {
        let overrides = [
            ("machine.interrupt.is_on", "true"),
            ("machine.interrupt.gap_us", &format!("{gap_us}")),
            ("machine.interrupt.send_delay_us", "0"),
            ("machine.network.jitter_us", "0"),
            ("workload.rate_mbps", &format!("{rate_mbps}")),
        ];
        let (outcome, explanation) = explained("bulk", &overrides, None);
        assert!(outcome.conserved);
        // A packet is a segment or its acknowledgment.
        let between_us = SEGMENT_BITS / rate_mbps;
        let expected = 0.5 * (between_us / gap_us).min(1.0);
        let interrupts = calls(&explanation, "driver.interrupt");
        assert!(
            (interrupts / expected - 1.0).abs() < 0.03,
            "{rate_mbps} Mb/s, {gap_us} us: {interrupts}, not {expected}"
        );
    }
    let (_, explanation) = explained("bulk", &[("machine.interrupt.is_on", "false")], None);
    assert_eq!(calls(&explanation, "driver.interrupt"), 0.0);
}

/// The NIC keeps a partial segment, and has not reported some acknowledgments. The server must wake
/// nevertheless, so the reports have a limit.
#[test]
fn reports_leave_the_room_that_wakes_a_server() {
    let overrides = |report_bytes: &str| {
        let mut all: Vec<(String, String)> = SMALL
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        for (name, value) in [
            ("tcp.send_buffer_bytes", "8000"),
            ("server.writable_room_bytes", "3540"),
            ("nic.report_bytes", report_bytes),
            ("run.packets", "100000"),
        ] {
            all.push((name.to_owned(), value.to_owned()));
        }
        all
    };
    // 8,000 B less 3,540 and a segment.
    let error = Simulation::new("S-64-P-N-FCFS-400", &overrides("3001"), None).unwrap_err();
    assert!(error.to_string().contains("nic.report_bytes"), "{error}");
    assert!(Simulation::new("S-0-N-N-FCFS-400", &overrides("3001"), None).is_ok());
    let simulation = Simulation::new("S-64-P-N-FCFS-400", &overrides("3000"), None).unwrap();
    let outcome = simulation
        .run(1, false, &Progress::default())
        .unwrap()
        .outcome;
    assert!(
        outcome.nic_packet_share > 0.8,
        "{}",
        outcome.nic_packet_share
    );
}

/// OSDI 2006, section 2: the NIC may aggregate acknowledgments into one message.
#[test]
fn the_nic_reports_acknowledgments_together() {
    let messages = |report_bytes: &str| {
        let overrides = [
            SMALL.as_slice(),
            &[
                ("nic.report_bytes", report_bytes),
                ("network.added_latency_ms", "1"),
            ],
        ]
        .concat();
        let trace = Some(trace_of(29_000));
        let (outcome, explanation) = explained("W-64-P-N-FCFS-400", &overrides, trace);
        assert!(outcome.conserved);
        calls(&explanation, "bypass.message")
    };
    // The response has 29,250 B: three times 8,192 B, rounded up to segments, and the rest. The
    // request needs a message too.
    let (together, each) = (messages("8192"), messages("0"));
    assert!((together - 5.0).abs() < 0.3, "{together}");
    assert!(each > 7.0, "{each}");
}

/// FreeBSD 4.7: TCP's output and an append to the send buffer follow the list of the buffer from its
/// beginning. If each segment is acknowledged before the next, the list has one element, and nothing
/// is followed.
#[test]
fn long_send_buffers_are_followed_from_their_beginning() {
    let steps = |rate_mbps: &str, connections: &str, instructions: &str| {
        let overrides = [
            ("workload.rate_mbps", rate_mbps),
            ("workload.connections", connections),
            ("layers.tcp.walk.instructions", instructions),
            ("layers.syscall.append_walk.instructions", instructions),
        ];
        let (_, explanation) = explained("bulk", &overrides, None);
        [
            calls(&explanation, "tcp.walk"),
            calls(&explanation, "syscall.append_walk"),
        ]
    };
    assert_eq!(steps("100", "2048", "6"), [0.0, 0.0]);
    assert_eq!(steps("900", "1", "0"), [0.0, 0.0]);
    // A round trip has about 60 us, and a segment of 12 us follows every 13 us. So five to seven segments
    // are outstanding; a packet is a segment or its acknowledgment.
    for walked in steps("900", "1", "6") {
        assert!((2.0..4.0).contains(&walked), "{walked} buffers a packet");
    }
}

/// A client that acknowledges what it reads waits the time of each segment before it takes the next.
/// The acknowledgments of one response are then as far apart.
#[test]
fn a_client_that_acknowledges_reads_takes_segment_after_segment() {
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
        let overrides = [
            SMALL.as_slice(),
            &[
                ("workload.sessions.keep_alive_share", "0"),
                ("workload.connections", "64"),
                ("run.packets", "100000"),
                ("client.acknowledges_reads", acknowledges),
            ],
        ]
        .concat();
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
        let overrides = [
            SMALL.as_slice(),
            &[
                ("client.times_connections", times),
                ("network.added_latency_ms", "5"),
                ("client.think_time_ms", "50"),
            ],
        ]
        .concat();
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
        let overrides = [
            SMALL.as_slice(),
            &[
                ("machine.network.jitter_us", jitter_us),
                // A frame must not wait for those of other connections.
                ("workload.connections", "500"),
                ("client.start_spread_ms", "200"),
                ("client.think_time_ms", "200"),
                ("run.warmup_packets", "50000"),
                ("run.packets", "200000"),
            ],
        ]
        .concat();
        let outcome = run("W-0-N-N-FCFS-400", &overrides, Some(trace_of(1_000)));
        assert!(outcome.conserved);
        outcome.response_ms.unwrap().mean
    };
    let waited_ms = response_ms("2000") - response_ms("0");
    assert!((waited_ms - 1.0).abs() < 0.1, "{waited_ms} ms");
}

/// The interrupt for sent frames comes after a pause. Segments at 100 Mb/s are 117 us apart, so each
/// causes an interrupt after a pause of 60 us, and none causes one after a pause of 130 us. Entry and
/// return of an interrupt cost 376 instructions and 9,198 cycles, in the layer `other`.
#[test]
fn a_pause_after_a_sent_frame_causes_an_interrupt() {
    let run = |is_on: &str, delay_us: &str| {
        let overrides = [
            ("machine.interrupt.is_on", is_on),
            ("machine.interrupt.gap_us", "0"),
            ("machine.interrupt.send_delay_us", delay_us),
        ];
        let (outcome, explanation) = explained("bulk", &overrides, None);
        let cycles = outcome.layers["other"].cycles_per_packet;
        (calls(&explanation, "other.interrupt"), cycles)
    };
    let (none, without) = run("false", "60");
    assert_eq!(none, 0.0);
    // A packet is a segment or its acknowledgment, which causes an interrupt of its own.
    for (delay_us, expected) in [("60", 1.0), ("130", 0.5)] {
        let (interrupts, cycles) = run("true", delay_us);
        assert!(
            (interrupts - expected).abs() < 0.02,
            "{delay_us} us: {interrupts}, not {expected}"
        );
        let cost = (cycles - without) / interrupts;
        let stated = 376.0 * 1.087 + 9_198.0;
        assert!((cost / stated - 1.0).abs() < 0.01, "{cost}, not {stated}");
    }
}

/// Entry and return of an interrupt count for the layer that they interrupt, or for `other`. The
/// layers have the same sum with both, and the stack's increase is what `other` lacks.
#[test]
fn an_interrupt_counts_for_the_layer_that_it_interrupts() {
    let run = |charges: &str| {
        let overrides = [
            ("machine.interrupt.is_on", "true"),
            ("machine.interrupt.preempts", "true"),
            ("machine.interrupt.charges_interrupted", charges),
            ("machine.interrupt.gap_us", "0"),
            ("workload.rate_mbps", "900"),
            ("workload.sleep_us", "200"),
        ];
        let (outcome, explanation) = explained("bulk", &overrides, None);
        let cycles: Vec<f64> = (outcome.layers.values())
            .map(|cost| cost.cycles_per_packet)
            .collect();
        let other = outcome.layers["other"].cycles_per_packet;
        let interrupts = calls(&explanation, "driver.interrupt");
        (cycles.iter().sum::<f64>(), other, interrupts)
    };
    let (sum, other, interrupts) = run("false");
    let (charged_sum, charged_other, charged_interrupts) = run("true");
    assert!((charged_sum / sum - 1.0).abs() < 1e-9);
    assert!((charged_interrupts - interrupts).abs() < 1e-9);
    let share = (other - charged_other) / (interrupts * (376.0 * 1.087 + 9_198.0));
    assert!((0.05..0.5).contains(&share), "{share} hit the stack");
}

/// An interrupt that preempts comes in the middle of a job. So a busy server has more of them than
/// if each waits for the end of a job. A host that is idle when they come has the same number.
#[test]
fn an_interrupt_preempts_a_job() {
    let interrupts = |configuration: &str, preempts: &str| {
        let overrides = [
            ("machine", "athlon-xp-2600"),
            ("machine.interrupt.is_on", "true"),
            ("machine.interrupt.preempts", preempts),
            ("machine.interrupt.gap_us", "0"),
            ("run.warmup_packets", "20000"),
            ("run.packets", "40000"),
        ];
        let (outcome, explanation) = explained(configuration, &overrides, None);
        assert!(outcome.conserved);
        let packets = calls(&explanation, "driver.receive") + calls(&explanation, "driver.send");
        calls(&explanation, "driver.interrupt") / packets
    };
    let (waits, preempts) = (
        interrupts("W-0-N-N-FCFS-400", "false"),
        interrupts("W-0-N-N-FCFS-400", "true"),
    );
    assert!(preempts > 1.3 * waits, "{preempts}, {waits} without");
    assert_eq!(interrupts("bulk", "true"), interrupts("bulk", "false"));
}

/// The NIC writes to the last descriptor of each frame that it has sent, and the driver reads it
/// there. If frames are far apart, each frame misses once in both levels. Two descriptors a frame
/// have the frame's own line in half of the cases, so sending misses no more.
#[test]
fn the_driver_misses_on_the_descriptor_of_each_sent_frame() {
    for preempts in ["true", "false"] {
        let (_, explanation) = explained(
            "bulk",
            &[
                ("machine.interrupt.preempts", preempts),
                ("structures.ring", "512"),
                ("structures.tx_descriptors", "2"),
                (
                    "layers.driver.clean.touches",
                    r#"["done_descriptor 0..1", "tx_slot 0..1"]"#,
                ),
            ],
            None,
        );
        let cost = |operation: &str| {
            (explanation.host.iter())
                .find(|cost| cost.operation == operation)
                .map_or((0.0, 0.0), |cost| (cost.calls, cost.l2_misses))
        };
        let (sent, send_misses) = cost("driver.send");
        let (cleaned, clean_misses) = cost("driver.clean");
        assert!(
            (cleaned / sent - 1.0).abs() < 0.001,
            "{preempts}: {cleaned} of {sent}"
        );
        assert!(
            (clean_misses / cleaned - 1.0).abs() < 0.01,
            "{preempts}: {clean_misses}"
        );
        assert!(send_misses / sent < 0.05, "{preempts}: {send_misses}");
    }
}

/// 4.4BSD calls TCP's output for an acknowledgment that leaves data in the send buffer. A round trip
/// of 53 us is shorter than the 117 us between two segments at 100 Mb/s, and longer than the 13 us
/// at 900 Mb/s.
#[test]
fn an_acknowledgment_calls_tcps_output_if_data_are_left() {
    let idle = |rate_mbps: &str, instructions: &str| {
        let overrides = [
            ("workload.rate_mbps", rate_mbps),
            ("layers.tcp.output_idle.instructions", instructions),
            ("layers.tcp.walk.instructions", "0"),
            ("machine.network.jitter_us", "0"),
        ];
        let (outcome, explanation) = explained("bulk", &overrides, None);
        let instructions = outcome.layers["tcp"].instructions_per_packet;
        (calls(&explanation, "tcp.output_idle"), instructions)
    };
    let ((slow, at_slow), (fast, at_fast)) = (idle("100", "140"), idle("900", "140"));
    assert!(slow < 0.01, "{slow} calls a packet");
    assert!((fast - 0.5).abs() < 0.01, "{fast} calls a packet");
    assert!(
        (at_fast - at_slow - 70.0).abs() < 2.0,
        "{at_slow}, {at_fast}"
    );
    assert_eq!(idle("900", "0").0, 0.0);
}

/// TR05-450, section 6: the lines of the header, of TCP and of the system call are fetched
/// separately. The NIC writes the header to memory, so Ethernet misses one line of each received
/// frame.
#[test]
fn lines_are_fetched_ahead_where_they_are_named() {
    let layers = |lines: &str, by: &str| {
        let overrides = [
            ("workload.connections", "2048"),
            ("host.prefetch", if lines == "none" { "none" } else { "0" }),
            (
                "host.prefetch_lines",
                if lines == "none" { "all" } else { lines },
            ),
            ("host.prefetch_by", by),
        ];
        run("bulk", &overrides, None).layers
    };
    let none = layers("none", "prefetch");
    let header = layers("header", "prefetch");
    let misses =
        |layers: &BTreeMap<&str, LayerPerPacket>, layer: &str| layers[layer].l2_misses_per_packet;
    let saved = misses(&none, "ethernet") - misses(&header, "ethernet");
    assert!((saved - 0.5).abs() < 0.02, "{saved} misses a packet");
    assert!((misses(&none, "tcp") - misses(&header, "tcp")).abs() < 0.1);
    // The six lines of a write are those of the system call that depend on the connection.
    let syscall = layers("syscall", "prefetch");
    assert!(misses(&syscall, "syscall") < 0.3 * misses(&none, "syscall"));
    // A load waits for the line, so it counts as a miss. A prefetch does not wait.
    let loaded = layers("header", "load");
    let moved = misses(&loaded, "driver") - misses(&none, "driver");
    assert!((moved - 0.5).abs() < 0.02, "{moved} misses a packet");
    assert!(loaded["driver"].cycles_per_packet > header["driver"].cycles_per_packet + 150.0);
}

/// TR05-450, section 6.3: fields that are used together share lines. With all of them in half of the
/// lines, a segment and its acknowledgment need 3 lines less of `tcpcb` and `inpcb` in TCP, and one
/// less of `socket` in each of TCP and the system call. With 2048 connections each is a miss.
#[test]
fn reordered_fields_are_in_fewer_lines() {
    let misses = |share: &str| {
        let overrides = [
            ("workload.connections", "2048"),
            ("structures.field_share", share),
        ];
        let layers = run("bulk", &overrides, None).layers;
        ["syscall", "tcp"].map(|layer| layers[layer].l2_misses_per_packet)
    };
    let ([syscall, tcp], [syscall_reordered, tcp_reordered]) = (misses("1"), misses("0.5"));
    for (saved, lines) in [
        (syscall - syscall_reordered, 1.0),
        (tcp - tcp_reordered, 4.0),
    ] {
        // Two packets: the segment and its acknowledgment.
        assert!((2.0 * saved - lines).abs() < 0.4, "{saved} of {lines}");
    }
}
