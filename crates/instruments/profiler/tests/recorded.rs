//! Reports from recorded samples. These tests cover all code behind the capture. They need no
//! counters and no permission to profile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use perpacket_cost::EventKind;
use perpacket_profiler::capture::events::{EventSet, Pass, Rate};
use perpacket_profiler::capture::perf::group_counts;
use perpacket_profiler::capture::{
    Backend, EventProvider, EventSource, GroupCounts, Record, Sample,
};
use perpacket_profiler::{ProfileError, Profiler, Report, Settings};

const SYMBOLS: &str = "\
ffffffff81000000 T tcp_ack
ffffffff81001000 T tcp_v4_rcv
ffffffff81002000 T ip_rcv
ffffffff81003000 T _copy_to_iter
ffffffff81004000 T tcp_recvmsg
ffffffff81005000 T _raw_spin_unlock_irqrestore
ffffffff81006000 T sock_def_readable
ffffffff81007000 T pv_native_safe_halt
ffffffff81008000 T do_idle
ffffffff81009000 T a_worker
ffffffff8100a000 T kthread
";

const BASE: u64 = 0xffff_ffff_8100_0010;

/// Addresses of functions by their index in the table.
fn chain(places: &[u64]) -> Vec<u64> {
    places.iter().map(|place| BASE + place * 0x1000).collect()
}

/// A process that does not exist in `/proc`.
const PID: u32 = 999_999_999;

/// Replays the same samples in every pass, each with `weight`.
#[derive(Clone)]
struct Recording {
    stacks: Vec<(u32, Vec<u64>)>,
    weight: u64,
    lost: u64,
    throttled: bool,
    /// The values read from a group: number, time enabled, time running, counts.
    group: Vec<u64>,
}

struct Playing {
    recording: Recording,
    names: Vec<String>,
    is_over: bool,
}

impl EventProvider for Recording {
    fn backend(&self) -> Backend {
        Backend::Pmu
    }

    fn open(&self, pass: &Pass, _: &[usize]) -> Result<Box<dyn EventSource>, ProfileError> {
        let all = std::iter::once(pass.sample).chain(pass.count.iter().copied());
        Ok(Box::new(Playing {
            recording: self.clone(),
            names: all.map(|event| event.name().to_owned()).collect(),
            is_over: false,
        }))
    }
}

