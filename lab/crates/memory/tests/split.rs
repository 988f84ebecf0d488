//! Compares several second levels, simulated in one pass behind a filter, with naive caches,
//! simulated one by one without a filter. The counts must be equal.
#![allow(clippy::expect_used)]

mod naive;

use naive::{Naive, Sets};
use perpacket_memory::{
    CacheSize, Filter, Line, Policy, Side, Split, SplitParameters, TranslationBuffer,
    TranslationParameters,
};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Request {
    Access(Side, u32),
    Invalidate(u32),
    Allocate(u32),
}

/// Lines of a few sets, some of them often, so that small caches evict.
fn line() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => (0..4_u32).prop_map(|line| line * 64),
        4 => (0..40_u32, 0..3_u32).prop_map(|(high, low)| high * 64 + low),
        1 => 0..4096_u32,
        1 => u32::MAX - 70..u32::MAX,
    ]
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Instruction), Just(Side::Data)]
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = prop_oneof![
        20 => (side(), line()).prop_map(|(side, line)| Request::Access(side, line)),
        1 => line().prop_map(Request::Invalidate),
        1 => line().prop_map(Request::Allocate),
    ];
    prop::collection::vec(request, 1..600)
}

/// A cache of `64 << exponent` sets.
fn size(exponent: u32, ways: u32) -> CacheSize {
    CacheSize {
        size_kib: (4 << exponent) * ways,
        ways,
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Inclusive),
        Just(Policy::Exclusive),
        Just(Policy::NonInclusive)
    ]
}

/// A first level of at least 64 sets and up to three second levels.
fn parameters() -> impl Strategy<Value = SplitParameters> {
    let second = (0..3_u32, prop_oneof![1..=5_u32, Just(16)]).prop_map(|(e, ways)| size(e, ways));
    (
        (0..2_u32, 1..=4_u32).prop_map(|(e, ways)| size(e, ways)),
        prop::collection::vec(second, 1..=3),
        policy(),
        any::<bool>(),
    )
        .prop_map(|(first, mut second, policy, next_line_prefetch)| {
            if policy == Policy::Inclusive {
                second.truncate(1);
            }
            SplitParameters {
                first,
                second,
                policy,
                next_line_prefetch,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_access_agrees_with_naive_caches(parameters in parameters(), requests in requests()) {
        let mut split = Split::new(&parameters).expect("possible");
        let mut naive: Vec<_> = parameters.second.iter().map(|second| {
            Naive::new(parameters.first, *second, parameters.policy, parameters.next_line_prefetch)
        }).collect();
        let sets = parameters.first.size_kib * 16 / parameters.first.ways;
        let mut filters = [Filter::new(sets), Filter::new(sets)];
        for request in requests {
            match request {
                Request::Access(side, line) => {
                    let missed = if filters[side as usize].repeats(line) {
                        Default::default()
                    } else {
                        split.access(side, Line(line))
                    };
                    if missed.purged() {
                        filters.iter_mut().for_each(Filter::clear);
                    }
                    for (index, naive) in naive.iter_mut().enumerate() {
                        let expected = naive.access(side, line);
                        prop_assert_eq!((missed.first(), missed.second(index)), expected);
                    }
                }
                Request::Invalidate(line) => {
                    filters.iter_mut().for_each(Filter::clear);
                    split.invalidate(Line(line));
                    naive.iter_mut().for_each(|naive| naive.invalidate(line));
                }
                Request::Allocate(line) => {
                    filters.iter_mut().for_each(Filter::clear);
                    split.allocate(Line(line));
                    naive.iter_mut().for_each(|naive| naive.allocate(line));
                }
            }
        }
    }

    #[test]
    fn every_translation_agrees_with_a_naive_buffer(
        (exponent, ways) in (4..6_u32, 1..=4_u32),
        pages in prop::collection::vec(prop_oneof![20 => 0..200_u32, 1 => Just(u32::MAX)], 1..600),
    ) {
        let parameters = TranslationParameters { entries: ways << exponent, ways };
        let mut buffer = TranslationBuffer::new(parameters).expect("possible");
        let mut naive = Sets::new(1 << exponent, ways);
        let mut filter = Filter::new(1 << exponent);
        for page in pages {
            if page == u32::MAX {
                buffer.flush();
                naive.clear();
                filter.clear();
                continue;
            }
            let missed = !filter.repeats(page) && buffer.misses(Line(page * 64 + 5));
            prop_assert_eq!(missed, naive.put(page).0);
        }
    }
}

#[test]
fn an_inclusive_second_level_is_alone() {
    let parameters = SplitParameters {
        first: size(0, 2),
        second: vec![size(1, 2), size(2, 2)],
        policy: Policy::Inclusive,
        next_line_prefetch: false,
    };
    let error = Split::new(&parameters).expect_err("two").to_string();
    assert_eq!(
        error,
        "second = 2 caches is not possible: expected at most 1 behind one first level with this policy"
    );
}

#[test]
fn a_buffer_has_a_power_of_two_of_sets() {
    let parameters = TranslationParameters {
        entries: 48,
        ways: 4,
    };
    assert!(TranslationBuffer::new(parameters).is_err());
    let parameters = TranslationParameters {
        entries: 64,
        ways: 0,
    };
    assert!(TranslationBuffer::new(parameters).is_err());
}
