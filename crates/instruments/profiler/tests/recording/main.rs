//! Profiles of files in the layout of `perf record` (`tools/perf/util/header.h` of Linux).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_perf;
mod layout;
mod links;

use layout::*;
use perf_event_open_sys::bindings;
use perpacket_profiler::Fault;
use perpacket_profiler::recording::{Recorded, analyse};
use proptest::prelude::*;

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
        (b"text".to_vec(), "no recording and no stacks"),
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
