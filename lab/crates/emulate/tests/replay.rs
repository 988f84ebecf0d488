//! Compares the counts of a replay with those of the observer and with those of naive caches.
#![allow(missing_docs, clippy::expect_used)]

#[path = "../../memory/tests/naive/mod.rs"]
mod naive;

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::rc::Rc;

use naive::{Naive, Sets};
use perpacket_cost::{KernelSymbols, Rules};
use perpacket_emulate::recording::{
    Chunk, Event, Mark, RecordFilter, Recorder, Recording, RecordingError,
};
use perpacket_emulate::{
    Block, By, DeviceWrites, Functions, Guest, ModelParameters, Observer, ObserverSettings, Window,
    replay,
};
use perpacket_memory::{CacheSize, Line, Policy, TranslationParameters};
use proptest::prelude::*;

/// A file that the test can read while the recorder owns it.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const KERNEL: u64 = 0xffff_ffff_8100_0000;

fn functions() -> Functions {
    let symbols = "ffffffff81000000 T tcp_sendmsg\nffffffff81001000 T memcpy\n";
    Functions::new(
        KernelSymbols::parse(symbols),
        Rules::builtin().expect("valid"),
    )
}

#[derive(Clone, Debug)]
enum Step {
    Block(usize),
    Data(u32),
    Device(u32),
    Flush,
    Frame,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Lines of pages in one set of a translation buffer, each in another set of the caches.
    let one_set = (0..6_u32).prop_map(|number| number * 16 * 64 + number);
    let line = prop_oneof![
        3 => (0..40_u32).prop_map(|line| line * 64),
        2 => 0..9000_u32,
        2 => one_set,
    ];
    let step = prop_oneof![
        8 => line.clone().prop_map(Step::Data),
        4 => (0..3_usize).prop_map(Step::Block),
        1 => line.prop_map(Step::Device),
        1 => Just(Step::Flush),
        1 => Just(Step::Frame),
    ];
    prop::collection::vec(step, 1..800)
}

fn parameters() -> impl Strategy<Value = ModelParameters> {
    let policy = prop_oneof![
        Just(Policy::Inclusive),
        Just(Policy::Exclusive),
        Just(Policy::NonInclusive)
    ];
    let writes = prop_oneof![
        Just(DeviceWrites::None),
        Just(DeviceWrites::Invalidate),
        Just(DeviceWrites::Allocate)
    ];
    (policy, any::<bool>(), any::<bool>(), writes).prop_map(
        |(policy, next_line_prefetch, translates, device_writes)| {
            let size = |size_kib, ways| CacheSize { size_kib, ways };
            let translation = TranslationParameters {
                entries: 32,
                ways: 2,
            };
            ModelParameters {
                first: vec![size(8, 2), size(4, 1)],
                second: vec![size(16, 4), size(64, 16)],
                policy,
                next_line_prefetch,
                translation: translates.then_some(translation),
                device_writes,
            }
        },
    )
}

