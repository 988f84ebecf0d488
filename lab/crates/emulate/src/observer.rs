//! Watches the server's processors of a running machine.

use std::collections::BTreeMap;
use std::io;

use perpacket_memory::{Action, Filter, Line, ParameterError, Side, Touch};

use crate::block::Block;
use crate::caches::Caches;
use crate::context::Context;
use crate::extent::Rest;
use crate::functions::Functions;
use crate::meetings::{Event, Meetings, Met};
use crate::options::ObserverSettings;
use crate::processors::{Others, Own};
use crate::recording::{BUFFER_SETS, FIRST_SETS, Mark, Operation, Recorder};
use crate::rows::{By, Rows};
use crate::structures::{KernelMemory, Structures};
use crate::tracker::Tracker;
use crate::window::{Facts, Frames, Guest, QueueFrames, Window};

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

/// The caches, layers and counts of the server's processors of a running machine.
///
/// The emulator reports which processor runs ([`run`](Self::run)), and then each of its blocks, loads
/// and stores, calls and returns, and each write of the network card. Lines have physical addresses.
#[derive(Debug)]
pub struct Observer {
    settings: ObserverSettings,
    tracker: Tracker,
    caches: Caches,
    rows: Rows,
    /// The counts of the processor that runs.
    own: Own,
    /// The processors that do not run.
    others: Others,
    /// The filters of lines, by side.
    lines: [Filter; 2],
    /// The filters of pages, if a translation buffer or a recording depends on pages.
    pages: Option<[Filter; 2]>,
    /// Whether the filters may drop an access.
    filters: bool,
    /// With several processors, the last line of code in this turn.
    fetched: Option<Line>,
    dma_lines: u64,
    frames: Option<Frames>,
    /// Frames of each queue, if there are several processors.
    queues: Vec<QueueFrames>,
    meetings: Meetings,
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
        let caches = Caches::new(&settings.model, settings.sharing.as_ref())?;
        let records_all = recorder.is_some() && !settings.filters_recording;
        let pages = settings.model.translation.is_some() || recorder.is_some();
        // A store of another processor changes what an access does, so none repeats another.
        let is_shared = settings.sharing.is_some();
        let filters = settings.model.allows_filters() && !records_all && !is_shared;
        let processors = settings.sharing.as_ref().map_or(0, |own| own.processors);
        // A recording must contain the accesses that smaller caches depend on.
        let sets = match recorder {
            None if filters => settings.model.least_first_sets(),
            _ => FIRST_SETS,
        };
        let by_side = |sets| [Filter::new(sets), Filter::new(sets)];
        Ok(Self {
            tracker: Tracker::default(),
            caches,
            rows: Rows::new(settings.by),
            own: Own::default(),
            others: Others::new(processors),
            lines: by_side(sets),
            pages: pages.then(|| by_side(BUFFER_SETS)),
            filters,
            fetched: None,
            dma_lines: 0,
            frames: None,
            queues: Vec::new(),
            meetings: Meetings::default(),
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
        self.caches.reserve(rows);
        self.own.reserve(rows);
    }

    /// From now on the processor with this number runs. There are several processors.
    pub fn run(&mut self, processor: usize) {
        self.others.run(processor, &mut self.tracker, &mut self.own);
        self.fetched = None;
        self.own.reserve(self.rows.len());
    }

    /// Whether several processors are watched. Then the emulator must report each load and store by
    /// [`touch`](Self::touch).
    #[inline]
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.settings.sharing.is_some()
    }

    /// Whether a processor is watched at all.
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
        self.caches.reset()?;
        self.tracker = Tracker::default();
        self.clear_filters();
        self.stage = Stage::Warm;
        self.requests = 0;
        self.mark(Mark::Attach);
        self.own.row = self.rows.of(Functions::UNKNOWN, Context::UNCLAIMED);
        self.others.reset(self.own.row);
        debug_assert!(self.settings.by != By::Structure || self.own.row == UNPLACED);
        self.reserve();
        if let Some(recorder) = &mut self.recorder {
            recorder.instructions(self.own.row, 0);
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
        self.caches.start_counting();
        self.own.zero();
        self.others.zero();
        self.queues.fill(QueueFrames::default());
        self.meetings.counts = Met::default();
        self.dma_lines = 0;
        self.responses_by_status.clear();
    }

    /// Ends the window and the observation. Returns the result.
    pub fn stop(&mut self, guest: Guest, functions: &Functions) -> Window {
        if self.stage == Stage::Counting {
            self.mark(Mark::Stop);
        }
        self.stage = Stage::Detached;
        self.caches.end_counting();
        let processors = self.others.facts(&self.own, &self.rows);
        let sum = self.others.sum(&self.own);
        let facts = Facts {
            label: std::mem::take(&mut self.label),
            frames: self.frames,
            guest,
            turn_instructions: self.settings.turn_instructions,
            data_accesses: sum.data_accesses,
            returns: self.tracker.returns(),
            responses: std::mem::take(&mut self.responses_by_status),
            dma_lines: self.dma_lines,
            rows: self.rows.names(functions, self.structures.as_ref()),
            processors,
            queues: self.queues.clone(),
            meetings: self.is_shared().then_some(self.meetings.counts),
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.window(&facts);
        }
        let mut window = Window::new(&facts, &self.caches, &sum.instructions);
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
        self.fetched = None;
        self.lines.iter_mut().for_each(Filter::clear);
        self.pages.iter_mut().flatten().for_each(Filter::clear);
    }

