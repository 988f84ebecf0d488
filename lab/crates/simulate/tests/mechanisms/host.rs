//! The host: caches, code, translations, send buffers and wake-ups.

use std::collections::BTreeMap;

use perpacket_simulate::LayerPerPacket;

use super::{calls, explained, misses_of_call, run, small, trace_of};

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
    let misses = misses_of_call(&copied, "syscall.write_copy");
    assert!((64.0..75.0).contains(&misses), "{misses} lines a page");
}

/// A server that waits for room in a send buffer of 32 KiB is woken as soon as `room` bytes are
/// free. With one segment of room at a time it sends what is left in as many calls.
#[test]
fn the_room_that_wakes_a_server_decides_how_often_it_writes() {
    let pages = |room: &str| {
        let overrides = small(&[
            ("server.writable_room_bytes", room),
            ("client.acknowledges_reads", "false"),
        ]);
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

/// A server that responds in the next round of its event loop handles one more event for each request.
/// If it is busy, it handles the other ready connections in between, and must fetch the lines of the
/// connection's heap and of the file twice. A prefetch of the next line does not help. If it is idle,
/// the lines are still cached.
#[test]
fn a_busy_server_fetches_the_lines_of_a_connection_in_each_round() {
    const TOUCHES: &str = r#"["heap 0..24", "object 24..32"]"#;
    let run = |connections: &str, responds_in_next_round: &str, next_line_prefetch: &str| {
        let overrides = [
            ("workload.connections", connections),
            ("server.responds_in_next_round", responds_in_next_round),
            ("machine.next_line_prefetch", next_line_prefetch),
            ("layers.user.request.touches", TOUCHES),
            ("layers.user.respond.touches", TOUCHES),
            // No file is popular, so that the requests of others do not bring its lines back.
            ("workload.sessions.popularity_exponent", "0"),
            ("run.warmup_packets", "100000"),
            ("run.packets", "50000"),
        ];
        explained("W-0-N-N-FCFS-400", &overrides, None).1
    };
    let busy = run("2048", "true", "true");
    let one_round = run("2048", "false", "true");
    let events = |explanation| calls(explanation, "syscall.poll_event");
    let more = events(&busy) - events(&one_round);
    assert!((more - 1.0).abs() < 0.1, "{more} more events a request");
    // The read system call has fetched 6 lines of the heap.
    let request = misses_of_call(&busy, "user.request");
    assert!((25.0..27.0).contains(&request), "{request} lines");
    for explanation in [busy, run("2048", "true", "false")] {
        let respond = misses_of_call(&explanation, "user.respond");
        assert!((31.0..33.0).contains(&respond), "{respond} lines");
    }
    for explanation in [one_round, run("4", "true", "true")] {
        let respond = misses_of_call(&explanation, "user.respond");
        assert!(respond < 0.5, "{respond} lines");
    }
}

/// Lines that are touched in rotation are scattered, however many they are, so the next one is not
/// the neighbour that a prefetch brings.
#[test]
fn a_prefetch_does_not_bring_the_next_line_of_a_rotation() {
    let missed = |lines: &str, next_line_prefetch: &str| {
        let overrides = small(&[
            ("structures.stream", lines),
            ("machine.next_line_prefetch", next_line_prefetch),
        ]);
        misses_of_call(
            &explained("W-0-N-N-FCFS-400", &overrides, None).1,
            "tcp.free_page",
        )
    };
    for lines in ["32768", "32763"] {
        let (with, without) = (missed(lines, "true"), missed(lines, "false"));
        assert!(
            (with / without - 1.0).abs() < 0.1,
            "{lines} lines: {with}, {without} misses"
        );
    }
}

/// The profiler's instructions take as many cycles as those of any operation.
#[test]
fn the_profilers_instructions_have_the_machines_cycles_per_instruction() {
    let other = |instructions: &str, cycles_per_instruction: &str| {
        let overrides = small(&[
            ("host.profiler_instructions", instructions),
            ("machine.cycles_per_instruction", cycles_per_instruction),
        ]);
        run("bulk", &overrides, None).layers["other"]
    };
    for cycles_per_instruction in ["0.5", "2"] {
        let (on, off) = (
            other("900", cycles_per_instruction),
            other("0", cycles_per_instruction),
        );
        let more = on.instructions_per_packet - off.instructions_per_packet;
        let cycles = on.cycles_per_packet - off.cycles_per_packet;
        let expected: f64 = cycles_per_instruction.parse().unwrap();
        assert!(
            (cycles / more / expected - 1.0).abs() < 0.02,
            "{cycles} cycles of {more}"
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
            ("machine.interrupt.charges_interrupted", "false"),
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

/// Each call of sendfile finds pages of its file, at a cost that counts for `other`.
#[test]
fn pages_of_a_file_are_found_outside_of_system_calls() {
    let run = |instructions: &str| {
        let overrides = small(&[
            ("layers.other.file_pages.instructions", instructions),
            ("layers.other.file_pages.touches", "[]"),
        ]);
        let (outcome, explanation) = explained("W-0-N-N-FCFS-400", &overrides, None);
        let page_calls = calls(&explanation, "other.file_pages");
        assert!(page_calls > 0.9, "{page_calls} a request");
        assert_eq!(page_calls, calls(&explanation, "syscall.sendfile"));
        let packets = outcome.packets_per_s / outcome.requests_per_s.unwrap();
        (
            outcome.layers["other"].instructions_per_packet,
            page_calls / packets,
        )
    };
    let ((with, page_calls), (without, _)) = (run("1000"), run("0"));
    assert!(((with - without) / page_calls / 1_000.0 - 1.0).abs() < 0.05);
}
