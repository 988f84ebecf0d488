//! Compares coherent caches of several processors and sizes, simulated in one pass, with a naive model
//! of one size, access by access. Also checks protocol, causes and sharing on traces worked by hand.
#![allow(clippy::expect_used)]

mod naive_coherence;

use naive_coherence::{NaiveCoherence, Step};
use perpacket_memory::{
    Action, CacheSize, Cause, Coherent, CoherentParameters, Effects, Line, Policy, PrivateMiss,
    Protocol, SharedLevel, Side, Source, Split, SplitParameters, Touch, words,
};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Request {
    Access(usize, Touch),
    Invalidate(u32),
    Allocate(u32),
}

fn size(size_kib: u32, ways: u32) -> CacheSize {
    CacheSize { size_kib, ways }
}

fn touch(action: Action, line: u32, words: u8) -> Touch {
    let line = Line(line);
    Touch {
        action,
        line,
        words,
    }
}

/// Runs the requests; returns for each size what each access did.
fn run(parameters: &CoherentParameters, requests: &[Request]) -> Vec<Vec<Step>> {
    let mut caches = Coherent::new(parameters).expect("possible caches");
    let mut steps = vec![Vec::new(); parameters.second.len()];
    for request in requests {
        match *request {
            Request::Access(processor, touch) => {
                let effects = if caches.access(processor, touch) {
                    *caches.effects()
                } else {
                    Effects::default()
                };
                if effects.open_sizes != 0 {
                    let number = u32::try_from(steps[0].len()).expect("a short trace");
                    caches.tag(processor, touch.line, number);
                }
                for (index, steps) in steps.iter_mut().enumerate() {
                    let has = |sizes: u8| sizes >> index & 1 == 1;
                    if let Some(resolved) = effects.resolved {
                        let earlier: &mut Step = &mut steps[resolved.tag as usize];
                        if has(resolved.true_sizes) {
                            earlier.is_true_sharing = Some(true);
                        } else if has(resolved.false_sizes) {
                            earlier.is_true_sharing = Some(false);
                        }
                    }
                    steps.push(Step {
                        first_missed: effects.first_missed,
                        miss: effects.misses[index],
                        is_upgrade: has(effects.upgraded_sizes),
                        invalidated: effects.invalidated[index],
                        is_true_sharing: has(effects.true_sizes).then_some(true),
                    });
                }
            }
            Request::Invalidate(line) => caches.invalidate(Line(line)),
            Request::Allocate(line) => caches.allocate(Line(line)),
        }
    }
    steps
}

/// The same with the naive model, one size after the other.
fn naive(parameters: &CoherentParameters, requests: &[Request]) -> Vec<Vec<Step>> {
    let of_size = |second: &CacheSize| {
        let CoherentParameters {
            processors,
            first,
            shared,
            protocol,
            ..
        } = *parameters;
        let mut model = NaiveCoherence::new(processors, first, *second, shared, protocol);
        for request in requests {
            match *request {
                Request::Access(processor, touch) => model.access(processor, touch),
                Request::Invalidate(line) => model.device_writes(line, false),
                Request::Allocate(line) => model.device_writes(line, true),
            }
        }
        model.steps
    };
    parameters.second.iter().map(of_size).collect()
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => Just(Action::Fetch),
        4 => Just(Action::Load),
        4 => Just(Action::Store),
    ]
}

/// Lines of a few sets, and a few lines that all processors use often.
fn line() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0..6_u32,
        4 => (0..12_u32, 0..2_u32).prop_map(|(high, low)| high * 16 + low),
        1 => 0..4096_u32,
    ]
}

fn requests(processors: usize) -> impl Strategy<Value = Vec<Request>> {
    let words = prop_oneof![(0..8_u32).prop_map(|word| 1 << word), 1..=255_u8];
    let access =
        (0..processors, action(), line(), words).prop_map(|(processor, action, line, words)| {
            Request::Access(processor, touch(action, line, words))
        });
    let request = prop_oneof![
        40 => access,
        1 => line().prop_map(Request::Invalidate),
        1 => line().prop_map(Request::Allocate),
    ];
    prop::collection::vec(request, 1..500)
}

