//! Watches one processor of a running machine.

use std::collections::BTreeMap;
use std::io;

use perpacket_memory::{Filter, Line, ParameterError, Side};

use crate::context::Context;
use crate::extent::Rest;
use crate::functions::{Function, Functions, Work};
use crate::model::{Model, ModelParameters};
use crate::recording::{BUFFER_SETS, FIRST_SETS, Mark, Operation, Recorder};
use crate::rows::{By, Rows};
use crate::structures::{KernelMemory, Structures};
use crate::tracker::Tracker;
use crate::window::{Facts, Frames, Guest, Window};

/// Lines of a block that are stored in it; most blocks have fewer.
const OWN_LINES: usize = 4;

/// A block of code that the processor runs from its first to its last instruction.
///
/// This structure has the size of one cache line of the machine that runs the emulation. The blocks
/// of a whole kernel do not fit into that machine's caches, so one block must not use two lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Block {
    work: Work,
    function: Function,
    instructions: u32,
    /// When the processor last entered the block: the context before it, the context in it, and its
    /// row in the counts.
    entered: Option<(Context, Context, u32)>,
    /// Its accesses that are not reported, because they repeat others.
    repeated: u16,
    /// Lines of its code, by physical address: their number, the first ones, and the others.
    own_lines: u8,
    lines: [Line; OWN_LINES],
    #[expect(
        clippy::box_collection,
        reason = "a pointer of eight bytes, so that a block has 64 bytes"
    )]
    further_lines: Option<Box<Vec<Line>>>,
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// A block of code of one function.
    #[must_use]
    pub fn new(
        function: (Function, Work),
        instructions: u32,
        lines: &[Line],
        repeated: u16,
    ) -> Self {
        let (function, work) = function;
        let (own, further) = lines.split_at(lines.len().min(OWN_LINES));
        let mut first = [Line(0); OWN_LINES];
        first[..own.len()].copy_from_slice(own);
        Self {
            work,
            function,
            instructions,
            entered: None,
            repeated,
            own_lines: own.len() as u8,
            lines: first,
            further_lines: (!further.is_empty()).then(|| Box::new(further.to_vec())),
        }
    }

    /// Its instructions.
    #[must_use]
    pub const fn instructions(&self) -> u32 {
        self.instructions
    }
}

/// The stage of the observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is modelled.
    Detached,
    /// The model runs; its counts will be dropped.
    Warm,
    /// The model counts.
    Counting,
    /// The window has all its frames.
    Frozen,
}

/// The modelled caches, and the options of the report.
#[derive(Clone, Debug)]
pub struct ObserverSettings {
    /// The caches.
    pub model: ModelParameters,
    /// The division of costs besides the division by layer.
    pub by: By,
    /// Whether accesses that cannot change a cache are left out of the recording.
    pub filters_recording: bool,
    /// Instructions after which the emulator ends a processor's turn. It is only reported.
    pub turn_instructions: u64,
}

/// The caches, layers and counts of one processor of a running machine.
///
/// The emulator reports each block, each load and store, each call and return, and each write of the
/// network card. Lines have physical addresses.
#[derive(Debug)]
pub struct Observer {
    settings: ObserverSettings,
    tracker: Tracker,
    model: Model,
    rows: Rows,
    row: usize,
    /// Instructions by row.
    instructions: Vec<u64>,
    /// The filters of lines, by side.
    lines: [Filter; 2],
    /// The filters of pages, if a translation buffer or a recording depends on pages.
    pages: Option<[Filter; 2]>,
    /// Whether the filters may drop an access.
    filters: bool,
    data_accesses: u64,
    dma_lines: u64,
    frames: Option<Frames>,
    stage: Stage,
    label: String,
    /// HTTP responses of the window by status.
    responses_by_status: BTreeMap<u16, u64>,
    /// Whether a request is a call of a function, and not an HTTP response.
    counts_calls: bool,
    /// Requests since the observation began, those at which the window begins, and at which it ends.
    requests: u64,
    requests_from: Option<u64>,
    requests_to: Option<u64>,
    recorder: Option<Recorder>,
    /// The kernel's structures, if misses are counted by them.
    structures: Option<Structures>,
}

/// Lines in a page of 4 KiB.
const PAGE_LINES: u32 = 64;

/// If misses are counted by structure, the row of data misses whose structure is not known yet.
const UNPLACED: usize = 0;

