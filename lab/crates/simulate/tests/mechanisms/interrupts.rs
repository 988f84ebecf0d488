//! Interrupts, and the driver that they run.

use super::{calls, cost, explained, misses_of_call, run};

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

/// The interrupt for sent frames comes after a pause. Segments at 100 Mb/s are 117 us apart, so each
/// causes an interrupt after a pause of 60 us, and none causes one after a pause of 130 us. Entry and
/// return of an interrupt that finds the processor idle cost 376 instructions and 9,198 cycles, in the
/// layer `other`.
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
    let share = (other - charged_other) / (interrupts * (376.0 * 1.087 + 2_700.0));
    assert!((0.05..0.5).contains(&share), "{share} hit the stack");
}

/// Segments at 100 Mb/s and their acknowledgments find an idle processor. A busy server is hardly ever
/// idle.
#[test]
fn an_interrupt_that_finds_the_processor_idle_has_a_cost_of_its_own() {
    let other = |configuration: &str, preempts: &str, from_idle_cycles: &str| {
        let overrides = [
            ("machine", "athlon-xp-2600"),
            ("machine.interrupt.preempts", preempts),
            ("machine.interrupt.from_idle_cycles", from_idle_cycles),
            ("run.warmup_packets", "20000"),
            ("run.packets", "20000"),
        ];
        let (outcome, explanation) = explained(configuration, &overrides, None);
        let cycles = outcome.layers["other"].cycles_per_packet;
        (cycles, calls(&explanation, "other.interrupt"))
    };
    let ((with, interrupts), (without, _)) =
        (other("bulk", "true", "5000"), other("bulk", "true", "0"));
    let cost = (with - without) / interrupts;
    assert!((cost / 5_000.0 - 1.0).abs() < 0.01, "{cost}");
    for preempts in ["true", "false"] {
        let busy = |cycles: &str| other("W-0-N-N-FCFS-400", preempts, cycles).0;
        let (with, without) = (busy("5000"), busy("0"));
        assert!((with - without).abs() < 50.0, "{with}, {without}");
    }
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
            // Long jobs.
            ("server.responds_in_next_round", "false"),
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
        let (sent, cleaned) = (
            calls(&explanation, "driver.send"),
            calls(&explanation, "driver.clean"),
        );
        let send_misses = misses_of_call(&explanation, "driver.send");
        let clean_misses = misses_of_call(&explanation, "driver.clean");
        assert!(
            (cleaned / sent - 1.0).abs() < 0.001,
            "{preempts}: {cleaned} of {sent}"
        );
        assert!(
            (clean_misses - 1.0).abs() < 0.01,
            "{preempts}: {clean_misses}"
        );
        assert!(send_misses < 0.05, "{preempts}: {send_misses}");
    }
}

/// The NIC writes the header and the descriptor of each received frame, and a descriptor of each sent
/// one. A packet of the bulk sender is one of these frames, so Ethernet reads half a written line a
/// packet, and the driver one.
#[test]
fn the_first_read_of_what_the_nic_has_written_costs_more() {
    let layers = |cycles: &str| {
        let (outcome, _) = explained("bulk", &[("machine.first_read_cycles", cycles)], None);
        ["ethernet", "driver", "tcp"].map(|layer| outcome.layers[layer].cycles_per_packet)
    };
    let (with, without) = (layers("1000"), layers("0"));
    for (index, expected) in [(0, 500.0), (1, 1_000.0), (2, 0.0)] {
        let more = with[index] - without[index];
        assert!((more - expected).abs() < 20.0, "{more}, not {expected}");
    }
}

/// A segment of 1,460 B is a frame of 1,514 B in memory, and its acknowledgment one of 60 B. If the bus
/// needs 15 us a frame, and no other resource is the limit, it moves one of each in 30 us and the
/// time of their bytes.
#[test]
fn the_bus_limits_the_frames_a_second() {
    let overrides = [
        ("workload.connections", "32"),
        ("workload.rate_mbps", "900"),
        ("machine.io_bus.overhead_ns", "15000"),
    ];
    let outcome = run("bulk", &overrides, None);
    assert!(outcome.conserved);
    let both_us = 2.0 * 15.0 + (1_514.0 + 60.0) * 8.0 / 4_224.0;
    let expected = 1_460.0 * 8.0 / both_us;
    let mbps = outcome.content_mbps;
    assert!(
        (mbps / expected - 1.0).abs() < 0.02,
        "{mbps}, not {expected}"
    );
}

/// Segments at 20 Mb/s are 584 us apart. The NIC takes 0.65 us to request the move of one, and the bus
/// 50 us to move it, besides its bytes. The interrupt for the sent segment comes after 10 us. Its
/// entry takes 9,607 cycles of 2,100 MHz, and then the handler waits until the segment has been
/// moved. The interrupt for the acknowledgment finds a free bus.
#[test]
fn the_drivers_read_of_a_register_waits_for_the_bus() {
    let handler = |overhead_ns: &str| {
        let overrides = [
            ("workload.rate_mbps", "20"),
            ("machine.interrupt.send_delay_us", "10"),
            ("machine.network.jitter_us", "0"),
            ("machine.io_bus.overhead_ns", overhead_ns),
            ("run.warmup_packets", "2000"),
            ("run.packets", "4000"),
        ];
        let (_, explanation) = explained("bulk", &overrides, None);
        let handler = cost(&explanation, "driver.interrupt").unwrap();
        assert!(
            (handler.calls - 1.0).abs() < 0.01,
            "{} a packet",
            handler.calls
        );
        handler.cycles / handler.calls
    };
    let moved_us = 0.65 + 50.0 + 1_514.0 * 8.0 / 4_224.0;
    let read_us = 10.0 + 9_607.0 / 2_100.0;
    let expected = (moved_us - read_us) * 2_100.0 / 2.0;
    let waited = handler("50000") - handler("0");
    assert!(
        (waited / expected - 1.0).abs() < 0.01,
        "{waited}, not {expected}"
    );
}
