//! Accesses to the hierarchy per second.
//!
//! Each benchmark replays a prepared list of lines through the caches of the simulated web server
//! (64 KiB 2-way, 1 MiB 16-way, inclusive, next-line prefetch) unless its name says otherwise.
//! Run it with `cargo bench --bench access`.
//!
//! # Results
//!
//! The figures are millions of accesses a second: the best median of three runs of 20 samples. They
//! were measured on one core of an AMD EPYC (Zen 4 class) 2-core VM with rustc 1.95, with other
//! work on the machine at the same time. When both cores are busy, all figures are up to a third
//! lower.
//!
//! | benchmark | M/s | misses per access, L1 and L2 |
//! |---|---|---|
//! | `l1_first_way`: 512 lines in turn, one a set | 626 | 0, 0 |
//! | `l1_either_way`: 1024 lines at random, two a set | 617 | 0, 0 |
//! | `l2_inclusive`: 8192 lines in turn | 77 | 1, 0 |
//! | `l2_exclusive`: the same | 58 | 1, 0 |
//! | `dram_inclusive`: 4 M lines at random | 33 | 1, 0.996 |
//! | `dram_exclusive`: the same | 33 | 1, 0.996 |
//! | `packets_16_connections`: each line three times | 456 | 0.057, 0 |
//! | `packets_2048_connections`: the same | 180 | 0.237, 0.063 |
//! | `packets_2048_once_each` | 75 | 0.713, 0.192 |
//! | `packets_2048_prefetching`: a prefetch 16 lines ahead with each access | 40 | 0.001, 0 |
//!
//! These figures are of a version in which the lines of every set were in most-recent-first order.
//! In sets of 16 ways, lines now do not move (`ordered.rs`), and [`Hierarchy::access_all`] accesses
//! many lines at once. The simulator's `benches/engine.rs` has the effect of both on whole
//! simulations.
//!
//! # Where the time goes
//!
//! A hit in the first level takes 1.6 ns, whichever of the two ways contains the line. A separate
//! branch for the first way makes repeated accesses to one line faster (940 M/s) and random ones
//! slower (185 M/s), because half of the branches are mispredicted. It makes no difference for
//! packets that access each line once.
#![allow(clippy::expect_used)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use perpacket_memory::{
    CacheParameters, DramParameters, Hierarchy, HierarchyParameters, Line, Policy,
};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

const ACCESSES: usize = 1 << 18;

fn web_server(policy: Policy) -> Hierarchy {
    Hierarchy::new(&HierarchyParameters {
        line_bytes: 64,
        levels: vec![
            CacheParameters {
                size_kib: 64,
                ways: 2,
                latency_cycles: 1,
            },
            CacheParameters {
                size_kib: 1024,
                ways: 16,
                latency_cycles: 15,
            },
        ],
        policy,
        next_line_prefetch: true,
        dram: DramParameters {
            latency_cycles: 195,
            service_cycles: 0,
        },
    })
    .expect("the web server's caches are possible")
}

fn random() -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(1)
}

/// Uniformly random lines below `lines`.
fn uniform(lines: u32) -> Vec<Line> {
    let mut random = random();
    (0..ACCESSES)
        .map(|_| Line(random.next_u32() % lines))
        .collect()
}

/// Every line below `lines`, in order, again and again.
fn cyclic(lines: u32) -> Vec<Line> {
    (0..lines).cycle().take(ACCESSES).map(Line).collect()
}

/// The accesses of a network stack. For each packet: 6 lines of its own, 20 lines of one of
/// `connections` connections, and 10 lines that all packets share, each line `touches` times.
fn packets(connections: u32, touches: usize) -> Vec<Line> {
    let mut random = random();
    let mut lines = Vec::with_capacity(ACCESSES + 1024);
    for packet in 0.. {
        let connection = (1 << 20) + random.next_u32() % connections * 20;
        let buffer = (1 << 16) + packet % 512 * 6;
        for (first, count) in [(buffer, 6), (connection, 20), (0, 10)] {
            for line in first..first + count {
                lines.extend(std::iter::repeat_n(Line(line), touches));
            }
        }
        if lines.len() >= ACCESSES {
            break;
        }
    }
    lines.truncate(ACCESSES);
    lines
}

type Replay = fn(&mut Hierarchy, &[Line]) -> u64;

fn replay(hierarchy: &mut Hierarchy, lines: &[Line]) -> u64 {
    let mut now = 0;
    for line in lines {
        now += 1 + u64::from(hierarchy.access(*line, now).stall_cycles);
    }
    now
}

/// The replay of a caller that knows the lines of an operation in advance.
fn replay_at_once(hierarchy: &mut Hierarchy, lines: &[Line]) -> u64 {
    const LINES_OF_AN_OPERATION: usize = 9;
    let mut now = 0;
    for operation in lines.chunks(LINES_OF_AN_OPERATION) {
        now += operation.len() as u64 + hierarchy.access_all(operation, now).stall_cycles;
    }
    now
}

fn replay_prefetching(hierarchy: &mut Hierarchy, lines: &[Line]) -> u64 {
    let mut now = 0;
    for (line, ahead) in lines.iter().zip(&lines[16..]) {
        hierarchy.prefetch(*ahead, now);
        now += 1 + u64::from(hierarchy.access(*line, now).stall_cycles);
    }
    now
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("access");
    group.throughput(Throughput::Elements(ACCESSES as u64));
    let mut bench = |name: &str, policy, lines: Vec<Line>, replay: Replay| {
        let mut warm = web_server(policy);
        replay(&mut warm, &lines);
        let before = warm.counters();
        replay(&mut warm, &lines);
        let after = warm.counters();
        let share = |level| {
            let misses = after.misses(level) - before.misses(level);
            misses as f64 / ACCESSES as f64
        };
        eprintln!("{name}: {:.3} miss L1, {:.3} miss L2", share(0), share(1));
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || warm.clone(),
                |hierarchy| replay(hierarchy, &lines),
                BatchSize::LargeInput,
            );
        });
    };
    let inclusive = Policy::Inclusive;
    bench("l1_first_way", inclusive, cyclic(512), replay);
    bench("l1_either_way", inclusive, uniform(1024), replay);
    bench("l2_inclusive", inclusive, cyclic(8192), replay);
    bench("l2_exclusive", Policy::Exclusive, cyclic(8192), replay);
    bench("dram_inclusive", inclusive, uniform(1 << 22), replay);
    bench(
        "dram_exclusive",
        Policy::Exclusive,
        uniform(1 << 22),
        replay,
    );
    bench("packets_16_connections", inclusive, packets(16, 3), replay);
    bench(
        "packets_2048_connections",
        inclusive,
        packets(2048, 3),
        replay,
    );
    bench(
        "packets_2048_once_each",
        inclusive,
        packets(2048, 1),
        replay,
    );
    bench(
        "packets_2048_once_each_at_once",
        inclusive,
        packets(2048, 1),
        replay_at_once,
    );
    bench(
        "packets_2048_prefetching",
        inclusive,
        packets(2048, 1),
        replay_prefetching,
    );
    group.finish();
}

criterion_group! {
    name = access;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(30);
    targets = benches
}
criterion_main!(access);