impl Observer {
    /// An observer that does not watch its processor yet.
    ///
    /// # Errors
    ///
    /// Names the first parameter of the caches that is out of its range.
    pub fn new(
        settings: ObserverSettings,
        recorder: Option<Recorder>,
        structures: Option<Structures>,
    ) -> Result<Self, ParameterError> {
        let model = Model::new(&settings.model)?;
        let records_all = recorder.is_some() && !settings.filters_recording;
        let pages = settings.model.translation.is_some() || recorder.is_some();
        let filters = settings.model.allows_filters() && !records_all;
        // A recording must contain the accesses that smaller caches depend on.
        let sets = match recorder {
            None if filters => settings.model.least_first_sets(),
            _ => FIRST_SETS,
        };
        let by_side = |sets| [Filter::new(sets), Filter::new(sets)];
        Ok(Self {
            tracker: Tracker::default(),
            model,
            rows: Rows::new(settings.by),
            row: 0,
            instructions: Vec::new(),
            lines: by_side(sets),
            pages: pages.then(|| by_side(BUFFER_SETS)),
            filters,
            data_accesses: 0,
            dma_lines: 0,
            frames: None,
            stage: Stage::Detached,
            label: String::new(),
            responses_by_status: BTreeMap::new(),
            counts_calls: false,
            requests: 0,
            requests_from: None,
            requests_to: None,
            recorder,
            structures,
            settings,
        })
    }

    fn reserve(&mut self) {
        let rows = self.rows.len();
        self.model.reserve(rows);
        if self.instructions.len() < rows {
            self.instructions.resize(rows, 0);
        }
    }

