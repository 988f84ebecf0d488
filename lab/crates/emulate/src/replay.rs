//! Simulates other caches with the accesses of a recording.

use perpacket_memory::Policy;

use crate::model::{Model, ModelParameters};
use crate::recording::{
    BUFFER_SETS, Chunk, Event, Events, FIRST_SETS, Mark, RecordFilter, Recording, RecordingError,
};
use crate::window::Window;

/// The windows of a recording with these caches, as the running machine would have counted them.
///
/// # Errors
///
/// The recording is damaged or truncated, or it lacks accesses that these caches depend on.
pub fn replay(
    recording: Recording<'_>,
    parameters: &ModelParameters,
) -> Result<Vec<Window>, RecordingError> {
    check_filter(recording.filter(), parameters)?;
    let mut replayer = Replayer {
        model: Model::new(parameters)?,
        instructions: Vec::new(),
    };
    let mut windows = Vec::new();
    for chunk in recording.chunks() {
        match chunk? {
            Chunk::Events(events) => replayer.run(events)?,
            Chunk::Window(facts) => {
                windows.push(Window::new(&facts, &replayer.model, &replayer.instructions));
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
    model: Model,
    instructions: Vec<u64>,
}

impl Replayer {
    fn run(&mut self, events: Events<'_>) -> Result<(), RecordingError> {
        let mut row = 0;
        self.reserve(row);
        for event in events {
            match event {
                Event::Access(side, line) => {
                    self.model.access(side, line, row);
                }
                Event::Row(number) => {
                    row = number;
                    self.reserve(row);
                }
                Event::Instructions(number) => self.instructions[row] += number,
                Event::Flush => self.model.flush_translations(),
                Event::DeviceWrite(first, lines) => {
                    for number in first.0..first.0.saturating_add(lines) {
                        self.model.device_write(perpacket_memory::Line(number));
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
            self.model.reserve(row + 1);
        }
    }

    fn mark(&mut self, mark: Mark) -> Result<(), RecordingError> {
        match mark {
            Mark::Attach => {
                self.model.reset()?;
                self.model.reserve(self.instructions.len());
            }
            Mark::Start => {
                self.model.start_counting();
                self.instructions.fill(0);
            }
            Mark::Stop => {}
        }
        Ok(())
    }
}
