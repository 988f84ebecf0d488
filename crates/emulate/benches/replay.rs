//! Accesses a second that `replay` runs, on a recording of a real kernel.
//!
//! `PERPACKET_RECORDING` names a longer recording than the fixture of the tests. Times are processor times
//! of the thread, so other work of the machine matters little.
#![allow(missing_docs, clippy::expect_used)]

use std::env;
use std::fs;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perpacket_emulate::recording::{Chunk, Event, Recording};
use perpacket_emulate::{ModelParameters, replay};
use perpacket_memory::{CacheSize, TranslationParameters};

fn events(bytes: &[u8]) -> u64 {
    let recording = Recording::new(bytes).expect("a recording");
    let chunks = recording.chunks().map(|chunk| match chunk.expect("whole") {
        Chunk::Events(events) => events
            .filter(|event| matches!(event, Event::Access(..)))
            .count() as u64,
        Chunk::Window(_) => 0,
    });
    chunks.sum()
}

/// Processor time that the thread has used.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("after zero")
}

fn time<T>(times: u64, mut act: impl FnMut() -> T) -> Duration {
    let begin = used();
    for _ in 0..times {
        black_box(act());
    }
    used() - begin
}

fn benchmark(criterion: &mut Criterion) {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bulk.rec");
    let path = env::var("PERPACKET_RECORDING").unwrap_or_else(|_| fixture.to_owned());
    let bytes = fs::read(path).expect("the recording");
    let recording = Recording::new(&bytes).expect("a recording");
    let size = |size_kib, ways| CacheSize { size_kib, ways };
    let one = ModelParameters {
        second: vec![size(512, 16)],
        ..ModelParameters::default()
    };
    let four = ModelParameters {
        second: vec![size(256, 16), size(512, 16), size(1024, 16), size(2048, 16)],
        ..ModelParameters::default()
    };
    let translated = ModelParameters {
        translation: Some(TranslationParameters {
            entries: 64,
            ways: 4,
        }),
        ..one.clone()
    };
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(events(&bytes)));
    group.sample_size(10);
    group.bench_function("decoding alone", |bencher| {
        bencher.iter_custom(|times| time(times, || events(black_box(&bytes))));
    });
    for (name, parameters) in [
        ("one second level", one),
        ("four second levels", four),
        ("one second level and translation buffers", translated),
    ] {
        group.bench_function(name, |bencher| {
            let run = || replay(black_box(recording), &parameters).expect("whole");
            bencher.iter_custom(|times| time(times, run));
        });
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
