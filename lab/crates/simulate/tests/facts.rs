//! Facts about runs of the simulator: published cache misses and orderings, conservation, determinism.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use perpacket_simulate::{Outcome, Progress, Simulation};

fn run(configuration: &str, overrides: &[(&str, &str)], seed: u64) -> Outcome {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let simulation = Simulation::new(configuration, &overrides, None).unwrap();
    simulation
        .run(seed, false, &Progress::default())
        .unwrap()
        .outcome
}

fn requests(configuration: &str) -> f64 {
    run(configuration, &[], 1).requests_per_s.unwrap()
}

/// TR05-450, sections 5.2 and 6.1: misses per packet of the bulk sender at 100 Mb/s by connections.
#[test]
fn cache_misses_of_the_bulk_sender_are_the_published_ones_within_a_fifth() {
    /// Connections, layer, and misses of the first and of the second level per packet.
    const PUBLISHED: [(&str, &str, Option<f64>, f64); 10] = [
        ("4", "syscall", None, 0.0),
        ("4", "tcp", None, 0.0),
        ("32", "syscall", Some(1.22), 0.01),
        ("32", "tcp", Some(3.43), 0.01),
        ("128", "syscall", Some(2.04), 0.09),
        ("128", "tcp", Some(5.46), 0.26),
        ("512", "syscall", Some(2.15), 2.02),
        ("512", "tcp", Some(5.71), 4.30),
        ("2048", "syscall", None, 2.04),
        ("2048", "tcp", None, 4.35),
    ];
    /// With fewer misses a packet than this, the result depends on the placement of pages and not
    /// on the working set.
    const PLACEMENT: f64 = 0.03;
    const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;
    let seeds = SEEDS.count() as f64;
    for connections in ["4", "32", "128", "512", "2048"] {
        let outcomes: Vec<Outcome> = SEEDS
            .map(|seed| run("bulk", &[("workload.connections", connections)], seed))
            .collect();
        for (_, layer, l1d, l2) in PUBLISHED.into_iter().filter(|row| row.0 == connections) {
            let mean = |value: fn(&perpacket_simulate::LayerPerPacket) -> f64| {
                outcomes
                    .iter()
                    .map(|outcome| value(&outcome.layers[layer]))
                    .sum::<f64>()
                    / seeds
            };
            let simulated_l2 = mean(|cost| cost.l2_misses_per_packet);
            let allowed = (0.2 * l2).max(PLACEMENT);
            assert!(
                (simulated_l2 - l2).abs() <= allowed,
                "{layer} at {connections}: {simulated_l2} second-level misses, published {l2}"
            );
            if let Some(l1d) = l1d {
                let simulated = mean(|cost| cost.l1d_misses_per_packet);
                assert!(
                    (simulated - l1d).abs() <= 0.2 * l1d,
                    "{layer} at {connections}: {simulated} first-level misses, published {l1d}"
                );
            }
        }
    }
}

/// OSDI 2006, section 5.1: the order of request rates at 400 MIPS.
#[test]
fn request_rates_are_in_the_published_order() {
    const ORDER: [&str; 6] = [
        "W-4096-P-N-FCFS-400",
        "W-1024-N-N-FCFS-400",
        "W-0-N-N-FCFS-400",
        "W-256-N-N-FCFS-400",
        "W-4096-P-L-FCFS-400",
        "W-1024-P-N-FCFS-400",
    ];
    let rates: Vec<f64> = ORDER
        .iter()
        .map(|configuration| requests(configuration))
        .collect();
    for (pair, names) in rates[..5].windows(2).zip(ORDER.windows(2)) {
        assert!(pair[0] < pair[1], "{names:?}: {pair:?}");
    }
    // The published values of this pair differ by 3 %. The test requires that the second is at
    // least as good, within the spread of seeds.
    assert!(rates[5] >= 0.99 * rates[4], "{rates:?}");
}

#[test]
fn the_baseline_is_the_published_one() {
    let outcome = run("W-0-N-N-FCFS-400", &[], 1);
    let rate = outcome.requests_per_s.unwrap();
    assert!(
        (rate / 23_031.0 - 1.0).abs() < 0.10,
        "51-W0: within 10 %, not {rate}"
    );
    assert!(
        outcome.host_idle < 0.04,
        "51-W0-hostidle: {}",
        outcome.host_idle
    );
    assert!(
        (outcome.nic_idle - 0.62).abs() < 0.04,
        "51-W0-nicidle: {}",
        outcome.nic_idle
    );
    assert!(
        (outcome.stack_share - 0.57).abs() < 0.04,
        "51-W0-stack: {}",
        outcome.stack_share
    );
    let packets_per_request = outcome.packets_per_s / rate;
    assert!(
        (packets_per_request - 14.0).abs() < 1.0,
        "{packets_per_request}"
    );
}