/// The window of the observer, and its recording.
fn observe(model: &ModelParameters, steps: &[Step], filters: bool, by: By) -> (Window, Vec<u8>) {
    let file = Shared::default();
    let filter = if filters {
        RecordFilter::LinesAndPages
    } else {
        RecordFilter::None
    };
    let settings = ObserverSettings {
        model: model.clone(),
        sharing: None,
        by,
        filters_recording: filters,
        turn_instructions: 0,
    };
    let recorder = Recorder::new(Box::new(file.clone()), filter);
    let mut observer = Observer::new(settings, Some(recorder), None).expect("possible");
    observer.count_frames();
    let mut functions = functions();
    let mut blocks: Vec<_> = [KERNEL, KERNEL + 0x1000, 0x40_0000]
        .iter()
        .map(|address| {
            let lines: Vec<_> = (0..6)
                .map(|next| Line((*address as u32 >> 6) + next))
                .collect();
            Block::new(functions.at(*address), 7, &lines, 0)
        })
        .collect();
    observer.attach().expect("possible");
    for (index, step) in steps.iter().enumerate() {
        if index == steps.len() / 3 {
            observer.start("test".to_owned(), None);
        }
        match step {
            Step::Block(index) => observer.block(&mut blocks[*index]),
            Step::Data(line) => {
                observer.count_data();
                observer.data(Line(*line));
            }
            Step::Device(line) => observer.device_write(u64::from(*line) * 64, 300),
            Step::Flush => observer.flush_translations(),
            Step::Frame => observer.moved(0, 1, 1),
        }
    }
    let window = observer.stop(Guest::default(), &functions);
    observer.finish().expect("written");
    let bytes = file.0.borrow().clone();
    (window, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_replay_equals_the_observer(
        parameters in parameters(),
        steps in steps(),
        by in prop_oneof![Just(By::Layer), Just(By::Function)],
    ) {
        let filters = parameters.policy != Policy::Inclusive;
        let (window, bytes) = observe(&parameters, &steps, filters, by);
        let recording = Recording::new(&bytes).expect("a recording");
        prop_assert_eq!(replay(recording, &parameters).expect("whole"), vec![window]);
    }

    #[test]
    fn a_filter_changes_no_count(parameters in parameters(), steps in steps()) {
        let (filtered, _) = observe(&parameters, &steps, true, By::Layer);
        let (all, _) = observe(&parameters, &steps, false, By::Layer);
        prop_assert_eq!(filtered, all);
    }

    #[test]
    fn a_whole_recording_has_the_misses_of_naive_inclusive_caches(
        steps in steps(),
        next_line_prefetch in any::<bool>(),
        allocates in any::<bool>(),
    ) {
        let size = |size_kib, ways| CacheSize { size_kib, ways };
        let (first, second) = (size(1, 2), [size(2, 2), size(4, 4)]);
        let parameters = ModelParameters {
            first: vec![first],
            second: second.to_vec(),
            policy: Policy::Inclusive,
            next_line_prefetch,
            translation: Some(TranslationParameters { entries: 64, ways: 4 }),
            device_writes: if allocates { DeviceWrites::Allocate } else { DeviceWrites::Invalidate },
        };
        let (window, bytes) = observe(&parameters, &steps, false, By::Layer);
        let recording = Recording::new(&bytes).expect("a recording");
        for (index, second) in second.iter().enumerate() {
            let naive = Naive::new(first, *second, Policy::Inclusive, next_line_prefetch);
            let expected = naive_counts(recording, naive, parameters.device_writes);
            prop_assert_eq!(Counts::of(&window, index), expected);
        }
    }

    #[test]
    fn a_part_of_a_recording_is_an_error(steps in steps(), cut in 0..1000_usize) {
        let parameters = ModelParameters::default();
        let (_, bytes) = observe(&parameters, &steps, true, By::Layer);
        let part = &bytes[..bytes.len() * cut / 1000];
        let error = Recording::new(part).and_then(|part| replay(part, &parameters)).err();
        let is_expected =
            matches!(error, Some(RecordingError::Format | RecordingError::Truncated { .. }));
        prop_assert!(is_expected, "{:?}", error);
    }

    #[test]
    fn a_changed_byte_is_an_error(steps in steps(), place in 0..1000_usize, bit in 0..8_u32) {
        let parameters = ModelParameters::default();
        let (_, mut bytes) = observe(&parameters, &steps, true, By::Layer);
        let place = bytes.len() * place / 1000;
        bytes[place] ^= 1_u8 << bit;
        // Byte 12 is the filter. A changed bit may make it another valid filter.
        let result = Recording::new(&bytes).and_then(|all| replay(all, &parameters));
        prop_assert!(result.is_err() || place == 12, "byte {}", place);
    }
}

/// A window of a real kernel: `data/README.md` has the command.
fn fixture() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bulk.rec");
    fs::read(path).expect("the fixture")
}

#[test]
fn a_recorded_kernel_has_the_misses_of_naive_caches() {
    let bytes = fixture();
    let recording = Recording::new(&bytes).expect("a recording");
    let size = |size_kib, ways| CacheSize { size_kib, ways };
    let (first, second) = (size(16, 4), [size(128, 8), size(256, 16)]);
    for (policy, next_line_prefetch, device_writes) in [
        (Policy::NonInclusive, false, DeviceWrites::Invalidate),
        (Policy::NonInclusive, true, DeviceWrites::Allocate),
        (Policy::Exclusive, true, DeviceWrites::Allocate),
    ] {
        let parameters = ModelParameters {
            first: vec![first],
            second: second.to_vec(),
            policy,
            next_line_prefetch,
            translation: Some(TranslationParameters {
                entries: 64,
                ways: 4,
            }),
            device_writes,
        };
        let window = replay(recording, &parameters).expect("whole").remove(0);
        for (index, second) in second.iter().enumerate() {
            let naive = Naive::new(first, *second, policy, next_line_prefetch);
            let expected = naive_counts(recording, naive, device_writes);
            assert_eq!(
                Counts::of(&window, index),
                expected,
                "{policy:?} {second:?}"
            );
            assert!(
                expected.second.iter().all(|misses| *misses > 100),
                "{expected:?}"
            );
        }
    }
}