impl EventSource for Playing {
    fn start(&mut self) -> Result<(), ProfileError> {
        self.is_over = false;
        // Send packets, because costs are divided by them.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..50 {
            socket.send_to(&[0], socket.local_addr().unwrap()).unwrap();
        }
        Ok(())
    }

    fn drain(&mut self, sink: &mut dyn FnMut(&Record<'_>)) -> Result<(), ProfileError> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        if self.recording.lost > 0 {
            sink(&Record::Lost {
                records: self.recording.lost,
            });
        }
        if self.recording.throttled {
            sink(&Record::Throttled);
        }
        for slice in 0..10_u64 {
            for (pid, stack) in &self.recording.stacks {
                sink(&Record::Sample(Sample {
                    time_ns: slice * 100_000_000,
                    cpu: 0,
                    pid: *pid,
                    tid: *pid,
                    weight: self.recording.weight,
                    cgroup: None,
                    user: stack.is_empty(),
                    address: stack.first().copied().unwrap_or(0x1000),
                    chain: stack,
                }));
            }
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<GroupCounts, ProfileError> {
        let counts = group_counts(&self.recording.group, &self.names, 0)?;
        Ok(GroupCounts {
            counts: self.names.iter().cloned().zip(counts).collect(),
        })
    }
}

fn recording() -> Recording {
    Recording {
        stacks: vec![
            (PID, chain(&[0, 1, 2])),
            (PID, chain(&[3, 4])),
            (PID, chain(&[5, 6, 1])),
            (PID, Vec::new()),
            (0, chain(&[7, 8])),
        ],
        weight: 1_000_000,
        lost: 0,
        throttled: false,
        group: vec![1, 10, 10, 5],
    }
}

fn passes(events: &[EventKind]) -> EventSet {
    EventSet {
        name: "recorded".to_owned(),
        passes: events
            .iter()
            .map(|&sample| Pass {
                sample,
                count: Vec::new(),
                rate: Rate::Hertz(99),
            })
            .collect(),
        lacking: Vec::new(),
    }
}

fn play(symbols: &str, events: &[EventKind], recording: Recording) -> Result<Report, ProfileError> {
    play_at(
        Settings::default().frequency_hz,
        symbols,
        passes(events),
        recording,
    )
}

fn play_at(
    frequency_hz: u32,
    symbols: &str,
    events: EventSet,
    recording: Recording,
) -> Result<Report, ProfileError> {
    let place = tempfile::tempdir().unwrap();
    let kallsyms = place.path().join("kallsyms");
    fs::write(&kallsyms, symbols).unwrap();
    let settings = Settings {
        duration: Some(Duration::from_millis(10)),
        kallsyms,
        frequency_hz,
        ..Settings::default()
    };
    let mut profiler = Profiler::with_provider(settings, events, Box::new(recording))?;
    Ok(profiler.run(&AtomicBool::new(false))?.0)
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

#[test]
fn every_grouping_of_the_same_samples_sums_to_the_total() {
    let report = play(SYMBOLS, &[EventKind::CpuNs], recording()).unwrap();
    assert_eq!(report.samples, 50);
    let groupings = [
        &report.layers,
        &report.kinds,
        &report.regions,
        &report.categories,
        &report.modules,
        &report.host_stack,
    ];
    for costs in groupings {
        let shares: f64 = costs.0.iter().map(|(_, cost)| cost.share).sum();
        assert!(close(shares, 1.0), "{costs:?}");
    }
    let share = |layer: &str| report.layers.get(layer).unwrap().share;
    assert!(close(share("tcp"), 0.5) && close(share("user"), 0.25));
    assert!(close(report.kinds.get("copy").unwrap().share, 0.25));
    assert!(close(
        report.host_stack.get("data_copy").unwrap().share,
        0.25
    ));
    assert!(close(report.idle.share_of_time, 0.2));
}

#[test]
fn a_report_of_time_alone_has_no_field_of_cycles() {
    let report = play(SYMBOLS, &[EventKind::CpuNs], recording()).unwrap();
    let text = serde_json::to_string(&report).unwrap();
    for word in [
        "cycles_per_packet",
        "instructions_per_packet",
        "llc_misses_per_packet",
    ] {
        assert!(!text.contains(word), "{word}");
    }
    let report = play(SYMBOLS, &[EventKind::CpuNs, EventKind::Cycles], recording()).unwrap();
    let tcp = report.layers.get("tcp").unwrap();
    let per_packet = |cost: &perpacket_profiler::report::Cost| cost.cycles_per_packet.unwrap();
    assert!(close(per_packet(tcp) / per_packet(&report.total), 0.5));
    assert!(tcp.instructions_per_packet.is_none());
}

#[test]
fn misses_that_a_machine_does_not_count_are_named_and_have_no_value() {
    let set = EventSet::misses(997)
        .unwrap()
        .counted(|event| event != EventKind::ItlbMisses);
    let report = play_at(997, SYMBOLS, set, recording()).unwrap();
    let tcp = report.layers.get("tcp").unwrap();
    let half = |value: fn(&perpacket_profiler::report::Cost) -> Option<f64>| {
        close(value(tcp).unwrap() / value(&report.total).unwrap(), 0.5)
    };
    assert!(half(|cost| cost.l1i_misses_per_packet));
    assert!(half(|cost| cost.l1d_misses_per_packet));
    assert!(half(|cost| cost.dtlb_misses_per_packet));
    assert!(half(|cost| cost.branch_misses_per_packet));
    assert!(half(|cost| cost.cpu_ns_per_packet));
    assert_eq!(tcp.itlb_misses_per_packet, None);
    let named = "this machine does not count itlb_misses: they have no pass and no value";
    assert!(report.limits.iter().any(|limit| limit == named));
}

#[test]
fn a_skid_sample_is_marked_and_is_not_a_lock_cost() {
    let report = play(SYMBOLS, &[EventKind::CpuNs], recording()).unwrap();
    assert!(close(report.skid_share, 1.0 / 3.0));
    assert_eq!(report.skid_top[0].symbol, "_raw_spin_unlock_irqrestore");
    assert!(close(report.kinds.get("lock").unwrap().share, 0.0));
    assert!(close(report.layers.get("socket").unwrap().share, 0.25));
}

#[test]
fn lost_and_throttled_records_are_reported() {
    let lossy = Recording {
        lost: 41,
        throttled: true,
        ..recording()
    };
    let report = play(SYMBOLS, &[EventKind::CpuNs], lossy).unwrap();
    assert_eq!((report.lost, report.throttled), (41, 1));
    assert!(
        report
            .limits
            .iter()
            .any(|limit| limit.starts_with("41 records were lost"))
    );
}

#[test]
fn missing_timer_samples_are_reported() {
    // The window lasts 10 ms or more. The samples of 50 us sum to 2.5 ms.
    let sparse = Recording {
        weight: 50_000,
        ..recording()
    };
    let report = play(SYMBOLS, &[EventKind::CpuNs], sparse).unwrap();
    assert!(report.missing_share.unwrap() > 0.7);
    let counted = play(SYMBOLS, &[EventKind::Cycles], recording()).unwrap();
    assert_eq!(counted.missing_share, None);
}

#[test]
fn multiplexed_counters_are_an_error() {
    let shared = Recording {
        group: vec![1, 1000, 300, 5],
        ..recording()
    };
    let error = play(SYMBOLS, &[EventKind::CpuNs], shared).unwrap_err();
    assert!(
        matches!(
            error,
            ProfileError::Multiplexed {
                running_ns: 300,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn hidden_symbols_leave_one_unresolved_block_and_a_note() {
    let hidden = "0000000000000000 T tcp_ack\n0000000000000000 T do_idle\n";
    let report = play(hidden, &[EventKind::CpuNs], recording()).unwrap();
    assert!(close(report.unclaimed_share, 1.0));
    assert_eq!(report.unclaimed_top[0].symbol, "[unresolved]");
    assert!(close(report.layers.get("other").unwrap().share, 0.75));
    assert!(close(report.idle.share_of_time, 0.2));
    let note =
        |limit: &String| limit.contains("kptr_restrict") && limit.contains("unresolved block");
    assert!(report.limits.iter().any(note), "{:?}", report.limits);
}

#[test]
fn unclaimed_functions_are_named() {
    let unknown = Recording {
        stacks: vec![(PID, chain(&[9, 10])), (PID, chain(&[0, 1]))],
        ..recording()
    };
    let report = play(SYMBOLS, &[EventKind::CpuNs], unknown).unwrap();
    assert!(close(report.unclaimed_share, 0.5));
    assert_eq!(report.unclaimed_top[0].symbol, "a_worker");
}

#[test]
fn the_profilers_work_is_not_a_cost_of_packets() {
    let own = Recording {
        stacks: vec![(std::process::id(), Vec::new()), (PID, chain(&[0, 1]))],
        ..recording()
    };
    let report = play(SYMBOLS, &[EventKind::CpuNs], own).unwrap();
    assert!(close(report.layers.get("user").unwrap().share, 0.0));
    assert!(close(report.layers.get("other").unwrap().share, 0.5));
}