/// This test uses host packets first. In arrival order, a slow NIC delays the host's connections,
/// so that the NIC has a larger share of the traffic. This larger share can hide a small difference
/// in the NIC's speed.
#[test]
fn a_faster_nic_never_hurts() {
    for configuration in ["W-4096-P-L-FCFS", "W-4096-P-N-FCFS", "S-4096-P-L-FCFS"] {
        let rates = [400, 600, 800].map(|mips| requests(&format!("{configuration}-{mips}")));
        assert!(
            rates.windows(2).all(|pair| pair[1] >= 0.99 * pair[0]),
            "{configuration}: {rates:?}"
        );
    }
}

/// OSDI 2006, section 3.1: the delay is microseconds with host packets first, and a hundred times
/// as long in arrival order.
#[test]
fn host_first_keeps_the_delay_of_host_packets_near_the_baselines() {
    let delay = |configuration: &str| {
        let delays = run(configuration, &[], 1).host_packet_delay_us;
        delays.send.unwrap().mean.max(delays.receive.unwrap().mean)
    };
    let baseline = delay("W-0-N-N-FCFS-400");
    assert!(baseline < 10.0, "51-W0-delay: {baseline}");
    for configuration in [
        "W-1024-P-N-FCFS-400",
        "W-4096-P-N-FCFS-400",
        "W-4096-P-L-FCFS-400",
    ] {
        let host_first = delay(configuration);
        assert!(
            host_first < 13.0,
            "{configuration}, 51-PN-delay: {host_first}"
        );
        assert!(
            host_first < baseline + 10.0,
            "{configuration}: {host_first}"
        );
    }
    assert!(delay("W-1024-N-N-FCFS-400") > 100.0);
}

/// OSDI 2006, section 4: a 400 MIPS NIC carries 1 Gb/s on one offloaded connection and, at the same
/// time, 1 Gb/s on a host connection, in 1518-byte frames.
#[test]
fn a_400_mips_nic_carries_a_gigabit_for_itself_and_one_for_the_host() {
    let outcome = run(
        "bulk",
        &[
            ("machine", "osdi06"),
            ("workload.connections", "2"),
            // The rate is higher than the 1,898 Mb/s of payload in 2 Gb/s, because a sender that
            // has fallen behind for a moment does not catch up.
            ("workload.rate_mbps", "1960"),
            ("nic.connections", "1"),
            ("nic.host_first", "true"),
            ("tcp.send_buffer_bytes", "262144"),
            ("tcp.receive_buffer_bytes", "262144"),
        ],
        1,
    );
    assert!(
        outcome.content_mbps > 1_890.0,
        "{} Mb/s",
        outcome.content_mbps
    );
    assert!(
        (outcome.nic_packet_share - 0.5).abs() < 0.02,
        "{}",
        outcome.nic_packet_share
    );
    assert_eq!(outcome.drops, 0);
}

/// OSDI 2006, section 5.2: a policy that selects longer connections gives the NIC more packets.
#[test]
fn better_selection_gives_the_nic_more_packets_with_as_many_connections() {
    let share = |policy: &str| run(&format!("W-256-P-L-{policy}-400"), &[], 1).nic_packet_share;
    let first_come = share("FCFS");
    let oracle = share("ORACLE");
    for policy in ["T20", "T50", "LIFETIME"] {
        let selected = share(policy);
        assert!(
            oracle > selected,
            "{policy} is better than the oracle: {selected} against {oracle}"
        );
        assert!(
            selected > 1.1 * first_come,
            "{policy}: {selected} against {first_come}"
        );
    }
}

/// OSDI 2006, figure 6: load control settles at about a thousand connections on the NIC, far from
/// both ends.
#[test]
fn load_control_settles_where_the_nic_is_just_not_overloaded() {
    let outcome = run("W-4096-P-L-FCFS-400", &[], 1);
    let mean = outcome.connections_on_nic.mean;
    assert!((700.0..1_400.0).contains(&mean), "{mean} connections");
    assert_eq!(
        outcome.drops, 0,
        "51-PL: no packets are dropped once it has settled"
    );
}

