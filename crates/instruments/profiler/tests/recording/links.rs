//! Recordings whose packets are counted by two outputs of `ip`.

use perf_event_open_sys::bindings;
use perpacket_profiler::Fault;
use perpacket_profiler::recording::{Settings, Traffic, analyse};

use super::cost;
use super::layout::*;

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
