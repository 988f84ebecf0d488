//! Interrupts, and the driver that they run.

use super::{calls, explained, misses_of_call};

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