    /// Whether the processor is watched at all.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.stage != Stage::Detached
    }

    /// Whether events of the processor have an effect.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        matches!(self.stage, Stage::Warm | Stage::Counting)
    }

    /// Whether a window has counted all its frames.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.stage == Stage::Frozen
    }

    /// From now on frames are counted, because the card is known.
    pub fn count_frames(&mut self) {
        self.frames.get_or_insert_default();
    }

    /// Begins to model, with empty caches.
    ///
    /// # Errors
    ///
    /// There is no error if [`new`](Self::new) accepted the parameters.
    pub fn attach(&mut self) -> Result<(), ParameterError> {
        self.model.reset()?;
        self.tracker = Tracker::default();
        self.clear_filters();
        self.stage = Stage::Warm;
        self.requests = 0;
        self.mark(Mark::Attach);
        self.row = self.rows.of(Functions::UNKNOWN, Context::UNCLAIMED);
        debug_assert!(self.settings.by != By::Structure || self.row == UNPLACED);
        self.reserve();
        if let Some(recorder) = &mut self.recorder {
            recorder.instructions(self.row, 0);
        }
        self.zero();
        Ok(())
    }

    /// Begins a window: zeroes the counts. `limit` is the number of frames at which counting ends.
    pub fn start(&mut self, label: String, limit: Option<u64>) {
        self.label = label;
        self.stage = Stage::Counting;
        self.mark(Mark::Start);
        self.zero();
        if let Some(frames) = &mut self.frames {
            *frames = Frames {
                limit,
                ..Frames::default()
            };
        }
    }

    /// Begins a window at the request `warmup` since the observation began. It ends before the request
    /// that comes `requests` later. A request is an HTTP response that the card begins to send, or with
    /// `counts_calls` a call of a function.
    pub fn start_at_request(
        &mut self,
        label: String,
        warmup: u64,
        requests: u64,
        counts_calls: bool,
    ) {
        self.label = label;
        if self.counts_calls != counts_calls {
            (self.counts_calls, self.requests) = (counts_calls, 0);
        }
        let begin = warmup.max(self.requests + 1);
        self.requests_from = Some(begin);
        self.requests_to = Some(begin + requests);
    }

    /// Requests since the observation began.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// The card begins to send an HTTP response.
    pub fn responds(&mut self, status: u16) {
        if self.is_watching() && !self.counts_calls {
            self.request();
        }
        if self.is_watching() {
            *self.responses_by_status.entry(status).or_default() += 1;
        }
    }

    /// The processor calls the function whose calls are requests.
    pub fn calls_counted(&mut self) {
        if self.is_watching() && self.counts_calls {
            self.request();
        }
    }

    /// A request begins, and with it the window, or the window ends.
    fn request(&mut self) {
        self.requests += 1;
        if self.requests_from.is_some_and(|from| self.requests >= from) {
            self.requests_from = None;
            let label = std::mem::take(&mut self.label);
            self.start(label, None);
        }
        if self.requests_to == Some(self.requests) {
            self.freeze();
        }
    }

    fn freeze(&mut self) {
        if let Some(frames) = &mut self.frames {
            frames.reached = true;
        }
        self.mark(Mark::Stop);
        self.stage = Stage::Frozen;
    }

    fn zero(&mut self) {
        self.model.start_counting();
        self.instructions.fill(0);
        self.data_accesses = 0;
        self.dma_lines = 0;
        self.responses_by_status.clear();
    }

    /// Ends the window and the observation. Returns the result.
    pub fn stop(&mut self, guest: Guest, functions: &Functions) -> Window {
        if self.stage == Stage::Counting {
            self.mark(Mark::Stop);
        }
        self.stage = Stage::Detached;
        let facts = Facts {
            label: std::mem::take(&mut self.label),
            frames: self.frames,
            guest,
            turn_instructions: self.settings.turn_instructions,
            data_accesses: self.data_accesses,
            returns: self.tracker.returns(),
            responses: std::mem::take(&mut self.responses_by_status),
            dma_lines: self.dma_lines,
            rows: self.rows.names(functions, self.structures.as_ref()),
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.window(&facts);
        }
        let mut window = Window::new(&facts, &self.model, &self.instructions);
        if let Some(structures) = &self.structures {
            window.members = structures.members();
        }
        window
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    ///
    /// The recording could not be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.recorder.take().map_or(Ok(()), Recorder::finish)
    }

    /// The first error of the recording. The call clears it, so that it is reported once.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.recorder.as_mut()?.take_error()
    }

    fn mark(&mut self, mark: Mark) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark(mark);
        }
    }

    fn clear_filters(&mut self) {
        self.lines.iter_mut().for_each(Filter::clear);
        self.pages.iter_mut().flatten().for_each(Filter::clear);
    }

    /// The processor begins a block.
    #[inline]
    pub fn block(&mut self, block: &mut Block) {
        if block.work.is_hardware_entry {
            self.tracker.interrupt();
        }
        match block.entered {
            Some((from, context, row))
                if from == self.tracker.current() && !self.tracker.is_at_driver_call() =>
            {
                self.tracker.set(context);
                self.row = row as usize;
            }
            _ => self.enter(block),
        }
        let instructions = u64::from(block.instructions);
        self.instructions[self.row] += instructions;
        self.data_accesses += u64::from(block.repeated);
        if let Some(recorder) = &mut self.recorder {
            recorder.instructions(self.row, instructions);
        }
        for line in block.lines.iter().take(usize::from(block.own_lines)) {
            self.fetch(*line);
        }
        if let Some(lines) = &block.further_lines {
            lines.iter().for_each(|line| self.fetch(*line));
        }
    }

    /// The processor left the last block before its end. The rest of it is not counted.
    ///
    /// The block's lines were fetched when it began, so the lines of the rest remain in the caches.
    pub fn leave(&mut self, rest: Rest) {
        self.instructions[self.row] -= rest.instructions;
        self.data_accesses -= rest.repeated;
        if let Some(recorder) = &mut self.recorder {
            recorder.leave(rest.instructions);
        }
    }

    #[inline]
    fn fetch(&mut self, line: Line) {
        if !self.repeats(Side::Instruction, line) {
            self.charge(Side::Instruction, line, self.row);
        }
    }

    #[inline(never)]
    fn enter(&mut self, block: &mut Block) {
        let from = self.tracker.current();
        let is_usual = !self.tracker.is_at_driver_call();
        self.tracker.enter(&block.work);
        let context = self.tracker.current();
        self.row = self.rows.of(block.function, context);
        self.reserve();
        block.entered = is_usual.then_some((from, context, self.row as u32));
    }

    /// Whether an access cannot change the caches, because it repeats an earlier one.
    #[inline]
    fn repeats(&mut self, side: Side, line: Line) -> bool {
        let repeats_line = self.lines[side as usize].repeats(line.0);
        let repeats_page = match &mut self.pages {
            Some(pages) => pages[side as usize].repeats(line.0 / PAGE_LINES),
            None => true,
        };
        repeats_line && repeats_page && self.filters
    }

    /// Whether an access need not be reported if it repeats others of its block. A recording needs it,
    /// and a translation buffer does: the others may be on two pages whose order matters.
    #[must_use]
    pub const fn drops_repeats(&self) -> bool {
        self.filters && self.structures.is_none() && self.pages.is_none()
    }

    /// Counts a load or store, of memory or of a device.
    #[inline]
    pub fn count_data(&mut self) {
        self.data_accesses += 1;
    }

    /// A load or store of memory.
    #[inline]
    pub fn data(&mut self, line: Line) {
        if !self.repeats(Side::Data, line) {
            self.charge(Side::Data, line, self.row);
        }
    }

    /// Charges an access to a row; returns whether a cache missed.
    #[inline]
    fn charge(&mut self, side: Side, line: Line, row: usize) -> bool {
        if let Some(recorder) = &mut self.recorder {
            recorder.access(side, line);
        }
        let outcome = self.model.access(side, line, row);
        if outcome.purged {
            self.clear_filters();
        }
        outcome.missed
    }

    /// Whether misses of data are counted by structure: then [`data_at`](Self::data_at) must be called.
    #[inline]
    #[must_use]
    pub const fn counts_structures(&self) -> bool {
        self.structures.is_some()
    }

    /// A load or store at a virtual address, in that physical line. A miss is charged to the
    /// structure at the address.
    pub fn data_at(&mut self, address: u64, line: Line, memory: &impl KernelMemory) {
        if self.repeats(Side::Data, line) {
            return;
        }
        let stack = self.tracker.stack();
        if self.charge(Side::Data, line, UNPLACED)
            && let Some(structures) = &mut self.structures
        {
            let place = structures.of(address, stack, memory);
            let row = self.rows.of_place(place, self.row);
            self.reserve();
            self.model.move_data_misses(UNPLACED, row);
        }
    }

    /// A call instruction stored its return address. `calls_drivers` is true if the function that
    /// contains the instruction calls network drivers.
    #[inline]
    pub fn call(&mut self, address: u64, calls_drivers: bool) {
        if calls_drivers {
            self.tracker.call_driver(address);
        } else {
            self.tracker.call(address);
        }
    }

    /// A return instruction loaded its return address.
    #[inline]
    pub fn ret(&mut self, address: u64) {
        self.tracker.ret(address);
    }

    /// The code at a hardware entry stores for the first time. The store's address shows where the
    /// processor stored its interrupt frame.
    pub fn interrupt_store(&mut self, address: u64) {
        self.tracker.interrupt_store(address);
    }

    /// A return from an interrupt begins.
    pub const fn interrupt_return_begins(&mut self) {
        self.tracker.interrupt_return_begins();
    }

    /// A return from an interrupt loaded from `address`.
    pub fn interrupt_return(&mut self, address: u64) {
        self.tracker.interrupt_return(address);
    }

    /// The processor dropped its translations.
    pub fn flush_translations(&mut self) {
        self.clear_filters();
        self.model.flush_translations();
        if let Some(recorder) = &mut self.recorder {
            recorder.happened(Operation::Flush);
        }
    }

    /// The card wrote `bytes` at the physical `address`.
    pub fn device_write(&mut self, address: u64, bytes: u64) {
        if bytes == 0 || !self.is_watching() {
            return;
        }
        self.clear_filters();
        for number in address >> 6..=(address + bytes - 1) >> 6 {
            let Ok(number) = u32::try_from(number) else {
                return;
            };
            self.dma_lines += 1;
            self.model.device_write(Line(number));
            if let Some(recorder) = &mut self.recorder {
                recorder.device_write(Line(number));
            }
        }
    }

    /// The card moved frames.
    pub fn moved(&mut self, sent: u64, received: u64) {
        if !self.is_watching() {
            return;
        }
        let Some(frames) = &mut self.frames else {
            return;
        };
        frames.sent += sent;
        frames.received += received;
        if let Some(recorder) = &mut self.recorder {
            for _ in 0..sent {
                recorder.happened(Operation::Sent);
            }
            for _ in 0..received {
                recorder.happened(Operation::Received);
            }
        }
        let all = frames.sent + frames.received;
        if self.stage == Stage::Counting && frames.limit.is_some_and(|limit| all >= limit) {
            self.freeze();
        }
    }
}
