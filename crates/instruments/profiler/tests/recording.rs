//! Profiles of files in the layout of `perf record` (`tools/perf/util/header.h` of Linux).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use perf_event_open_sys::bindings;
use perpacket_profiler::recording::{Recorded, Settings, Traffic, analyse};
use perpacket_profiler::{Fault, ProfileError};
use proptest::prelude::*;
use tempfile::TempDir;

const SYMBOLS: &str = "\
ffffffff81000000 T _text
ffffffff81001000 T tcp_v4_rcv
ffffffff81002000 T ip_rcv
ffffffff81003000 T tcp_ack
";

const TCP_V4_RCV: u64 = 0xffff_ffff_8100_1000;
const IP_RCV: u64 = 0xffff_ffff_8100_2000;
const KERNEL_MARK: u64 = (-128_i64) as u64;

/// The fields of an event's samples in most of these files.
const FIELDS: u32 = bindings::PERF_SAMPLE_IDENTIFIER
    | bindings::PERF_SAMPLE_IP
    | bindings::PERF_SAMPLE_TID
    | bindings::PERF_SAMPLE_TIME
    | bindings::PERF_SAMPLE_CPU
    | bindings::PERF_SAMPLE_PERIOD;

/// Flags of the event: its identifiers are listed, and records end with their time.
const FLAGS: u64 = 1 << 10 | 1 << 18;

/// Bytes of the attributes of an event since Linux 5.13.
const ATTRIBUTES: usize = 120;

const HEADER: usize = 104;

struct Event {
    kind: u32,
    config: u64,
    fields: u32,
    read_format: u32,
    id: u64,
}

impl Event {
    fn hardware(number: u32, fields: u32, id: u64) -> Self {
        Self {
            kind: bindings::PERF_TYPE_HARDWARE,
            config: number.into(),
            fields,
            read_format: 0,
            id,
        }
    }

    /// Misses of reads in one of the kernel's generic caches.
    fn cache(cache: u32, id: u64) -> Self {
        let misses = bindings::PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
        Self {
            kind: bindings::PERF_TYPE_HW_CACHE,
            config: (cache | misses).into(),
            fields: FIELDS,
            read_format: 0,
            id,
        }
    }

    fn clock() -> Self {
        Self {
            kind: bindings::PERF_TYPE_SOFTWARE,
            config: bindings::PERF_COUNT_SW_CPU_CLOCK.into(),
            fields: FIELDS,
            read_format: 0,
            id: 1,
        }
    }

    fn bytes(&self, ids_at: u64) -> Vec<u8> {
        let mut bytes = vec![0; ATTRIBUTES];
        bytes[..4].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&(ATTRIBUTES as u32).to_ne_bytes());
        for (at, value) in [
            (8, self.config),
            (16, 1000),
            (24, self.fields.into()),
            (32, self.read_format.into()),
            (40, FLAGS),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        bytes.extend(ids_at.to_ne_bytes());
        bytes.extend(8_u64.to_ne_bytes());
        bytes
    }
}