#[test]
fn a_recording_of_several_chunks_lacks_no_write_of_a_device() {
    // The card writes a few lines, which the processor then reads. A chunk has some 100,000 events, so
    // chunks end at each kind of event.
    let steps: Vec<_> = (0..120_000_u32)
        .flat_map(|number| {
            let line = number.wrapping_mul(2_654_435_761) % 100;
            [
                Step::Device(line),
                Step::Data(line),
                Step::Data(line + 1),
                Step::Block(0),
            ]
        })
        .collect();
    let parameters = ModelParameters::default();
    let (window, bytes) = observe(&parameters, &steps, true, By::Layer);
    assert!(bytes.len() > 4 << 18);
    let recording = Recording::new(&bytes).expect("a recording");
    assert_eq!(replay(recording, &parameters).expect("whole"), [window]);
}

#[test]
fn a_window_of_responses_begins_and_ends_with_one() {
    let settings = ObserverSettings {
        model: ModelParameters::default(),
        sharing: None,
        by: By::Layer,
        filters_recording: true,
        turn_instructions: 0,
    };
    let mut observer = Observer::new(settings, None, None).expect("possible");
    let mut functions = functions();
    let mut block = Block::new(functions.at(KERNEL), 7, &[Line(5)], 0);
    observer.count_frames();
    observer.attach().expect("possible");
    observer.start_at_request("test".to_owned(), 3, 4, false);
    for number in 1..20 {
        observer.block(&mut block);
        observer.responds(if number == 5 { 404 } else { 200 });
        observer.moved(0, 2, 1);
        assert_eq!(observer.is_frozen(), number >= 7);
        if observer.is_frozen() {
            break;
        }
    }
    let window = observer.stop(Guest::default(), &functions);
    // Responses 3 to 6, with the blocks between response 3 and response 7.
    assert_eq!(Vec::from_iter(window.responses), [(200, 3), (404, 1)]);
    assert_eq!(window.instructions, 4 * 7);
    let frames = window.frames.expect("counted");
    assert_eq!((frames.sent, frames.received), (8, 4));
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    first: [u64; 2],
    second: [u64; 2],
    translation: [u64; 2],
}

impl Counts {
    /// The misses of a window with the second level `index`.
    fn of(window: &Window, index: usize) -> Self {
        let sum = |pick: fn(&perpacket_emulate::Count) -> &Vec<u64>| {
            window.counts.iter().map(|count| pick(count)[index]).sum()
        };
        Self {
            first: [
                sum(|count| &count.l1i_misses),
                sum(|count| &count.l1d_misses),
            ],
            second: [
                sum(|count| &count.l2i_misses),
                sum(|count| &count.l2d_misses),
            ],
            translation: [
                window.counts.iter().map(|count| count.itlb_misses).sum(),
                window.counts.iter().map(|count| count.dtlb_misses).sum(),
            ],
        }
    }
}

fn naive_counts(recording: Recording<'_>, mut naive: Naive, writes: DeviceWrites) -> Counts {
    let mut counts = Counts::default();
    let mut buffers = [Sets::new(16, 4), Sets::new(16, 4)];
    let mut is_counting = false;
    for chunk in recording.chunks() {
        let Chunk::Events(events) = chunk.expect("whole") else {
            continue;
        };
        for event in events {
            match event {
                Event::Access(side, line) => {
                    let (first, second) = naive.access(side, line.0);
                    let (translation, _) = buffers[side as usize].put(line.0 / 64);
                    if is_counting {
                        counts.first[side as usize] += u64::from(first);
                        counts.second[side as usize] += u64::from(second);
                        counts.translation[side as usize] += u64::from(translation);
                    }
                }
                Event::DeviceWrite(first, lines) => {
                    (first.0..first.0 + lines).for_each(|line| match writes {
                        DeviceWrites::None => {}
                        DeviceWrites::Invalidate => naive.invalidate(line),
                        DeviceWrites::Allocate => naive.allocate(line),
                    });
                }
                Event::Flush => buffers.iter_mut().for_each(Sets::clear),
                Event::Mark(mark) => is_counting = mark == Mark::Start,
                _ => {}
            }
        }
    }
    counts
}

#[test]
fn a_filtered_recording_refuses_caches_that_need_every_access() {
    let bytes = fixture();
    let recording = Recording::new(&bytes).expect("a recording");
    let inclusive = ModelParameters {
        policy: Policy::Inclusive,
        ..ModelParameters::default()
    };
    let error = replay(recording, &inclusive).expect_err("inclusive");
    assert_eq!(
        error.to_string(),
        "inclusive caches: the recording lacks the repeated accesses that this needs; expected \
         exclusive or non-inclusive ones"
    );
    assert!(error.next_step().contains("with these caches"));
    let small = ModelParameters {
        first: vec![CacheSize {
            size_kib: 4,
            ways: 8,
        }],
        ..ModelParameters::default()
    };
    let error = replay(recording, &small).expect_err("8 sets").to_string();
    assert!(error.starts_with("a first level of 8 sets: "), "{error}");
}