#[test]
fn frames_are_conserved_and_the_same_seed_gives_the_same_bytes() {
    let small = [("run.warmup_packets", "20000"), ("run.packets", "60000")];
    let mut configurations: Vec<(String, Vec<(&str, &str)>)> = vec![
        ("bulk".into(), vec![("workload.connections", "64")]),
        (
            "bulk".into(),
            vec![("network.added_latency_ms", "5"), ("host.prefetch", "1")],
        ),
        ("bulk".into(), vec![("machine.network.rate_mbps", "50")]),
        (
            "W-1024-N-N-FCFS-400".into(),
            vec![("nic.receive_ring_packets", "8")],
        ),
        (
            "W-4096-P-N-FCFS-400".into(),
            vec![("nic.queue_packets", "16")],
        ),
        (
            "W-0-N-N-FCFS-400".into(),
            vec![("nic.send_ring_packets", "1"), ("tcp.delayed_ack", "true")],
        ),
    ];
    for workload in ["W", "I", "D", "S"] {
        for policy in ["N-FCFS", "L-T4", "R-LIFETIME", "L-ORACLE"] {
            configurations.push((format!("{workload}-512-P-{policy}-400"), vec![]));
        }
    }
    for (configuration, overrides) in configurations {
        let overrides: Vec<_> = small.into_iter().chain(overrides).collect();
        let outcome = run(&configuration, &overrides, 7);
        assert!(outcome.conserved, "{configuration} {overrides:?}");
        let again = run(&configuration, &overrides, 7);
        let bytes = |outcome: &Outcome| serde_json::to_string(outcome).unwrap();
        assert_eq!(bytes(&outcome), bytes(&again), "{configuration}");
        assert_ne!(bytes(&outcome), bytes(&run(&configuration, &overrides, 8)));
    }
}

/// A tiny ring drops many frames, and every transfer still ends.
#[test]
fn transfers_complete_whatever_is_dropped() {
    let outcome = run(
        "W-1024-N-N-FCFS-400",
        &[
            ("nic.receive_ring_packets", "4"),
            ("tcp.minimum_rto_ms", "20"),
            ("tcp.rto_slop_ms", "0"),
            ("tcp.syn_rto_ms", "50"),
            ("run.warmup_packets", "50000"),
            ("run.packets", "100000"),
        ],
        3,
    );
    assert!(outcome.drops > 1_000, "{}", outcome.drops);
    assert!(outcome.retransmissions > 0 && outcome.timeouts > 0);
    assert!(outcome.requests_per_s.unwrap() > 0.0 && outcome.conserved);
}

/// The sums over the explanation's operations equal the totals of the result.
#[test]
fn an_explanation_adds_up_to_the_result() {
    let overrides = [("run.warmup_packets", "20000"), ("run.packets", "60000")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let simulation = Simulation::new("W-1024-P-N-FCFS-400", &overrides, None).unwrap();
    let simulated = simulation.run(1, false, &Progress::default()).unwrap();
    let (outcome, explanation) = (simulated.outcome, simulated.explanation);
    let units = explanation.units as f64;
    let equal = |sum: f64, expected: f64, what: &str| {
        assert!(
            (sum / expected - 1.0).abs() < 1e-3,
            "{what}: {sum}, not {expected}"
        );
    };
    let cycles: f64 = explanation.host.iter().map(|cost| cost.cycles).sum();
    let busy = (outcome.host_cycles.user + outcome.host_cycles.kernel) as f64;
    equal(cycles * units, busy, "host cycles");
    let instructions: f64 = explanation.nic.iter().map(|work| work.instructions).sum();
    let nic_s = (1.0 - outcome.nic_idle) * outcome.simulated_s;
    equal(instructions * units, nic_s * 400e6, "NIC instructions");
    // Little's law: jobs a second times their mean wait.
    for queue in &explanation.queues {
        let rate = queue.jobs * units / outcome.simulated_s;
        equal(rate * queue.mean_us * 1e-6, queue.mean_length, queue.queue);
    }
    let received = explanation
        .queues
        .iter()
        .find(|queue| queue.queue.contains("received"));
    assert!(received.unwrap().mean_us > 0.0);
}
