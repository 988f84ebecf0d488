//! Compares replays of recordings of several processors with the counts of the run, and with the naive
//! model of coherence, access by access.
#![allow(missing_docs, clippy::expect_used)]

#[path = "../../memory/tests/naive_coherence/mod.rs"]
mod naive_coherence;

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::rc::Rc;

use naive_coherence::{NaiveCoherence, Step};
use perpacket_emulate::recording::{Chunk, Detail, Event, Mark, Recorder, Recording};
use perpacket_emulate::{
    Caches, Context, DeviceWrites, Facts, ModelParameters, RowName, SharingParameters, Window,
    replay_coherent,
};
use perpacket_memory::{
    Action, CacheSize, Coherent, CoherentParameters, Effects, Line, Policy, Protocol, SharedLevel,
    Side, Touch, TranslationParameters,
};
use proptest::prelude::*;

/// A file that the test can read while the recorder owns it.
#[derive(Clone, Default)]
struct File(Rc<RefCell<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PROCESSORS: usize = 3;
const ROWS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Happening {
    Touch(usize, Touch, usize),
    Device(u32),
    Flush(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let action = prop_oneof![
        1 => Just(Action::Fetch),
        4 => Just(Action::Load),
        3 => Just(Action::Store),
    ];
    let line = prop_oneof![
        6 => 0..5_u32,
        3 => (0..40_u32).prop_map(|line| line * 64),
        1 => 0..9000_u32,
    ];
    let words = (0..8_u32).prop_map(|word| 1_u8 << word);
    let touch = (0..PROCESSORS, action, line.clone(), words, 0..ROWS).prop_map(
        |(processor, action, line, words, row)| {
            let line = Line(line);
            let touch = Touch {
                action,
                line,
                words,
            };
            Happening::Touch(processor, touch, row)
        },
    );
    let happening = prop_oneof![
        40 => touch,
        1 => line.prop_map(Happening::Device),
        1 => (0..PROCESSORS).prop_map(Happening::Flush),
    ];
    prop::collection::vec(happening, 1..900)
}

fn size(size_kib: u32, ways: u32) -> CacheSize {
    CacheSize { size_kib, ways }
}

/// First levels of 64 sets, so that the filter of recordings applies.
fn model(translates: bool) -> ModelParameters {
    let buffer = TranslationParameters {
        entries: 32,
        ways: 2,
    };
    ModelParameters {
        first: vec![size(8, 2), size(4, 1)],
        second: vec![size(8, 1), size(16, 16)],
        policy: Policy::NonInclusive,
        next_line_prefetch: false,
        translation: translates.then_some(buffer),
        device_writes: DeviceWrites::Invalidate,
    }
}

fn facts() -> Facts {
    let contexts = Context::all().take(ROWS);
    let rows = contexts.map(|context| RowName {
        context,
        function: None,
        structure: None,
    });
    Facts {
        label: "test".to_owned(),
        frames: None,
        guest: perpacket_emulate::Guest::default(),
        turn_instructions: 0,
        data_accesses: 0,
        returns: perpacket_emulate::Returns::default(),
        responses: std::collections::BTreeMap::new(),
        dma_lines: 0,
        rows: rows.collect(),
        processors: Vec::new(),
        queues: Vec::new(),
        meetings: None,
    }
}

/// The window of the caches that saw everything, and the recording.
fn observe(
    model: &ModelParameters,
    sharing: &SharingParameters,
    happenings: &[Happening],
) -> (Window, Vec<u8>) {
    let file = File::default();
    let mut recorder = Recorder::of_several(Box::new(file.clone()), PROCESSORS);
    let mut caches = Caches::new(model, Some(sharing)).expect("possible");
    caches.reserve(ROWS);
    recorder.mark(Mark::Attach);
    for (index, happening) in happenings.iter().enumerate() {
        if index == happenings.len() / 3 {
            recorder.mark(Mark::Start);
            caches.start_counting();
        }
        match *happening {
            Happening::Touch(processor, touch, row) => {
                recorder.touch(processor, touch, row);
                caches.access(processor, touch, row);
            }
            Happening::Device(line) => {
                recorder.device_write(Line(line));
                caches.device_write(Line(line));
            }
            Happening::Flush(processor) => {
                recorder.flush(processor);
                caches.flush_translations(processor);
            }
        }
    }
    recorder.mark(Mark::Stop);
    caches.end_counting();
    let facts = facts();
    recorder.window(&facts);
    let window = Window::new(&facts, &caches, &[0; ROWS]);
    recorder.finish().expect("written");
    let bytes = file.0.borrow().clone();
    (window, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_replay_of_several_processors_has_the_counts_of_the_run(
        happenings in happenings(),
        translates in any::<bool>(),
        has_shared in any::<bool>(),
        protocol in prop_oneof![Just(Protocol::Mesi), Just(Protocol::Moesi)],
    ) {
        let shared = has_shared.then_some(SharedLevel { size: size(32, 4), processors: 2 });
        let sharing = SharingParameters { processors: PROCESSORS, shared, protocol };
        let model = model(translates);
        let (window, bytes) = observe(&model, &sharing, &happenings);
        let recording = Recording::new(&bytes).expect("a recording");
        let replayed = replay_coherent(recording, &model, shared, protocol).expect("whole");
        prop_assert_eq!(&replayed[..], &[window]);
    }
}

/// The accesses and device writes of a recording, in order.
fn events(bytes: &[u8]) -> Vec<Happening> {
    let recording = Recording::new(bytes).expect("a recording");
    let mut found = Vec::new();
    for chunk in recording.chunks() {
        let Chunk::Events(events) = chunk.expect("whole") else {
            continue;
        };
        let mut detail = Detail::default();
        for event in events {
            match event {
                Event::Detail(own) => detail = own,
                Event::Access(side, line) => {
                    let action = match side {
                        Side::Instruction => Action::Fetch,
                        Side::Data if detail.is_store => Action::Store,
                        Side::Data => Action::Load,
                    };
                    let words = detail.words;
                    let touch = Touch {
                        action,
                        line,
                        words,
                    };
                    found.push(Happening::Touch(detail.processor.into(), touch, 0));
                }
                Event::DeviceWrite(first, lines) => {
                    found.extend((first.0..first.0 + lines).map(Happening::Device));
                }
                _ => {}
            }
        }
    }
    found
}

/// The effects of each access in the only size of the second level.
fn steps(parameters: &CoherentParameters, happenings: &[Happening]) -> Vec<Step> {
    let mut caches = Coherent::new(parameters).expect("possible");
    let mut steps: Vec<Step> = Vec::new();
    for happening in happenings {
        match *happening {
            Happening::Touch(processor, touch, _) => {
                let effects = if caches.access(processor, touch) {
                    *caches.effects()
                } else {
                    Effects::default()
                };
                if effects.open_sizes != 0 {
                    let number = u32::try_from(steps.len()).expect("a short recording");
                    caches.tag(processor, touch.line, number);
                }
                if let Some(resolved) = effects.resolved {
                    steps[resolved.tag as usize].is_true_sharing = Some(resolved.true_sizes != 0);
                }
                steps.push(Step {
                    first_missed: effects.first_missed,
                    miss: effects.misses[0],
                    is_upgrade: effects.upgraded_sizes != 0,
                    invalidated: effects.invalidated[0],
                    is_true_sharing: (effects.true_sizes != 0).then_some(true),
                });
            }
            Happening::Device(line) => caches.invalidate(Line(line)),
            Happening::Flush(_) => {}
        }
    }
    steps
}

/// A window of a real kernel on several processors: `data/README.md` has the command.
fn fixture() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/steering.rec");
    fs::read(path).expect("the fixture")
}

#[test]
fn a_recorded_kernel_has_the_effects_of_the_naive_model_to_the_last_access() {
    let bytes = fixture();
    let processors = Recording::new(&bytes)
        .expect("a recording")
        .processors()
        .expect("several processors");
    let happenings = events(&bytes);
    for (second, shared, protocol) in [
        (size(64, 8), None, Protocol::Mesi),
        (
            size(32, 16),
            Some(SharedLevel {
                size: size(256, 16),
                processors: 2,
            }),
            Protocol::Moesi,
        ),
    ] {
        let parameters = CoherentParameters {
            processors: u32::try_from(processors).expect("few"),
            first: size(8, 2),
            second: vec![second],
            shared,
            protocol,
        };
        let mut naive = NaiveCoherence::new(
            parameters.processors,
            parameters.first,
            second,
            shared,
            protocol,
        );
        for happening in &happenings {
            match *happening {
                Happening::Touch(processor, touch, _) => naive.access(processor, touch),
                Happening::Device(line) => naive.device_writes(line, false),
                Happening::Flush(_) => {}
            }
        }
        let steps = steps(&parameters, &happenings);
        let differing = (0..steps.len()).find(|index| steps[*index] != naive.steps[*index]);
        assert_eq!(steps.len(), naive.steps.len());
        if let Some(first) = differing {
            assert_eq!(steps[first], naive.steps[first], "access {first}");
        }
        let moved = steps.iter().filter_map(|step| step.miss);
        let moved = moved.filter(|miss| miss.is_modified).count();
        assert!(moved > 100, "{moved} modified lines moved");
    }
}