fn record(kind: u32, mode: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(mode.to_ne_bytes());
    bytes.extend(((8 + 8 * words.len()) as u16).to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

fn text(kind: u32, mode: u16, words: &[u64], text: &str, trailer: &[u64]) -> Vec<u8> {
    let mut all = words.to_vec();
    let mut padded = text.as_bytes().to_vec();
    padded.resize(text.len() / 8 * 8 + 8, 0);
    all.extend(
        padded
            .chunks_exact(8)
            .map(|eight| u64::from_ne_bytes(eight.try_into().unwrap())),
    );
    all.extend(trailer);
    record(kind, mode, &all)
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A sample of `FIELDS`, with more words after them.
fn sample(id: u64, mode: u32, address: u64, time: u64, period: u64, more: &[u64]) -> Vec<u8> {
    let mut words = vec![id, address, pair(70, 70), time, pair(0, 0), period];
    words.extend(more);
    record(bindings::PERF_RECORD_SAMPLE, mode as u16, &words)
}

/// A file with a header and these records. Its only feature is the kernel's version.
fn file(events: &[Event], records: &[Vec<u8>], release: &str) -> Vec<u8> {
    let ids_at = HEADER as u64;
    let events_at = ids_at + 8 * events.len() as u64;
    let mut attributes = Vec::new();
    for (index, event) in events.iter().enumerate() {
        attributes.extend(event.bytes(ids_at + 8 * index as u64));
    }
    let data: Vec<u8> = records.concat();
    let data_at = events_at + attributes.len() as u64;
    let mut bytes = b"PERFILE2".to_vec();
    for word in [
        HEADER as u64,
        ATTRIBUTES as u64 + 16,
        events_at,
        attributes.len() as u64,
        data_at,
        data.len() as u64,
        0,
        0,
        1 << 4,
        0,
        0,
        0,
    ] {
        bytes.extend(word.to_ne_bytes());
    }
    for event in events {
        bytes.extend(event.id.to_ne_bytes());
    }
    bytes.extend(attributes);
    bytes.extend(&data);
    let feature_at = bytes.len() as u64 + 16;
    bytes.extend(feature_at.to_ne_bytes());
    bytes.extend((4 + release.len() as u64 + 1).to_ne_bytes());
    bytes.extend((release.len() as u32 + 1).to_ne_bytes());
    bytes.extend(release.as_bytes());
    bytes.push(0);
    bytes
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn settings(&self, bytes: &[u8]) -> Settings {
        Settings {
            file: self.write("perf.data", bytes),
            traffic: Traffic::Packets(10),
            kallsyms: Some(self.write("kallsyms", SYMBOLS.as_bytes())),
            rules: None,
            pid: None,
            keeps_offsets: true,
        }
    }

    fn analyse(&self, bytes: &[u8]) -> Result<Recorded, ProfileError> {
        analyse(&self.settings(bytes))
    }
}

fn cost(recorded: &Recorded, layer: &str) -> perpacket_profiler::report::Cost {
    recorded.report.layers.get(layer).unwrap().clone()
}

#[test]
fn time_is_charged_by_layer_and_divided_by_packets() {
    let records = [
        sample(1, 1, TCP_V4_RCV + 4, 2_000_000_000, 300, &[]),
        sample(1, 1, IP_RCV + 4, 1_000_000_000, 100, &[]),
        sample(1, 2, 0x5000, 3_000_000_000, 600, &[]),
    ];
    let recorded = Folder::new()
        .analyse(&file(&[Event::clock()], &records, "5.4.0"))
        .unwrap();
    let report = &recorded.report;
    assert_eq!(report.samples, 3);
    assert_eq!(report.recorded_on.as_deref(), Some("an unnamed machine"));
    assert_eq!(report.packets.received, 10);
    assert!((report.window_s - 2.0).abs() < 1e-9);
    for (layer, ns) in [("tcp", 30.0), ("ip", 10.0), ("user", 60.0)] {
        let found = cost(&recorded, layer).cpu_ns_per_packet.unwrap();
        assert!((found - ns).abs() < 1e-9, "{layer}: {found}");
    }
}

#[test]
fn events_of_one_recording_share_its_packets() {
    let events = [
        Event::hardware(bindings::PERF_COUNT_HW_CPU_CYCLES, FIELDS, 7),
        Event::hardware(bindings::PERF_COUNT_HW_INSTRUCTIONS, FIELDS, 8),
        Event::hardware(bindings::PERF_COUNT_HW_CACHE_MISSES, FIELDS, 9),
    ];
    let records = [
        sample(7, 1, TCP_V4_RCV, 1, 5000, &[]),
        sample(8, 1, TCP_V4_RCV, 2, 4000, &[]),
        sample(9, 1, IP_RCV, 3, 20, &[]),
    ];
    let recorded = Folder::new()
        .analyse(&file(&events, &records, "6.1.0"))
        .unwrap();
    assert_eq!(recorded.report.packets.received, 10);
    let (tcp, ip) = (cost(&recorded, "tcp"), cost(&recorded, "ip"));
    assert_eq!(tcp.cycles_per_packet, Some(500.0));
    assert_eq!(tcp.instructions_per_packet, Some(400.0));
    assert_eq!(ip.llc_misses_per_packet, Some(2.0));
    assert_eq!(tcp.cpu_ns_per_packet, None);
}

#[test]
fn misses_of_each_cache_and_translation_buffer_are_told_apart() {
    let events = [
        Event::cache(bindings::PERF_COUNT_HW_CACHE_L1I, 7),
        Event::cache(bindings::PERF_COUNT_HW_CACHE_L1D, 8),
        Event::cache(bindings::PERF_COUNT_HW_CACHE_ITLB, 9),
        Event::cache(bindings::PERF_COUNT_HW_CACHE_DTLB, 10),
        Event::hardware(bindings::PERF_COUNT_HW_BRANCH_MISSES, FIELDS, 11),
    ];
    let records: Vec<_> = (0..5)
        .map(|index| sample(7 + index, 1, TCP_V4_RCV, 1 + index, 10 << index, &[]))
        .collect();
    let recorded = Folder::new()
        .analyse(&file(&events, &records, "6.1.0"))
        .unwrap();
    let tcp = cost(&recorded, "tcp");
    let found = [
        tcp.l1i_misses_per_packet,
        tcp.l1d_misses_per_packet,
        tcp.itlb_misses_per_packet,
        tcp.dtlb_misses_per_packet,
        tcp.branch_misses_per_packet,
    ];
    assert_eq!(found, [1.0, 2.0, 4.0, 8.0, 16.0].map(Some));
    assert_eq!(tcp.llc_misses_per_packet, None);
}

#[test]
fn counts_in_the_leaders_samples_are_charged_where_they_grew() {
    let fields = FIELDS | bindings::PERF_SAMPLE_READ;
    let mut events = [
        Event::hardware(bindings::PERF_COUNT_HW_CPU_CYCLES, fields, 7),
        Event::hardware(bindings::PERF_COUNT_HW_INSTRUCTIONS, fields, 8),
    ];
    for event in &mut events {
        event.read_format = bindings::PERF_FORMAT_GROUP | bindings::PERF_FORMAT_ID;
    }
    let counts = |cycles, instructions| [2, cycles, 7, instructions, 8];
    let records = [
        sample(7, 1, TCP_V4_RCV, 1, 1000, &counts(1000, 3000)),
        sample(7, 1, IP_RCV, 2, 1000, &counts(2000, 3500)),
    ];
    let recorded = Folder::new()
        .analyse(&file(&events, &records, "6.1.0"))
        .unwrap();
    let instructions = |layer| cost(&recorded, layer).instructions_per_packet;
    assert_eq!(instructions("tcp"), Some(300.0));
    assert_eq!(instructions("ip"), Some(50.0));
    assert_eq!(cost(&recorded, "ip").cycles_per_packet, Some(100.0));
}

#[test]
fn symbols_of_another_boot_are_moved_to_the_recorded_kernel() {
    let moved = 0x1200_0000;
    let start = 0xffff_ffff_8100_0000 + moved;
    let words = [pair(u32::MAX, 0), start, 0x100_0000, start];
    let trailer = [pair(0, 0), 0, 0, 0];
    let place = text(
        bindings::PERF_RECORD_MMAP,
        1,
        &words,
        "[kernel.kallsyms]_text",
        &trailer,
    );
    let records = [place, sample(1, 1, IP_RCV + moved + 8, 5, 100, &[])];
    let recorded = Folder::new()
        .analyse(&file(&[Event::clock()], &records, "6.1.0"))
        .unwrap();
    assert_eq!(cost(&recorded, "ip").share, 1.0);
    let notes = &recorded.report.limits;
    assert!(notes.iter().any(|note| note.contains("another boot")));
}

#[test]
fn a_call_chain_and_fields_after_it_are_read() {
    let mut event = Event::clock();
    event.fields = FIELDS | bindings::PERF_SAMPLE_CALLCHAIN | bindings::PERF_SAMPLE_RAW;
    // The leaf function is in no layer, but its caller is.
    let more = [
        3,
        KERNEL_MARK,
        0xffff_ffff_c000_0000,
        IP_RCV + 9,
        pair(4, 0),
    ];
    let records = [sample(1, 1, 0xffff_ffff_c000_0000, 5, 100, &more)];
    let recorded = Folder::new()
        .analyse(&file(&[event], &records, "6.1.0"))
        .unwrap();
    assert_eq!(cost(&recorded, "ip").share, 1.0);
}

#[test]
fn names_and_maps_come_from_the_records() {
    let trailer = [pair(70, 70), 0, 0, 1];
    let records = [
        text(
            bindings::PERF_RECORD_COMM,
            0,
            &[pair(70, 70)],
            "a-server",
            &trailer,
        ),
        text(
            bindings::PERF_RECORD_MMAP2,
            2,
            &[pair(70, 70), 0x5000, 0x1000, 0, 0, 0, 0, 0],
            "/opt/a-server",
            &trailer,
        ),
        sample(1, 2, 0x5010, 5, 100, &[]),
    ];
    let recorded = Folder::new()
        .analyse(&file(&[Event::clock()], &records, "6.1.0"))
        .unwrap();
    assert_eq!(recorded.report.processes[0].command, "a-server");
    assert!(recorded.report.modules.get("a-server").is_some());
    let mut folded = Vec::new();
    recorded.write_folded(&mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    assert!(folded.starts_with("a-server;[a-server]"), "{folded}");
}

/// The trailer of a record that is not a sample.
fn at(time: u64) -> [u64; 4] {
    [pair(0, 0), time, 0, 1]
}

fn forked(pid: u32, parent: u32, time: u64) -> Vec<u8> {
    let mut words = vec![pair(pid, parent), pair(pid, parent), time];
    words.extend(at(time));
    record(bindings::PERF_RECORD_FORK, 0, &words)
}

fn named(pid: u32, name: &str, time: u64) -> Vec<u8> {
    let executed = bindings::PERF_RECORD_MISC_COMM_EXEC as u16;
    let kind = bindings::PERF_RECORD_COMM;
    text(kind, executed, &[pair(pid, pid)], name, &at(time))
}

fn namespaces(pid: u32, network: u64, time: u64) -> Vec<u8> {
    let mut words = vec![pair(pid, pid), 1, 4, network];
    words.extend(at(time));
    record(bindings::PERF_RECORD_NAMESPACES, 0, &words)
}

/// A recorded command that runs `ip` at 10 and at 20. Another `ip` of the machine runs at 15.
fn two_snapshots() -> Vec<Vec<u8>> {
    vec![
        named(30, "perf-exec", 0),
        named(30, "sh", 1),
        forked(31, 30, 9),
        named(31, "ip", 10),
        forked(41, 40, 14),
        named(41, "ip", 15),
        forked(32, 30, 19),
        // `ip netns exec` executes another `ip`.
        named(32, "ip", 18),
        named(32, "ip", 20),
    ]
}

fn link(name: &str, index: u32, packets: u64) -> String {
    let count = |dropped| {
        let bytes = packets * 100;
        format!(r#"{{"bytes":{bytes},"packets":{packets},"errors":0,"dropped":{dropped}}}"#)
    };
    format!(
        r#"{{"ifindex":{index},"ifname":"{name}","address":"02:00","stats64":{{"rx":{},"tx":{}}}}}"#,
        count(0),
        count(1)
    )
}

/// Settings with two snapshots of these interfaces.
fn with_links(folder: &Folder, records: &[Vec<u8>], before: &str, after: &str) -> Settings {
    let mut settings = folder.settings(&file(&[Event::clock()], records, "6.1.0"));
    settings.traffic = Traffic::Links(
        folder.write("before", format!("[{before}]").as_bytes()),
        folder.write("after", format!("[{after}]").as_bytes()),
    );
    settings
}

#[test]
fn the_samples_between_two_outputs_of_ip_are_divided_by_their_packets() {
    let folder = Folder::new();
    let mut records = two_snapshots();
    for (time, weight) in [(5, 100), (12, 400), (19, 400), (25, 900)] {
        records.push(sample(1, 1, IP_RCV, time, weight, &[]));
    }
    let (before, after) = (link("eth0", 2, 1000), link("eth0", 2, 1004));
    let mut settings = with_links(&folder, &records, &before, &after);
    let recorded = analyse(&settings).unwrap();
    let report = &recorded.report;
    assert_eq!((report.packets.sent, report.packets.received), (4, 4));
    assert_eq!(report.bytes.sent, 400);
    assert_eq!(cost(&recorded, "ip").cpu_ns_per_packet, Some(100.0));
    assert!((report.window_s - 10e-9).abs() < 1e-15);

    let Traffic::Links(before, after) = settings.traffic.clone() else {
        unreachable!()
    };
    settings.traffic = Traffic::Links(after, before);
    let error = analyse(&settings).unwrap_err().to_string();
    assert!(
        error.contains("the earlier file first: it is older"),
        "{error}"
    );

    settings.traffic = Traffic::Links("/dev/null".into(), "/dev/null".into());
    let error = analyse(&settings).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected the output of `ip -s -j link`")
    );
}

#[test]
fn packets_of_another_window_or_namespace_are_refused() {
    let folder = Folder::new();
    let eth0 = |packets| link("eth0", 2, packets);
    let both = |first: &str, second: &str| format!("{first},{second}");
    let lo = link("lo", 1, 5);
    let two = two_snapshots();
    let with = |more: &[Vec<u8>]| [&two[..], more].concat();
    let spaces = |first, second, server| {
        with(&[
            namespaces(31, first, 9),
            namespaces(32, second, 19),
            namespaces(70, server, 0),
        ])
    };
    let cases = [
        // The shape of the recording: snapshots outside the command, and one snapshot too many.
        (vec![], eth0(1), eth0(2), "ran `ip` 0 times"),
        (
            with(&[forked(33, 30, 21), named(33, "ip", 22)]),
            eth0(1),
            eth0(2),
            "ran `ip` 3 times",
        ),
        (spaces(7, 8, 7), eth0(1), eth0(2), "two network namespaces"),
        (spaces(7, 7, 8), eth0(1), eth0(2), "namespace of process 70"),
        // The files alone.
        (
            two.clone(),
            eth0(1),
            link("eth0", 3, 2),
            "two network namespaces",
        ),
        (
            two.clone(),
            both(&lo, &eth0(1)),
            both(&lo, &link("veth1", 9, 2)),
            "two network namespaces",
        ),
    ];
    for (mut records, before, after, reason) in cases {
        records.push(sample(1, 1, IP_RCV, 12, 400, &[]));
        let mut settings = with_links(&folder, &records, &before, &after);
        settings.pid = Some(70);
        let error = analyse(&settings).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert_eq!(error.fault(), Fault::Usage);
    }
    let mut records = spaces(7, 7, 7);
    records.push(sample(1, 1, IP_RCV, 12, 400, &[]));
    let mut settings = with_links(&folder, &records, &eth0(1), &eth0(2));
    settings.pid = Some(70);
    analyse(&settings).unwrap();
}

#[test]
fn a_recording_of_one_process_is_not_a_profile_of_the_machine() {
    let mut event = Event::clock();
    event.fields &= !bindings::PERF_SAMPLE_CPU;
    let words = [1, IP_RCV, pair(70, 70), 5, 400];
    let records = [record(bindings::PERF_RECORD_SAMPLE, 1, &words)];
    let error = Folder::new()
        .analyse(&file(&[event], &records, "6.1.0"))
        .unwrap_err();
    assert!(error.to_string().contains("without -a"), "{error}");
    assert_eq!(error.fault(), Fault::Usage);
}

#[test]
fn files_that_cannot_be_read_are_errors_of_the_user() {
    let folder = Folder::new();
    let good = file(
        &[Event::clock()],
        &[sample(1, 1, IP_RCV, 5, 400, &[])],
        "6.1.0",
    );
    let compressed = file(&[Event::clock()], &[record(81, 0, &[1])], "6.1.0");
    let mut pipe = b"PERFILE2".to_vec();
    pipe.extend(16_u64.to_ne_bytes());
    for (bytes, reason) in [
        (b"text".to_vec(), "not a file of perf record"),
        (b"2ELIFREP".to_vec(), "byte order"),
        (pipe, "pipe"),
        (good[..good.len() - 200].to_vec(), "ends early"),
        (compressed, "compressed"),
        (
            file(&[Event::clock()], &[record(2, 0, &[])], "6.1.0"),
            "no samples",
        ),
    ] {
        let error = folder.analyse(&bytes).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(error.fault(), Fault::Usage);
    }
}

#[test]
fn a_recording_of_another_kernel_needs_its_symbols() {
    let folder = Folder::new();
    let records = [sample(1, 1, IP_RCV, 5, 400, &[])];
    let mut settings = folder.settings(&file(&[Event::clock()], &records, "4.9.0-other"));
    settings.kallsyms = None;
    let error = analyse(&settings).unwrap_err();
    assert!(error.to_string().contains("4.9.0-other"), "{error}");
    assert!(error.next_step().unwrap().contains("/proc/kallsyms"));
}

#[test]
fn a_file_of_symbols_without_a_symbol_is_an_error() {
    let folder = Folder::new();
    let records = [sample(1, 1, IP_RCV, 5, 400, &[])];
    let mut settings = folder.settings(&file(&[Event::clock()], &records, "6.1.0"));
    settings.kallsyms = Some(folder.write("other", b"[{}]\n"));
    let error = analyse(&settings).unwrap_err();
    assert!(error.to_string().contains("found no symbol"), "{error}");
    assert_eq!(error.fault(), Fault::Usage);
}

/// Records with perf; `None` if it cannot record here.
fn recorded_by_perf(folder: &Folder, arguments: &[&str]) -> Option<PathBuf> {
    let path = folder.0.path().join("own.data");
    let recorded = Command::new("perf")
        .args(["record", "-g", "-F", "997", "-o"])
        .arg(&path)
        .args(arguments)
        .current_dir(folder.0.path())
        .output();
    if !recorded.is_ok_and(|output| output.status.success()) {
        perpacket_requirements::skip("peers", "the program `perf` cannot record here");
        return None;
    }
    Some(path)
}

/// Settings for a recording of this machine.
fn own(path: PathBuf, traffic: Traffic) -> Settings {
    Settings {
        file: path,
        traffic,
        kallsyms: Some("/proc/kallsyms".into()),
        rules: None,
        pid: None,
        keeps_offsets: false,
    }
}

#[test]
fn a_recording_of_this_machine_has_the_samples_that_perf_counts() {
    let folder = Folder::new();
    let command = "ip -s -j link > before; sleep 0.5; ip -s -j link > after";
    let arguments = [
        "-a",
        "-e",
        "cpu-clock",
        "--namespaces",
        "--",
        "sh",
        "-c",
        command,
    ];
    let Some(path) = recorded_by_perf(&folder, &arguments) else {
        return;
    };
    let listed = Command::new("perf")
        .args(["script", "-F", "cpu", "-G", "-i"])
        .arg(&path)
        .output()
        .unwrap();
    let samples = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    let report = analyse(&own(path.clone(), Traffic::Unknown))
        .unwrap()
        .report;
    assert_eq!(report.samples, samples as u64);
    assert!(report.unclaimed_share < 0.5, "{}", report.unclaimed_share);

    let [before, after] = ["before", "after"].map(|name| folder.0.path().join(name));
    let between = analyse(&own(path, Traffic::Links(before, after))).unwrap();
    let between = between.report;
    assert!(between.window_s >= 0.5, "{}", between.window_s);
    assert!(between.window_s <= report.window_s, "{}", report.window_s);
    assert!((1..=report.samples).contains(&between.samples));
}

#[test]
fn parts_of_a_machine_are_refused_by_the_option_that_chose_them() {
    let folder = Folder::new();
    let own_pid = std::process::id().to_string();
    for (arguments, reason) in [
        (vec!["-p", &own_pid, "--", "sleep", "0.1"], "perf record -p"),
        (
            vec!["--sample-cpu", "-dp", &own_pid, "--", "sleep", "0.1"],
            "perf record -dp",
        ),
        (vec!["--", "sleep", "0.1"], "without -a"),
    ] {
        let arguments = [&["-e", "cpu-clock"], &arguments[..]].concat();
        let Some(path) = recorded_by_perf(&folder, &arguments) else {
            return;
        };
        let error = analyse(&own(path, Traffic::Unknown)).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn code_that_the_recording_excludes_is_not_missing() {
    let folder = Folder::new();
    let arguments = ["-a", "-e", "cpu-clock:u", "--", "sleep", "0.3"];
    let Some(path) = recorded_by_perf(&folder, &arguments) else {
        return;
    };
    let report = match analyse(&own(path, Traffic::Unknown)) {
        Ok(recorded) => recorded.report,
        // No user code ran.
        Err(error) => return assert!(error.to_string().contains("no samples"), "{error}"),
    };
    assert_eq!(report.missing_share, None);
    let notes = report.limits.join("\n");
    assert!(notes.contains("excludes the kernel"), "{notes}");
    assert!(!notes.contains("samples are missing"), "{notes}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_result_or_an_error(
        kind in 0_u32..90, mode in 0_u16..8, words in proptest::collection::vec(any::<u64>(), 0..20),
        fields in any::<u32>(), place in 0_usize..400, byte in any::<u8>(),
    ) {
        let mut event = Event::clock();
        event.fields = fields;
        event.read_format = fields >> 7;
        let mut bytes = file(&[event], &[record(kind, mode, &words)], "6.1.0");
        let place = place % bytes.len();
        bytes[place] = byte;
        let _ = Folder::new().analyse(&bytes);
    }
}
