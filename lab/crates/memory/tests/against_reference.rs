//! Compares the hierarchy with a naive one, for random shapes and requests.
#![allow(clippy::expect_used)]

mod reference;

use perpacket_memory::{
    CacheParameters, DramParameters, Hierarchy, HierarchyParameters, Line, MAX_LEVELS, Policy,
    Tally,
};
use proptest::prelude::*;
use reference::Reference;

/// Number of tested lines. Half of them are the lowest numbers, and half are the highest allowed
/// numbers.
const LINES: u32 = 96;

#[derive(Clone, Debug)]
enum Request {
    Access(u32),
    AccessAll(Vec<u32>),
    Prefetch(u32),
    Invalidate(u32),
    LetTimePass(u64),
}

fn line() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0..12_u32,
        8 => 0..LINES,
        1 => u32::MAX - LINES..u32::MAX,
    ]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        12 => line().prop_map(Request::Access),
        6 => prop::collection::vec(line(), 0..40).prop_map(Request::AccessAll),
        3 => line().prop_map(Request::Prefetch),
        2 => line().prop_map(Request::Invalidate),
        3 => (0..150_u64).prop_map(Request::LetTimePass),
    ]
}

/// A level: the binary logarithm of its number of sets, its ways, and its latency in cycles beyond
/// that of the level above.
type Shape = (u32, u32, u32);

/// One to three levels of few ways, or the two levels of the machines that the simulator has.
fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let level = |ways| (0..4_u32, ways, 0..20_u32);
    prop_oneof![
        3 => prop::collection::vec(level((1..=5_u32).boxed()), 1..=MAX_LEVELS),
        1 => prop::collection::vec(level(Just(16_u32).boxed()), 1..=MAX_LEVELS),
        2 => (level(Just(2).boxed()), level(Just(16).boxed())).prop_map(|(l1, l2)| vec![l1, l2]),
    ]
}

/// Random parameters. Lines of 1 KiB and more make caches of a few lines possible, because sizes
/// are in KiB.
fn parameters() -> impl Strategy<Value = HierarchyParameters> {
    (
        prop_oneof![Just(1024_u32), Just(2048), Just(4096), Just(64)],
        shapes(),
        prop_oneof![
            Just(Policy::Inclusive),
            Just(Policy::Exclusive),
            Just(Policy::NonInclusive)
        ],
        any::<bool>(),
        0..150_u32,
        prop_oneof![Just(0), 1..80_u32],
    )
        .prop_map(
            |(line_bytes, shapes, policy, next_line_prefetch, dram_cycles, service_cycles)| {
                let mut latency_cycles = 0;
                let level = |(sets_exponent, ways, further_cycles): Shape| {
                    latency_cycles += further_cycles;
                    // A way has at least 1 KiB, which is 16 sets of the shortest line.
                    let way_bytes = (line_bytes << sets_exponent).max(1024);
                    CacheParameters {
                        size_kib: way_bytes / 1024 * ways,
                        ways,
                        latency_cycles,
                    }
                };
                HierarchyParameters {
                    line_bytes,
                    levels: shapes.into_iter().map(level).collect(),
                    policy,
                    next_line_prefetch,
                    dram: DramParameters {
                        latency_cycles: latency_cycles + dram_cycles,
                        service_cycles,
                    },
                }
            },
        )
}

/// Every tested line with the levels that contain it.
fn contents(levels: usize, is_in: impl Fn(usize, u32) -> bool) -> Vec<(u32, Vec<usize>)> {
    let lines = (0..=LINES).chain(u32::MAX - LINES..u32::MAX);
    lines
        .map(|line| (line, (0..levels).filter(|l| is_in(*l, line)).collect()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_access_agrees_in_level_and_stall(
        parameters in parameters(),
        stalls_pass in any::<bool>(),
        requests in prop::collection::vec(request(), 1..300),
    ) {
        let mut hierarchy = Hierarchy::new(&parameters).expect("possible");
        let mut reference = Reference::new(&parameters);
        let mut now = 0;
        for (index, request) in requests.iter().enumerate() {
            match request {
                Request::AccessAll(lines) => {
                    let mut expected = Tally::default();
                    for line in lines {
                        let at = now + expected.stall_cycles;
                        let (level, stall_cycles) = reference.access(*line, at);
                        expected.stall_cycles += u64::from(stall_cycles);
                        expected.misses[0] += u64::from(level >= 1);
                        expected.misses[1] += u64::from(level >= 2);
                    }
                    let lines: Vec<_> = lines.iter().copied().map(Line).collect();
                    let tally = hierarchy.access_all(&lines, now);
                    prop_assert_eq!(tally, expected, "request {}: {:?}", index, request);
                    // Times may not decrease, so the next request waits for the end of this access.
                    now += tally.stall_cycles;
                }
                &Request::Access(line) => {
                    let access = hierarchy.access(Line(line), now);
                    let answered = (access.level, access.stall_cycles);
                    let expected = reference.access(line, now);
                    prop_assert_eq!(answered, expected, "request {}: {:?}", index, request);
                    now += if stalls_pass { u64::from(access.stall_cycles) } else { 0 };
                }
                &Request::Prefetch(line) => {
                    hierarchy.prefetch(Line(line), now);
                    reference.prefetch(line, now);
                }
                &Request::Invalidate(line) => {
                    hierarchy.invalidate(Line(line));
                    reference.invalidate(line);
                }
                &Request::LetTimePass(cycles) => now += cycles,
            }
        }
        let depth = parameters.levels.len();
        let actual = contents(depth, |level, line| hierarchy.contains(level, Line(line)));
        let expected = contents(depth, |level, line| reference.contains(level, line));
        prop_assert_eq!(&actual, &expected);
        for (line, levels) in actual {
            match parameters.policy {
                Policy::Exclusive => prop_assert!(levels.len() <= 1, "line {} twice", line),
                Policy::Inclusive => {
                    let all_below = levels.first().is_none_or(|first| levels.len() == depth - first);
                    prop_assert!(all_below, "line {} only in {:?}", line, levels);
                }
                Policy::NonInclusive => {}
            }
        }
    }
}
