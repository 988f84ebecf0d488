//! Writes a recording.

use std::io::{self, Write};

use perpacket_memory::{Action, Line, Side, Touch};

use super::repeated_words::RepeatedWords;
use super::{
    CHUNK_BYTES, DATA, Detail, END, EVENTS, INSTRUCTION, MAGIC, Mark, OPERATION, Operation, ROW,
    RecordFilter, SEVERAL, VALUE_BITS, VERSION, WINDOW, zigzag,
};
use crate::window::Facts;

/// Writes events to a file. Stores the first error, and writes nothing after it.
pub struct Recorder {
    sink: Box<dyn Write>,
    chunk: Vec<u8>,
    last: [i64; 2],
    row: usize,
    /// Instructions in the current row that are not written yet.
    instructions: u64,
    last_device_line: u64,
    /// The detail of the last access, and the filter, if several processors are recorded.
    detail: Detail,
    repeated: Option<RepeatedWords>,
    error: Option<io::Error>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Begins a recording of one processor.
    #[must_use]
    pub fn new(sink: Box<dyn Write>, filter: RecordFilter) -> Self {
        Self::begin(sink, VERSION, filter, 0)
    }

    /// Begins a recording of several processors.
    #[must_use]
    pub fn of_several(sink: Box<dyn Write>, processors: usize) -> Self {
        Self::begin(sink, SEVERAL, RecordFilter::Words, processors)
    }

    fn begin(sink: Box<dyn Write>, version: u32, filter: RecordFilter, processors: usize) -> Self {
        let mut recorder = Self {
            sink,
            chunk: Vec::with_capacity(CHUNK_BYTES + 64),
            last: [0; 2],
            row: 0,
            instructions: 0,
            last_device_line: 0,
            detail: Detail::default(),
            repeated: (version == SEVERAL).then(|| RepeatedWords::new(processors)),
            error: None,
        };
        let mut head = MAGIC.to_vec();
        head.extend(version.to_le_bytes());
        head.extend((filter as u32).to_le_bytes());
        if version == SEVERAL {
            head.extend((processors as u32).to_le_bytes());
        }
        recorder.write(&head);
        recorder.begin_chunk();
        recorder
    }

    /// The first error, once.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Code of `row` ran that many instructions.
    #[inline]
    pub fn instructions(&mut self, row: usize, instructions: u64) {
        if row != self.row {
            self.flush_instructions();
            self.row = row;
            self.event(ROW, row as u64);
        }
        self.instructions += instructions;
    }

    /// That many of the instructions that were reported last did not run. No operation may have been
    /// reported since.
    pub const fn leave(&mut self, instructions: u64) {
        self.instructions = self.instructions.saturating_sub(instructions);
    }

    /// One access of the current row.
    #[inline]
    pub fn access(&mut self, side: Side, line: Line) {
        let line = i64::from(line.0);
        let last = std::mem::replace(&mut self.last[side as usize], line);
        let tag = match side {
            Side::Instruction => INSTRUCTION,
            Side::Data => DATA,
        };
        self.event(tag, zigzag(line - last));
    }

    /// One access of one of several processors, by code of `row`.
    pub fn touch(&mut self, processor: usize, touch: Touch, row: usize) {
        let is_repeated = |all: &mut RepeatedWords| all.repeats(processor, touch);
        if self.repeated.as_mut().is_some_and(is_repeated) {
            return;
        }
        self.instructions(row, 0);
        let (side, detail) = match touch.action {
            // The words of a fetch do not matter.
            Action::Fetch => (Side::Instruction, self.detail),
            Action::Load | Action::Store => (
                Side::Data,
                Detail {
                    is_store: touch.action == Action::Store,
                    words: touch.words,
                    ..self.detail
                },
            ),
        };
        let detail = Detail {
            processor: processor as u8,
            ..detail
        };
        self.set_detail(detail);
        self.access(side, touch.line);
    }

