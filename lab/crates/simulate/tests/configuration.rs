//! Tests that errors name the parameter, its value and the allowed values.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use perpacket_simulate::{ConfigurationError, Simulation};
use perpacket_workload::{LognormalSessions, SpecWeb99};

fn refused(configuration: &str, name: &str, value: &str) -> ConfigurationError {
    let overrides = [(name.to_owned(), value.to_owned())];
    Simulation::new(configuration, &overrides, None)
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn each_impossible_value_names_its_parameter() {
    const BASELINE: &str = "W-0-N-N-FCFS-400";
    for (configuration, parameter) in [
        (BASELINE, "nic.mips = 0"),
        ("bulk", "nic.is_staged = false"),
        ("bulk", "machine.io_bus.overhead_ns = 1000001"),
        (BASELINE, "nic.lowat = 1024"),
        (BASELINE, "nic.hiwat = 256"),
        ("W-4096-P-L-FCFS-400", "nic.hiwat = 2048"),
        (BASELINE, "nic.connections = 100000"),
        (BASELINE, "workload.connections = 0"),
        (BASELINE, "workload.sessions.response_mean_bytes = 0.0"),
        (BASELINE, "machine.l2.ways = 0"),
        (BASELINE, "machine.l2.size_kib = 1000"),
        (BASELINE, r#"layers.tcp.input.touches = ["tcpcb 0..99"]"#),
        (BASELINE, "host.prefetch = much"),
        (BASELINE, "run.packets = 0"),
        ("W-4096-N-L-FCFS-400", "nic.mips = 400"),
        ("W-0-P-L-FCFS-400", "nic.mips = 400"),
        (BASELINE, "nic.receive_ring_packets = 4294967295"),
        (BASELINE, "server.header_bytes = 3000000000"),
        (BASELINE, "host.prefetch = 18446744073709551615"),
        (
            BASELINE,
            "layers.tcp.input.instructions = 9000000000000000000",
        ),
        ("bulk", r#"layers.user.write.touches = ["heap 0..4"]"#),
        (BASELINE, "structures.heap = 33"),
        ("bulk", "workload.segment_bytes = 32769"),
        ("bulk", "workload.burst_us = 1000001"),
        ("bulk", "workload.sleep_us = 1000001"),
        ("bulk", "tcp.send_buffer_bytes = 1460000000"),
        ("bulk", "run.packets = -5"),
        ("bulk", "machine.l2.size_kib = 99999999999"),
        ("bulk", "workload.rate_mbps = 0.0"),
        ("bulk", "network.added_latency_ms = -1.0"),
    ] {
        let (name, value) = parameter.split_once(" = ").unwrap();
        let error = refused(configuration, name, value);
        let section = name.split('.').next().unwrap();
        assert!(
            error.parameter.starts_with(section) && !error.allowed.is_empty(),
            "{name} = {value}: {error}"
        );
    }
}

#[test]
fn watermarks_that_cross_name_both() {
    let error = refused("W-4096-P-L-FCFS-400", "nic.lowat", "2000");
    assert_eq!(
        (error.parameter.as_str(), error.value.as_str()),
        ("nic.lowat", "2000")
    );
    assert!(error.allowed.contains("nic.hiwat = 1024"), "{error}");
}

#[test]
fn a_shorthand_with_a_nic_of_zero_mips_is_an_error() {
    let error = Simulation::new("W-1024-P-N-FCFS-0", &[], None)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        (error.parameter.as_str(), error.value.as_str()),
        ("nic.mips", "0")
    );
}

/// The data files here and the presets beside the generators describe the same workloads.
#[test]
fn the_data_files_and_the_generators_presets_agree() {
    let parameters = |configuration: &str| {
        let simulation = Simulation::new(configuration, &[], None).unwrap();
        let sessions: toml::Table = simulation
            .parameters()
            .filter_map(|parameter| {
                let name = parameter
                    .name
                    .strip_prefix("workload.sessions.")?
                    .to_owned();
                Some((name, parameter.value))
            })
            .collect();
        toml::Value::Table(sessions)
    };
    for (letter, preset) in [
        ("W", LognormalSessions::world_cup()),
        ("I", LognormalSessions::ibm()),
    ] {
        let data: LognormalSessions = parameters(&format!("{letter}-0-N-N-FCFS-400"))
            .try_into()
            .unwrap();
        assert_eq!(data, preset, "{letter}");
    }
    for (letter, preset) in [
        ("S", SpecWeb99::static_only(4096)),
        ("D", SpecWeb99::mixed(2048)),
    ] {
        let data = parameters(&format!("{letter}-0-N-N-FCFS-400"));
        assert_eq!(data["dynamic_share"].as_float(), Some(preset.dynamic_share));
        assert_eq!(
            data["keep_alive_share"].as_float(),
            Some(preset.keep_alive_share)
        );
    }
}