    /// The processor begins a block.
    #[inline]
    pub fn block(&mut self, block: &mut Block) {
        if block.work.is_hardware_entry {
            self.tracker.interrupt();
            self.own.interrupts += u64::from(!block.work.is_exception);
        }
        match block.entered {
            Some((from, context, row))
                if from == self.tracker.current() && !self.tracker.is_at_driver_call() =>
            {
                self.tracker.set(context);
                self.own.row = row as usize;
            }
            _ => self.enter(block),
        }
        let instructions = u64::from(block.instructions);
        self.own.instructions[self.own.row] += instructions;
        self.own.data_accesses += u64::from(block.repeated);
        if let Some(recorder) = &mut self.recorder {
            recorder.instructions(self.own.row, instructions);
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
        self.own.instructions[self.own.row] -= rest.instructions;
        self.own.data_accesses -= rest.repeated;
        if let Some(recorder) = &mut self.recorder {
            recorder.leave(rest.instructions);
        }
    }

    #[inline]
    fn fetch(&mut self, line: Line) {
        if self.is_shared() {
            // The line that the processor fetched last changes nothing.
            if self.fetched.replace(line) == Some(line) && self.recorder.is_none() {
                return;
            }
            let touch = Touch {
                action: Action::Fetch,
                line,
                words: 0,
            };
            self.share(touch, self.own.row);
        } else if !self.repeats(Side::Instruction, line) {
            self.charge(Side::Instruction, line, self.own.row);
        }
    }

    /// Charges an access of one of several processors to a row; returns whether it had effects.
    #[inline]
    fn share(&mut self, touch: Touch, row: usize) -> bool {
        let processor = self.others.running();
        if let Some(recorder) = &mut self.recorder {
            recorder.touch(processor, touch, self.own.row);
        }
        self.caches.access(processor, touch, row).missed
    }

    #[inline(never)]
    fn enter(&mut self, block: &mut Block) {
        let from = self.tracker.current();
        let is_usual = !self.tracker.is_at_driver_call();
        self.tracker.enter(&block.work);
        let context = self.tracker.current();
        self.own.row = self.rows.of(block.function, context);
        self.reserve();
        block.entered = is_usual.then_some((from, context, self.own.row as u32));
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
        self.own.data_accesses += 1;
    }

    /// A load or store of memory.
    #[inline]
    pub fn data(&mut self, line: Line) {
        if !self.repeats(Side::Data, line) {
            self.charge(Side::Data, line, self.own.row);
        }
    }

    /// Charges an access to a row; returns whether a cache missed.
    #[inline]
    fn charge(&mut self, side: Side, line: Line, row: usize) -> bool {
        if let Some(recorder) = &mut self.recorder {
            recorder.access(side, line);
        }
        let action = match side {
            Side::Instruction => Action::Fetch,
            Side::Data => Action::Load,
        };
        let touch = Touch {
            action,
            line,
            words: 0,
        };
        let outcome = self.caches.access(0, touch, row);
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
        if self.charge(Side::Data, line, UNPLACED) {
            self.place(address, memory);
        }
    }

    /// Charges the last miss of data to the structure at a virtual address.
    #[inline(never)]
    fn place(&mut self, address: u64, memory: &impl KernelMemory) {
        let stack = self.tracker.stack();
        if let Some(structures) = &mut self.structures {
            let place = structures.of(address, stack, memory);
            let row = self.rows.of_place(place, self.own.row);
            self.reserve();
            self.caches.move_data_misses(UNPLACED, row);
        }
    }

    /// A load or store at a virtual address by one of several processors. If structures are counted, a
    /// miss is charged to the structure at the address.
    #[inline]
    pub fn touch(&mut self, address: u64, touch: Touch, memory: &impl KernelMemory) {
        let by_structure = self.structures.is_some();
        let row = if by_structure { UNPLACED } else { self.own.row };
        if self.share(touch, row) && by_structure {
            self.place(address, memory);
        }
    }

    /// Whether a load of one of several processors changes nothing.
    #[inline]
    #[must_use]
    pub fn repeats_load(&self, line: Line) -> bool {
        self.recorder.is_none() && self.caches.repeats_load(self.others.running(), line)
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

    /// A function of the kernel begins. `socket` is its first argument.
    pub fn happens(&mut self, event: Event, socket: u64) {
        self.own.polls += u64::from(event == Event::Poll);
        self.meetings.happens(event, socket, self.others.running());
    }

    /// The processor dropped its translations.
    pub fn flush_translations(&mut self) {
        self.clear_filters();
        self.caches.flush_translations(self.others.running());
        if let Some(recorder) = &mut self.recorder {
            recorder.flush(self.others.running());
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
            self.caches.device_write(Line(number));
            if let Some(recorder) = &mut self.recorder {
                recorder.device_write(Line(number));
            }
        }
    }

    /// A queue of the card moved frames.
    pub fn moved(&mut self, queue: usize, sent: u64, received: u64) {
        if !self.is_watching() {
            return;
        }
        let is_shared = self.is_shared();
        let Some(frames) = &mut self.frames else {
            return;
        };
        if is_shared {
            if self.queues.len() <= queue {
                self.queues.resize(queue + 1, QueueFrames::default());
            }
            self.queues[queue].sent += sent;
            self.queues[queue].received += received;
        }
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
