//! Tests the documents that quote parameters. Each quoted number must equal the one in the data
//! files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::collections::BTreeMap;

use perpacket_simulate::Simulation;

const SIMULATOR: &str = include_str!("../../../../docs/simulator.md");
const CALIBRATION: &str = include_str!("../../../../docs/calibration.md");

/// The parameters of a configuration as text, by name.
fn parameters(configuration: &str) -> BTreeMap<String, String> {
    let simulation = Simulation::new(configuration, &[], None).unwrap();
    simulation
        .parameters()
        .map(|parameter| {
            let value = match &parameter.value {
                toml::Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            (parameter.name, value)
        })
        .collect()
}

/// The words of a text, separated by single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `2048.0` as `2048`.
fn plain(value: &str) -> &str {
    value.strip_suffix(".0").unwrap_or(value)
}

/// `1234567` as `1,234,567`.
fn grouped(value: &str) -> String {
    let digits = plain(value);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Passages of docs/simulator.md. `{C NAME}` is the value of a parameter of configuration C: a
/// workload's letter, or `B` for the bulk sender. `{C NAME / N}` is the value over N, and `{C NAME ,}`
/// has its digits in groups.
const PASSAGES: &[&str] = &[
    "`host.profiler_instructions` (default {W host.profiler_instructions})",
    "| clock | {W machine.clock_mhz} MHz, {W machine.cycles_per_instruction} cycle an instruction \
     | {B machine.clock_mhz} MHz, {B machine.cycles_per_instruction} cycles an instruction |",
    "| first level | {W machine.l1d.size_kib} KiB, {W machine.l1d.ways} ways, \
     {W machine.l1d.latency_cycles} cycle | {B machine.l1d.size_kib} KiB, {B machine.l1d.ways} \
     ways, {B machine.l1d.latency_cycles} cycles |",
    "| second level | {W machine.l2.size_kib} KiB, {W machine.l2.ways} ways, \
     {W machine.l2.latency_cycles} cycles, {W machine.policy} | {B machine.l2.size_kib} KiB, \
     {B machine.l2.ways} ways, {B machine.l2.latency_cycles} cycles, {B machine.policy} |",
    "| DRAM | {W machine.dram.latency_cycles} cycles; a line takes {W machine.dram.service_cycles} \
     cycles of the channel | {B machine.dram.latency_cycles} cycles |",
    "| instruction cache | fetching is free | {B machine.l1i.size_kib} KiB, {B machine.l1i.ways} \
     ways |",
    "| translation | free | {B machine.tlb.entries} pages, {B machine.tlb.ways} ways, \
     {B machine.tlb.walk_cycles} cycles a miss |",
    "{B machine.code_bytes_per_instruction} B for each instruction on average",
    "`--set machine.l1i.size_kib={W machine.l1i.size_kib}` and `--set \
     machine.tlb.entries={W machine.tlb.entries}` make both free",
    "costs {B layers.tcp.output_idle.instructions} instructions more",
    "`--set layers.tcp.output_idle.instructions={W layers.tcp.output_idle.instructions}`",
    "`--set layers.tcp.walk.instructions=0`",
    "`--set layers.syscall.append_walk.instructions=0`",
    "Below about 50 kb/s",
    "a gap of {B machine.interrupt.gap_us} us (`machine.interrupt.gap_us`)",
    "cover {W nic.report_bytes} bytes (`nic.report_bytes`)",
    "comes {B machine.interrupt.send_delay_us} us after the last",
    "rings of {B structures.ring} entries,",
    "execute {B layers.other.interrupt.instructions} instructions and wait \
     {B machine.interrupt.access_cycles} cycles",
    "`--set machine.io_bus.rate_mbps={W machine.io_bus.rate_mbps}` removes the bus",
    "waits {B machine.interrupt.from_idle_cycles} cycles in all",
    "| first read of a line that the NIC has written | as any other | \
     {B machine.first_read_cycles} cycles more |",
    "| I/O bus | not modelled | {B machine.io_bus.rate_mbps} Mb/s, and \
     {B machine.io_bus.overhead_ns} ns a frame |",
    "| wire | {W machine.network.rate_mbps / 1000} Gb/s, {W machine.network.base_rtt_us} us round \
     trip | {B machine.network.rate_mbps / 1000} Gb/s, {B machine.network.base_rtt_us} us round \
     trip, up to {B machine.network.jitter_us} us more to the server at random |",
    "touches: {W structures.background} lines in turn.",
    "again soon: {W structures.stream / 16384} MiB in turn.",
    "at least {W tcp.minimum_rto_ms / 1000} s and includes {W tcp.rto_slop_ms} ms of slop; a SYN is \
     sent again after {W tcp.syn_rto_ms / 1000} s.",
    "| look up a received frame's connection | {W nic.instructions.lookup} |",
    "sent one twice) | {W nic.instructions.host_pass} |",
    "| {W nic.instructions.tcp_packet}; {W nic.instructions.tcp_packet} |",
    "in {W nic.dma_ns} ns (`nic.dma_ns`)",
    "| a command of the host (send, read, close) | {W nic.instructions.command} |",
    "| a TCP timer that has run out | {W nic.instructions.timer} |",
    "| {W nic.instructions.message}; {W nic.instructions.message_merge} |",
    "| {W nic.instructions.handoff}; {W nic.instructions.restore}; \
     {W nic.instructions.connection_end} |",
    "| evaluate load control | {W nic.instructions.load_control} |",
    "a ring of {W nic.receive_ring_packets} packets.",
    "a send ring of {W nic.send_ring_packets} packets,",
    "queue of {W host.interface_queue_packets} packets.",
    "a second queue of {W nic.queue_packets} packets,",
    "| monitor | Qlen > {W nic.hiwat} (`nic.hiwat`) |",
    "| monitor | Qlen < {W nic.lowat} (`nic.lowat`) |",
    "| increase | Qlen > {W nic.hiwat} |",
    "`nic.soft_limit_step` = {W nic.soft_limit_step} from",
    "{W workload.sessions.requests_per_session_mean} requests a session | {W workload.connections} | \
     think {W client.think_time_ms} ms on average",
    "responses | {I workload.connections} | like W |",
    "dynamic | {D workload.connections} | read {D client.read_rate_bps / 1000} kb/s each |",
    "static only | {S workload.connections} | read {S client.read_rate_bps / 1000} kb/s each |",
    "in turn, {B workload.rate_mbps} Mb/s in all | {B workload.connections} to 65,536 |",
    "warms up for {W run.warmup_packets ,} packets and measures the next {W run.packets ,} (`bulk`: \
     {B run.warmup_packets ,} and {B run.packets ,}).",
];

/// Passages with other numbers: results, documents, and parameters that are shown in another unit.
const OTHER_NUMBERS: &[&str] = &[
    "about 900 instructions",
    "to 900 to",
    "OSDI 2006",
    "osdi06",
    "athlon-xp-2600",
    "linux-6.1",
    "shared 40..48 / 4",
    "TR05-450",
    "tcpcb 0..4",
    "a page of 4 KiB",
    "= 0 the host",
    "with 1 those",
    "the 6 lines of TCP",
    "the 6 lines of the system call",
    "structures.field_share=0.5",
    "4.4BSD",
    "With 256 connections on the NIC (`perpacket simulate W-256-P-L-ORACLE-400`, seed 1), `ORACLE` \
     serves 25,393 requests/s, `LIFETIME` 24,833, `T50` 24,799 and `FCFS` 24,141.",
    "World Cup 1998",
    "7.0 KB",
    "3.8 KB",
    "SPECweb99, 30 %",
    "SPECweb99",
    "at most 15 s apart",
    "some 18 s",
    "Shares are 0 to 1, and M is 10^6",
    "1/s, share",
    "l1d_misses",
    "l2_misses",
    "p99",
    "HOST:8786",
    "64 slots",
    "3.2 events",
];

/// A passage with the values of the parameters that it names.
fn filled(passage: &str) -> String {
    let mut text = String::new();
    let mut rest = passage;
    while let Some((before, after)) = rest.split_once('{') {
        let (reference, after) = after.split_once('}').unwrap();
        let parts: Vec<&str> = reference.split_whitespace().collect();
        let configuration = match parts[0] {
            "B" => "bulk".to_owned(),
            letter => format!("{letter}-0-N-N-FCFS-400"),
        };
        let parameters = parameters(&configuration);
        let value = &parameters[parts[1]];
        text.push_str(before);
        text.push_str(&match parts[2..] {
            [] => plain(value).to_owned(),
            [","] => grouped(value),
            ["/", divisor] => {
                let quotient = value.parse::<f64>().unwrap() / divisor.parse::<f64>().unwrap();
                quotient.to_string()
            }
            _ => unreachable!("{reference}"),
        });
        rest = after;
    }
    text + rest
}

#[test]
fn every_number_in_the_simulators_document_is_the_one_in_the_data() {
    let mut document = words(SIMULATOR);
    for passage in PASSAGES {
        let passage = filled(&words(passage));
        assert!(
            document.contains(&passage),
            "docs/simulator.md: expected `{passage}`"
        );
        document = document.replace(&passage, "");
    }
    for passage in OTHER_NUMBERS {
        assert!(
            document.contains(passage),
            "docs/simulator.md: no `{passage}`"
        );
        document = document.replace(passage, "");
    }
    let unchecked: Vec<&str> = document
        .split(' ')
        .filter(|word| word.contains(|letter: char| letter.is_ascii_digit()))
        .collect();
    assert!(
        unchecked.is_empty(),
        "docs/simulator.md: add these to PASSAGES or OTHER_NUMBERS: {unchecked:?}"
    );
}

/// Rows such as ``| `nic.lowat` | 256 packets | ... |``: the value is that of the data.
#[test]
fn the_tables_of_the_calibration_document_quote_the_data() {
    let mut checked = 0;
    let mut configuration = "W-0-N-N-FCFS-400";
    let (_, tables) = CALIBRATION
        .split_once("## Parameters that no document states")
        .unwrap();
    for line in tables.lines() {
        // The heading or sentence before a table names its subject.
        match line {
            "`athlon-xp-2600`:" => configuration = "bulk",
            _ if line.starts_with('#') => configuration = "W-0-N-N-FCFS-400",
            _ if line.starts_with("Workload I ") => configuration = "I-0-N-N-FCFS-400",
            _ if line.starts_with("Workloads S and D are ") => configuration = "S-0-N-N-FCFS-400",
            _ => {}
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, value, ..] = cells[..] else {
            continue;
        };
        let name = name.trim_matches('`');
        let parameters = parameters(configuration);
        let operation = format!("layers.{name}.instructions");
        let Some(data) = parameters.get(name).or_else(|| parameters.get(&operation)) else {
            continue;
        };
        let quoted = match value.split(' ').next().unwrap() {
            "off" => "false".to_owned(),
            "on" => "true".to_owned(),
            number => number.replace(',', ""),
        };
        assert_eq!(quoted, plain(data), "docs/calibration.md: {name}");
        checked += 1;
    }
    assert!(checked > 80, "{checked} rows");
}
