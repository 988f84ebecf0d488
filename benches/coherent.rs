//! Accesses a second to the coherent caches of several processors.
//!
//! Each benchmark replays the accesses of a network stack: for each packet 6 lines of a buffer, 20 lines
//! of one of 16 connections and 10 lines that all packets share, each line three times, with a store
//! as the last. Processors take turns of 5,000 accesses. The caches are those of a small server: 32
//! KiB with 8 ways, and second levels of 256 KiB and 1 MiB with 16 ways, in one pass.
//! Run it with `cargo bench --bench coherent`.
#![allow(clippy::expect_used)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use perpacket_memory::{
    Action, CacheSize, Coherent, CoherentParameters, Line, Policy, Protocol, Side, Split,
    SplitParameters, Touch,
};
use std::time::Duration;

const ACCESSES: usize = 1 << 18;
const TURN: usize = 5000;

const FIRST: CacheSize = CacheSize {
    size_kib: 32,
    ways: 8,
};

fn second() -> Vec<CacheSize> {
    [256, 1024]
        .map(|size_kib| CacheSize { size_kib, ways: 16 })
        .to_vec()
}

fn caches(processors: u32) -> Coherent {
    Coherent::new(&CoherentParameters {
        processors,
        first: FIRST,
        second: second(),
        shared: None,
        protocol: Protocol::Mesi,
    })
    .expect("the caches of a small server are possible")
}

/// The accesses of `processors` in turns. `own` processors have lines of their own, besides the ten
/// lines that all packets share, which are loaded alone; others share every line.
fn accesses(processors: usize, own: bool) -> Vec<(usize, Touch)> {
    let mut found = Vec::with_capacity(ACCESSES);
    let mut packet = 0;
    while found.len() < ACCESSES {
        let processor = found.len() / TURN % processors;
        let base = if own { processor as u32 * (1 << 22) } else { 0 };
        let buffer = base + (1 << 16) + packet % 64 * 6;
        let connection = base + (1 << 20) + packet % 16 * 20;
        for (first, count, stores) in [(buffer, 6, true), (connection, 20, true), (0, 10, !own)] {
            for line in first..first + count {
                for action in [Action::Load, Action::Load, Action::Store] {
                    let action = if stores { action } else { Action::Load };
                    let words = 1 << (line % 8);
                    let line = Line(line);
                    let touch = Touch {
                        action,
                        line,
                        words,
                    };
                    found.push((processor, touch));
                }
            }
        }
        packet += 1;
    }
    found.truncate(ACCESSES);
    found
}

fn replay(caches: &mut Coherent, accesses: &[(usize, Touch)]) -> u64 {
    let mut moved = 0;
    for (processor, touch) in accesses {
        if caches.access(*processor, *touch) {
            moved += u64::from(caches.effects().misses[0].is_some_and(|miss| miss.is_modified));
        }
    }
    moved
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("coherent");
    group.throughput(Throughput::Elements(ACCESSES as u64));
    for (name, processors, own) in [
        ("one_processor", 1, true),
        ("four_with_lines_of_their_own", 4, true),
        ("four_that_share_every_line", 4, false),
    ] {
        let accesses = accesses(processors, own);
        let mut warm = caches(processors as u32);
        replay(&mut warm, &accesses);
        let moved = replay(&mut warm, &accesses);
        eprintln!(
            "{name}: {:.4} modified lines move per access",
            moved as f64 / ACCESSES as f64
        );
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || warm.clone(),
                |caches| replay(caches, &accesses),
                BatchSize::LargeInput,
            );
        });
    }
    // The caches of one processor, to which no other matters.
    let accesses = accesses(1, true);
    let mut split = Split::new(&SplitParameters {
        first: FIRST,
        second: second(),
        policy: Policy::NonInclusive,
        next_line_prefetch: false,
    })
    .expect("the caches of a small server are possible");
    let split_replay = |split: &mut Split| {
        let missed = accesses
            .iter()
            .filter(|(_, touch)| split.access(Side::Data, touch.line).first());
        missed.count()
    };
    split_replay(&mut split);
    group.bench_function("split_of_one_processor", |bencher| {
        bencher.iter_batched_ref(|| split.clone(), split_replay, BatchSize::LargeInput);
    });
    group.finish();
}

criterion_group! {
    name = coherent;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    targets = benches
}
criterion_main!(coherent);
