//! Measures how fast sessions are generated, in planned requests a second on one core.
//!
//! Measured on an AMD EPYC (Zen 4 class) 2-core VM with other work on both cores, in millions of
//! requests a second: workload W (World Cup) 21, workload D (SPECweb99, mixed) 92, replay of a
//! trace of W 658. The simulator's goal of three million packets a second needs 0.2 million
//! requests a second.

#![allow(clippy::expect_used)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use perpacket_workload::{
    LognormalSessions, Replay, SESSION_WINDOW_S, SessionSource, Sessions, SpecWeb99, Synthesis,
    synthesize,
};

/// Sessions in one measurement.
const SESSIONS: u32 = 10_000;

fn world_cup() -> Sessions {
    Sessions::Lognormal(
        LognormalSessions::world_cup()
            .generator(1)
            .expect("the preset is valid"),
    )
}

fn replayed() -> Sessions {
    let synthesis = Synthesis {
        requests: 400_000,
        ..Synthesis::default()
    };
    let mut trace = Vec::new();
    synthesize(&mut world_cup(), &mut trace, &synthesis).expect("memory can be written");
    Sessions::Replay(Replay::read(trace.as_slice(), None, SESSION_WINDOW_S).expect("it is a trace"))
}

fn generating(criterion: &mut Criterion) {
    let mixed = SpecWeb99::mixed(2048)
        .generator(1)
        .expect("the preset is valid");
    let mut group = criterion.benchmark_group("sessions");
    group.sample_size(20);
    for (name, sessions) in [
        ("W", world_cup()),
        ("D", Sessions::SpecWeb99(mixed)),
        ("replay", replayed()),
    ] {
        let mut requests = Vec::new();
        let mut planned = |sessions: &mut Sessions| {
            (0..SESSIONS)
                .map(|_| {
                    black_box(sessions.next_session(&mut requests));
                    requests.len() as u64
                })
                .sum::<u64>()
        };
        group.throughput(Throughput::Elements(planned(&mut sessions.clone())));
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(|| sessions.clone(), &mut planned, BatchSize::LargeInput)
        });
    }
    group.finish();
}

criterion_group!(benches, generating);
criterion_main!(benches);
