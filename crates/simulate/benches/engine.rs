//! How fast the simulator runs: the bare event queue, and whole configurations with the full memory
//! model, in simulated packets a second on one core.
//!
//! Measured with `cargo bench -p perpacket-simulate --bench engine` on an AMD EPYC (Zen 4 class)
//! 2-core VM with other work on it; the bars are 20 M events a second for the queue and 1 M packets
//! a second:
//!
//! | bench | median |
//! |---|---|
//! | queue, 16 / 1,024 / 65,536 events waiting | 118 / 58 / 27 M events/s |
//! | bulk sender, 128 / 2,048 connections | 1.3 / 1.4 M packets/s |
//! | web, baseline / offload / overload | 0.86 / 1.06 / 1.02 M packets/s |
//!
//! The web baseline is below the bar on this machine. Where its time goes (`perf record`, cpu-clock):
//! 65 % is the memory hierarchy, because a packet of it makes some 55 accesses of which 20 miss the
//! first level and 11 the second, and each of those also fetches the next line; 20 % is walking the
//! footprints (`Cpu::run`, with the first-level hits inlined); the event queue takes 5 %, TCP 3 %, the
//! rest is clients, NIC and server. Packets of offloaded connections touch less of the host, so those
//! configurations are faster. Replacing the sets' move-to-front by vector comparisons or by an order
//! in one register was tried and gained nothing.
//!
//! Peers: packet-level network simulators without a host model run at 0.8 to 4 M events a second,
//! full-system simulators at 0.1 to 1 M instructions a second.

#![expect(
    missing_docs,
    reason = "the macros of criterion make items without documentation"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perpacket_simulate::queue::EventQueue;
use perpacket_simulate::time::{Span, Time};
use perpacket_simulate::{Progress, Simulation};

/// Pops the earliest event and pushes one, with `waiting` events in the queue and times spread as
/// in a simulation: most a few microseconds ahead, one in 64 a second (a timer).
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

criterion_group!(benches, queue, packets);
criterion_main!(benches);
