//! The number of the machine's accesses that `replay` processes per second, on a recording of a
//! real kernel.
//!
//! A recording omits repeated accesses, which cannot change a cache. The rate counts all loads and
//! stores, including the omitted ones, but only the recorded fetches of instructions.
//! The environment variable `PERPACKET_RECORDING` can name a longer recording, which replaces the
//! fixture of the tests. Times are processor times of the thread, so other work of the machine
//! matters little.
#![allow(clippy::expect_used)]

use std::env;
use std::fs;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perpacket_emulate::recording::{Chunk, Event, Mark, Recording};
use perpacket_emulate::{ModelParameters, replay};
use perpacket_memory::{CacheSize, Side, TranslationParameters};

/// The counts of a recording.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    /// Accesses that were recorded.
    recorded: u64,
    /// Accesses of the machine: the loads and stores, repeated ones included, and the recorded fetches.
    of_machine: u64,
}

/// Decodes a recording.
fn content(bytes: &[u8]) -> Content {
    let recording = Recording::new(bytes).expect("a recording");
    let (mut fetches, mut data, mut in_window, mut of_window) = (0, 0, 0, 0);
    let mut is_counting = false;
    for chunk in recording.chunks() {
        match chunk.expect("whole") {
            Chunk::Events(events) => {
                for event in events {
                    match event {
                        Event::Access(Side::Instruction, _) => fetches += 1,
                        Event::Access(Side::Data, _) => {
                            data += 1;
                            in_window += u64::from(is_counting);
                        }
                        Event::Mark(mark) => is_counting = mark == Mark::Start,
                        _ => {}
                    }
                }
            }
            Chunk::Window(facts) => of_window += facts.data_accesses,
        }
    }
    // The recording has the number of omitted loads and stores only for windows. So scale all loads
    // and stores by the ratio in the windows.
    let repeats = of_window as f64 / (in_window as f64).max(1.0);
    Content {
        recorded: fetches + data,
        of_machine: fetches + (data as f64 * repeats) as u64,
    }
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
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../lab/crates/emulate/tests/data/bulk.rec"
    );
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
    let found = content(&bytes);
    println!(
        "{} accesses recorded of {} of the machine",
        found.recorded, found.of_machine
    );
    group.throughput(Throughput::Elements(found.of_machine));
    group.sample_size(10);
    group.bench_function("decoding alone", |bencher| {
        bencher.iter_custom(|times| time(times, || content(black_box(&bytes))));
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