    fn set_detail(&mut self, detail: Detail) {
        // The event may end a chunk, and the next one begins without a detail.
        while self.detail != detail {
            self.detail = detail;
            self.event(OPERATION, detail.number() << 3 | Operation::Detail as u64);
        }
    }

    /// A device wrote a line.
    pub fn device_write(&mut self, line: Line) {
        if let Some(repeated) = &mut self.repeated {
            repeated.forget(line);
        }
        // Both events below may begin a chunk, in which no line is the last one.
        self.flush_instructions();
        let line = u64::from(line.0);
        let last = std::mem::replace(&mut self.last_device_line, line);
        if line == last + 1 {
            self.operation(Operation::DeviceLines, 1);
        } else {
            self.operation(Operation::DeviceLine, line);
        }
    }

    /// A frame, or the loss of the translations.
    pub fn happened(&mut self, operation: Operation) {
        self.operation(operation, 0);
    }

    /// One of several processors dropped its translations.
    pub fn flush(&mut self, processor: usize) {
        if let Some(repeated) = &mut self.repeated {
            repeated.flush(processor);
        }
        let detail = Detail {
            processor: processor as u8,
            ..self.detail
        };
        self.flush_instructions();
        self.set_detail(detail);
        self.operation(Operation::Flush, 0);
    }

    /// A stage of a window.
    pub fn mark(&mut self, mark: Mark) {
        self.operation(Operation::Mark, mark as u64);
    }

    /// A window has ended.
    pub fn window(&mut self, facts: &Facts) {
        self.end_chunk();
        match serde_json::to_vec(facts) {
            Ok(json) => {
                self.chunk.clear();
                self.chunk.push(WINDOW);
                self.chunk.extend(json);
                self.end_chunk();
            }
            Err(error) => self.error = self.error.take().or(Some(error.into())),
        }
        self.begin_chunk();
        if let Err(error) = self.sink.flush() {
            self.error.get_or_insert(error);
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    ///
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_chunk();
        self.chunk.push(END);
        self.end_chunk();
        match self.error.take() {
            Some(error) => Err(error),
            None => self.sink.flush(),
        }
    }

    fn operation(&mut self, operation: Operation, argument: u64) {
        self.flush_instructions();
        self.event(OPERATION, argument << 3 | operation as u64);
    }

    fn flush_instructions(&mut self) {
        let instructions = std::mem::take(&mut self.instructions);
        if instructions > 0 {
            self.event(
                OPERATION,
                instructions << 3 | Operation::Instructions as u64,
            );
        }
    }

    #[inline]
    fn event(&mut self, tag: u64, value: u64) {
        let size = VALUE_BITS
            .iter()
            .position(|bits| value < 1 << bits)
            .unwrap_or(3);
        let word = tag | (size as u64) << 2 | value << 4;
        let bytes = word.to_le_bytes();
        self.chunk.extend_from_slice(&bytes[..super::LENGTHS[size]]);
        if self.chunk.len() >= CHUNK_BYTES {
            self.end_chunk();
            self.begin_chunk();
        }
    }

    fn begin_chunk(&mut self) {
        self.chunk.push(EVENTS);
        self.last = [0; 2];
        self.detail = Detail::default();
        self.last_device_line = u64::MAX - 1;
        if self.row != 0 {
            let word = ROW | 3 << 2 | (self.row as u64) << 4;
            self.chunk
                .extend_from_slice(&word.to_le_bytes()[..super::LENGTHS[3]]);
        }
    }

    fn end_chunk(&mut self) {
        // A chunk without events is not written.
        if self.chunk != [EVENTS] {
            let chunk = std::mem::take(&mut self.chunk);
            let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            let mut head = length.to_le_bytes().to_vec();
            head.extend(crc32fast::hash(&chunk).to_le_bytes());
            self.write(&head);
            self.write(&chunk);
            self.chunk = chunk;
        }
        self.chunk.clear();
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.sink.write_all(bytes).err();
        }
    }
}