/// First levels of 8 lines and more, second levels of 16 lines and more, so that they evict.
fn parameters() -> impl Strategy<Value = CoherentParameters> {
    let ways = prop_oneof![Just(1_u32), Just(2), Just(4), Just(16)];
    let small = (1..=2_u32, ways.clone()).prop_map(|(kib, ways)| size(kib, ways));
    let larger = (0..=2_u32, ways).prop_map(|(exponent, ways)| size(1 << exponent, ways));
    let shared = (2..=3_u32, 1..=8_u32).prop_map(|(exponent, processors)| SharedLevel {
        size: size(1 << exponent, 4),
        processors,
    });
    let protocol = prop_oneof![Just(Protocol::Mesi), Just(Protocol::Moesi)];
    (
        1..=8_u32,
        small,
        prop::collection::vec(larger, 1..4),
        prop::option::of(shared),
        protocol,
    )
        .prop_map(
            |(processors, first, second, shared, protocol)| CoherentParameters {
                processors,
                first,
                second,
                shared: shared.map(|level| SharedLevel {
                    processors: level.processors.min(processors),
                    ..level
                }),
                protocol,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_access_has_the_effects_of_the_naive_model(
        (parameters, requests) in parameters()
            .prop_flat_map(|own| (Just(own.clone()), requests(own.processors as usize)))
    ) {
        let fast = run(&parameters, &requests);
        let slow = naive(&parameters, &requests);
        for (index, (fast, slow)) in fast.iter().zip(&slow).enumerate() {
            for (number, (fast, slow)) in fast.iter().zip(slow).enumerate() {
                prop_assert_eq!(fast, slow, "size {}, access {}", index, number);
            }
        }
    }

    #[test]
    fn one_processor_misses_where_caches_of_one_processor_do(
        (parameters, requests) in parameters()
            .prop_flat_map(|own| (Just(CoherentParameters { processors: 1, shared: None, ..own }), requests(1)))
    ) {
        let mut split = Split::new(&SplitParameters {
            first: parameters.first,
            second: parameters.second.clone(),
            policy: Policy::NonInclusive,
            next_line_prefetch: false,
        })
        .expect("possible caches");
        let mut missed = Vec::new();
        for request in &requests {
            match *request {
                Request::Access(_, touch) => {
                    let side = match touch.action {
                        Action::Fetch => Side::Instruction,
                        Action::Load | Action::Store => Side::Data,
                    };
                    missed.push(split.access(side, touch.line));
                }
                Request::Invalidate(line) | Request::Allocate(line) => split.invalidate(Line(line)),
            }
        }
        for (index, steps) in run(&parameters, &requests).iter().enumerate() {
            for (step, missed) in steps.iter().zip(&missed) {
                prop_assert_eq!(step.first_missed, missed.first());
                prop_assert_eq!(step.miss.is_some(), missed.second(index));
                prop_assert!(!step.is_upgrade && step.invalidated == 0);
            }
        }
    }
}

/// Two processors with the caches of a small server.
fn two(protocol: Protocol) -> CoherentParameters {
    CoherentParameters {
        processors: 2,
        first: size(4, 2),
        second: vec![size(16, 4)],
        shared: None,
        protocol,
    }
}

const LOAD: Action = Action::Load;
const STORE: Action = Action::Store;

/// The steps of accesses (processor, action, line, words) with one size.
fn steps(protocol: Protocol, accesses: &[(usize, Action, u32, u8)]) -> Vec<Step> {
    let requests: Vec<_> = accesses
        .iter()
        .map(|(processor, action, line, words)| {
            Request::Access(*processor, touch(*action, *line, *words))
        })
        .collect();
    run(&two(protocol), &requests).remove(0)
}

fn miss(cause: Cause, source: Source, is_modified: bool) -> Option<PrivateMiss> {
    Some(PrivateMiss {
        cause,
        source,
        is_modified,
    })
}

#[test]
fn two_threads_that_write_two_words_of_one_line_share_falsely() {
    let rounds: Vec<_> = (0..10)
        .flat_map(|_| [(0, STORE, 7, 0b0001), (1, STORE, 7, 0b1000)])
        .collect();
    let steps = steps(Protocol::Mesi, &rounds);
    for (number, step) in steps.iter().enumerate().skip(2) {
        let other = Source::Processor(u8::from(number % 2 == 0));
        assert_eq!(step.miss, miss(Cause::Coherence, other, true));
        // The last two are not known yet.
        let is_known = number < steps.len() - 2;
        assert_eq!(step.is_true_sharing, is_known.then_some(false));
    }
}

#[test]
fn two_threads_that_write_words_of_two_lines_share_nothing() {
    let rounds: Vec<_> = (0..10)
        .flat_map(|_| [(0, STORE, 7, 0b0001), (1, STORE, 8, 0b1000)])
        .collect();
    let steps = steps(Protocol::Mesi, &rounds);
    assert!(steps[2..].iter().all(|step| *step == Step::default()));
}

#[test]
fn a_miss_is_true_sharing_if_a_written_word_is_accessed_later() {
    let steps = steps(
        Protocol::Mesi,
        &[
            (0, LOAD, 7, 0b0001),
            (1, STORE, 7, 0b1000),
            (0, LOAD, 7, 0b0001),
            (0, LOAD, 7, 0b0001),
            (0, LOAD, 7, 0b1000),
        ],
    );
    assert_eq!(
        steps[2].miss,
        miss(Cause::Coherence, Source::Processor(1), true)
    );
    assert_eq!(steps[2].is_true_sharing, Some(true));
}

#[test]
fn a_store_to_a_shared_line_is_an_upgrade_and_a_second_is_free() {
    let steps = steps(
        Protocol::Mesi,
        &[
            (0, LOAD, 7, 1),
            (1, LOAD, 7, 1),
            (0, STORE, 7, 1),
            (0, STORE, 7, 1),
        ],
    );
    assert_eq!(
        steps[1].miss,
        miss(Cause::Cold, Source::Processor(0), false),
        "the exclusive copy of processor 0"
    );
    assert!(steps[2].is_upgrade && steps[2].invalidated == 0b10);
    assert_eq!(steps[3], Step::default());
}

#[test]
fn the_owner_of_a_modified_line_supplies_a_third_reader_only_with_moesi() {
    let mut parameters = two(Protocol::Mesi);
    parameters.processors = 3;
    let accesses = [(0, STORE), (1, LOAD), (2, LOAD)];
    let requests =
        accesses.map(|(processor, action)| Request::Access(processor, touch(action, 7, 1)));
    let source = |parameters: &CoherentParameters| {
        run(parameters, &requests)[0][2]
            .miss
            .map(|miss| miss.source)
    };
    assert_eq!(source(&parameters), Some(Source::Memory));
    parameters.protocol = Protocol::Moesi;
    assert_eq!(source(&parameters), Some(Source::Processor(0)));
}

#[test]
fn words_are_those_of_the_access_in_its_line() {
    assert_eq!(words(0x1000, 8), 0b0000_0001);
    assert_eq!(words(0x1007, 2), 0b0000_0011);
    assert_eq!(words(0x103C, 4), 0b1000_0000);
    assert_eq!(
        words(0x103C, 16),
        0b1000_0000,
        "the rest is in the next line"
    );
    assert_eq!(words(0x1000, 64), 0b1111_1111);
}

#[test]
fn an_error_names_the_parameter() {
    let error = |change: fn(&mut CoherentParameters)| {
        let mut parameters = two(Protocol::Mesi);
        change(&mut parameters);
        Coherent::new(&parameters)
            .expect_err("impossible")
            .to_string()
    };
    assert_eq!(
        error(|own| own.processors = 9),
        "processors = 9 is not possible: expected 1 to 8"
    );
    assert!(error(|own| own.second.clear()).starts_with("second = 0 is not possible"));
    assert!(error(|own| own.first.ways = 3).starts_with("first.ways = 3"));
    let shared = |own: &mut CoherentParameters| {
        own.shared = Some(SharedLevel {
            size: size(64, 16),
            processors: 3,
        });
    };
    assert_eq!(
        error(shared),
        "shared.processors = 3 is not possible: expected 1 to 2"
    );
}
