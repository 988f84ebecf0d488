//! Measures the speed of the simulator: the event queue alone, and whole configurations with the
//! full memory model, in simulated packets a second on one core.
//!
//! Measured with `cargo bench --bench engine` on an AMD EPYC (Zen 4 class)
//! 2-core VM with other work on it. The goals are 20 M events a second for the queue and 1 M
//! packets a second:
//!
//! | bench | median |
//! |---|---|
//! | queue, 16 / 1,024 / 65,536 events waiting | 118 / 58 / 27 M events/s |
//! | bulk sender, 128 / 2,048 connections | 1.3 / 1.4 M packets/s before the changes below |
//! | web, baseline / offload / overload | 0.86 / 1.06 / 1.02 M packets/s before the changes below |
//!
//! # Changes, by user time in alternation with the version before
//!
//! The effects were measured with runs of 250,000 packets that alternated between the old and the
//! new version, on one core of the same VM with other work on it. The ratios are medians of paired
//! ratios. Together, the changes make the web baseline 1.5 times as fast, the offload 1.49, the
//! overload 1.36, the bulk sender with 2,048 connections 1.14, and the web baseline on the
//! exclusive caches of `athlon-xp-2600` 1.14. The results are equal byte by byte. In one such
//! series, the shortest run of the baseline took 0.203 s (1.2 M packets/s); with the old version it
//! took 0.294 s. A packet executes 7,000 instructions; it executed 12,800 before.
//!
//! | change | web baseline, against the version before it |
//! |---|---|
//! | lines of 16-way sets stay in place, with an order of ways in one word | 1.11 |
//! | two inclusive levels in one loop, a run of lines at a time | 1.26 |
//! | all lines of an operation at once, from a list made at the start | 1.10 |
//! | 16 ways only, and that loop a function of its own | 1.03 |
//! | each set's lines in one cache line of the machine | 1.01 |
//! | fewer divisions: clocks, frames' times, places | 1.04 |
//!
//! Since then, each component owns its state, and every queue counts references. According to
//! cachegrind, this needs 1 % more instructions in the overload (729 M instead of 721 M for 120,000
//! packets). An operation's costs and lines are now stored together, which saves 1 %.
//!
//! The following changes had no gain (with the ratio of speeds): comparing whole 16-way sets
//! without hashes (0.98), moving the code for misses to a function (0.96), loading the sets of
//! lines three accesses ahead (0.93), touching the next job's connection early (1.01), iterating
//! over an operation's touches instead of storing a list (0.94), and vectorising move-to-front
//! completely.
//!
//! By `perf record` with cpu-clock, 38 % of the time is in the hierarchy and 10 % in listing the
//! lines of operations. The rest is in events, TCP, clients, NIC and server, each below 12 %.
//!
//! Peers: packet-level network simulators without a host model run at 0.8 to 4 M events a second,
//! full-system simulators at 0.1 to 1 M instructions a second.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perpacket_simulate::event_queue::EventQueue;
use perpacket_simulate::time::{Span, Time};
use perpacket_simulate::{Progress, Simulation};

/// Pops the earliest event and pushes another, with `waiting` events in the queue. The times are
/// spread as in a simulation: most events are a few microseconds ahead, and one in 64 is a second
/// ahead, like a timer.
fn queue(criterion: &mut Criterion) {
    const STEPS: u64 = 100_000;
    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(STEPS));
    for waiting in [16_u64, 1_024, 65_536] {
        let mut events = EventQueue::new();
        let mut random = 1_u64;
        let mut delay = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let spread = random >> 40;
            Span(if spread.is_multiple_of(64) {
                1_000_000_000_000
            } else {
                500_000 + spread
            })
        };
        for number in 0..waiting {
            events.push(Time::ZERO + delay(), number as u32);
        }
        group.bench_function(format!("{waiting}_waiting"), |bencher| {
            bencher.iter(|| {
                for _ in 0..STEPS {
                    if let Some((time, event)) = events.pop() {
                        events.push(time + delay(), black_box(event));
                    }
                }
            });
        });
    }
    group.finish();
}

/// A fixed loop that measures the machine: a chain of multiplications and of loads from a table of
/// 32 KiB. The ratio of packets a second to steps of this loop a second compares versions across
/// machines, and across days of one machine.
fn reference(criterion: &mut Criterion) {
    const STEPS: u64 = 1_000_000;
    let table: Vec<u64> = (0..4096_u64)
        .map(|index| index.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .collect();
    let mut group = criterion.benchmark_group("reference");
    group.throughput(Throughput::Elements(STEPS));
    group.bench_function("loop", |bencher| {
        bencher.iter(|| {
            let mut value = 1_u64;
            for _ in 0..STEPS {
                value = value
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(table[(value >> 52) as usize]);
            }
            black_box(value)
        });
    });
    group.finish();
}

fn packets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packets");
    group.sample_size(10);
    for (name, configuration, connections) in [
        ("bulk_128", "bulk", "128"),
        ("bulk_2048", "bulk", "2048"),
        ("web_baseline", "W-0-N-N-FCFS-400", "2048"),
        ("web_offload", "W-4096-P-L-FCFS-800", "2048"),
        ("web_overload", "W-4096-P-N-FCFS-400", "2048"),
    ] {
        let overrides = [
            ("workload.connections", connections),
            ("run.warmup_packets", "100000"),
            ("run.packets", "200000"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let Ok(simulation) = Simulation::new(configuration, &overrides, None) else {
            continue;
        };
        group.throughput(Throughput::Elements(simulation.packets()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| simulation.run(1, false, &Progress::default()).is_ok());
        });
    }
    group.finish();
}

criterion_group!(benches, reference, queue, packets);
criterion_main!(benches);
