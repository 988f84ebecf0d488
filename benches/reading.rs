//! Measures how fast traces are read into a full summary, in MB/s of decompressed bytes on one
//! core.
//!
//! The goal is at least 250 MB/s of log text. The benchmark generates its traces, so that it needs
//! no file: 400,000 requests of workload W (World Cup) from 17,500 clients for 20,000 objects.
//!
//! Measured on an AMD EPYC (Zen 4 class) 2-core VM with other work on both cores, medians of the
//! quieter of two runs: common 616, combined 460, world-cup 757, common in gzip 405, in zstd 436. A
//! line takes some 130 ns, mostly for cache misses in the look-ups of its host and path. A real log
//! with more repetition (the NASA log of 1 August 1995, 160 times over) is read at 806 MB/s.

#![allow(clippy::expect_used)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perpacket_workload::{
    Compression, LognormalSessions, SESSION_WINDOW_S, Sessions, Synthesis, TraceFormat, summarize,
    synthesize,
};

fn trace(format: TraceFormat, compression: Compression) -> Vec<u8> {
    let mut sessions = Sessions::Lognormal(
        LognormalSessions::world_cup()
            .generator(1)
            .expect("the preset is valid"),
    );
    let synthesis = Synthesis {
        requests: 400_000,
        format,
        compression,
        ..Synthesis::default()
    };
    let mut bytes = Vec::new();
    synthesize(&mut sessions, &mut bytes, &synthesis).expect("memory can be written");
    bytes
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("summarize");
    group.sample_size(20);
    for (name, format, compression) in [
        ("common", TraceFormat::Common, Compression::None),
        ("combined", TraceFormat::Combined, Compression::None),
        ("world-cup", TraceFormat::WorldCup, Compression::None),
        ("common gzip", TraceFormat::Common, Compression::Gzip),
        ("common zstd", TraceFormat::Common, Compression::Zstd),
    ] {
        let plain = trace(format, Compression::None).len();
        let bytes = trace(format, compression);
        group.throughput(Throughput::BytesDecimal(plain as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| summarize(black_box(bytes.as_slice()), None, SESSION_WINDOW_S));
        });
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
