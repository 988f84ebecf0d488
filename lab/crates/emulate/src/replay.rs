//! Simulates other caches with the accesses of a recording.

use perpacket_memory::{Action, Policy, Protocol, SharedLevel, Side, Touch};

use crate::caches::Caches;
use crate::model::ModelParameters;
use crate::recording::{
    BUFFER_SETS, Chunk, Detail, Event, Events, FIRST_SETS, Mark, RecordFilter, Recording,
    RecordingError,
};
use crate::sharing::SharingParameters;
use crate::window::Window;

/// The windows of a recording with these caches, as the running machine would have counted them.
///
/// If it has several processors, they have no third level, and MESI keeps their caches coherent.
///
/// # Errors
///
/// The recording is damaged or truncated, or it lacks accesses that these caches depend on.
pub fn replay(
    recording: Recording<'_>,
    parameters: &ModelParameters,
) -> Result<Vec<Window>, RecordingError> {
    replay_coherent(recording, parameters, None, Protocol::default())
}

/// The same, with a third level and a protocol for the caches of several processors.
///
/// # Errors
///
/// As [`replay`].
pub fn replay_coherent(
    recording: Recording<'_>,
    parameters: &ModelParameters,
    shared: Option<SharedLevel>,
    protocol: Protocol,
) -> Result<Vec<Window>, RecordingError> {
    check_filter(recording.filter(), parameters)?;
    let several = |processors| SharingParameters {
        processors,
        shared,
        protocol,
    };
    let sharing = recording.processors().map(several);
    let mut replayer = Replayer {
        caches: Caches::new(parameters, sharing.as_ref())?,
        instructions: Vec::new(),
    };
    let mut windows = Vec::new();
    for chunk in recording.chunks() {
        match chunk? {
            Chunk::Events(events) => replayer.run(events)?,
            Chunk::Window(facts) => {
                windows.push(Window::new(
                    &facts,
                    &replayer.caches,
                    &replayer.instructions,
                ));
            }
        }
    }
    Ok(windows)
}

/// Whether the accesses that the filter dropped cannot change these caches.
fn check_filter(filter: RecordFilter, parameters: &ModelParameters) -> Result<(), RecordingError> {
    if filter == RecordFilter::None {
        return Ok(());
    }
    let lacking = |what, expected| Err(RecordingError::Filtered { what, expected });
    if parameters.policy == Policy::Inclusive {
        return lacking(
            "inclusive caches".to_owned(),
            "exclusive or non-inclusive ones",
        );
    }
    let sets = parameters.least_first_sets();
    if sets < FIRST_SETS {
        return lacking(format!("a first level of {sets} sets"), "at least 64 sets");
    }
    match parameters
        .translation
        .map(|buffer| buffer.sets())
        .transpose()?
    {
        Some(sets) if sets < BUFFER_SETS => lacking(
            format!("a translation buffer of {sets} sets"),
            "at least 16 sets",
        ),
        _ => Ok(()),
    }
}

struct Replayer {
    caches: Caches,
    instructions: Vec<u64>,
}

impl Replayer {
    fn run(&mut self, events: Events<'_>) -> Result<(), RecordingError> {
        let mut row = 0;
        let mut detail = Detail::default();
        self.reserve(row);
        for event in events {
            match event {
                Event::Access(side, line) => {
                    let action = match side {
                        Side::Instruction => Action::Fetch,
                        Side::Data if detail.is_store => Action::Store,
                        Side::Data => Action::Load,
                    };
                    let touch = Touch {
                        action,
                        line,
                        words: detail.words,
                    };
                    self.caches
                        .access(usize::from(detail.processor), touch, row);
                }
                Event::Detail(own) => detail = own,
                Event::Row(number) => {
                    row = number;
                    self.reserve(row);
                }
                Event::Instructions(number) => self.instructions[row] += number,
                Event::Flush => self
                    .caches
                    .flush_translations(usize::from(detail.processor)),
                Event::DeviceWrite(first, lines) => {
                    for number in first.0..first.0.saturating_add(lines) {
                        self.caches.device_write(perpacket_memory::Line(number));
                    }
                }
                Event::Mark(mark) => self.mark(mark)?,
                Event::Sent | Event::Received => {}
            }
        }
        Ok(())
    }

    fn reserve(&mut self, row: usize) {
        if row >= self.instructions.len() {
            self.instructions.resize(row + 1, 0);
            self.caches.reserve(row + 1);
        }
    }

    fn mark(&mut self, mark: Mark) -> Result<(), RecordingError> {
        match mark {
            Mark::Attach => {
                self.caches.reset()?;
                self.caches.reserve(self.instructions.len());
            }
            Mark::Start => {
                self.caches.start_counting();
                self.instructions.fill(0);
            }
            Mark::Stop => self.caches.end_counting(),
        }
        Ok(())
    }
}
