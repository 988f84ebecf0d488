//! The host's processor: it runs operations, accesses their lines in the caches and charges layers.

mod arrays;
mod rings;

pub use arrays::Population;

use perpacket_cost::Layer;
use perpacket_memory::{Hierarchy, Line};

use super::address::{Array, DividedLines, FirstLines, Layout, PageTable, scattered, shuffled};
use super::cost::{Cost, Costs};
use super::footprint::{Footprint, Operation, Structure, Structures, Touch};
use super::front_end::{FrontEnd, FrontEndCost};
use crate::connection::ConnectionId;
use crate::error::ConfigurationError;
use crate::settings::{FetchKind, Interrupt, Machine};
use crate::time::{Clock, Span, Time};
use arrays::Arrays;
use rings::Rings;

/// A buffer to which the NIC writes received frames. Numbers are not reused.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiveBuffer(u32);

/// A buffer for data to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Mbuf(u32);

/// The first physical line of the region with the shared structure. All pages have lower lines.
const SHARED: u32 = 1 << 30;

const OF_CONNECTION: [Structure; 8] = [
    Structure::File,
    Structure::Socket,
    Structure::Inpcb,
    Structure::Tcpcb,
    Structure::Record,
    Structure::Heap,
    Structure::PcbHash,
    Structure::Callout,
];

/// Physical first lines of a connection's structures, looked up once when it is created.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLines {
    index: u32,
    lines: [Line; OF_CONNECTION.len()],
}

impl Default for ConnectionLines {
    fn default() -> Self {
        Self {
            index: 0,
            lines: [Line(0); OF_CONNECTION.len()],
        }
    }
}

/// Lines of one array that are touched one after another. Successive lines are never neighbours,
/// because they represent scattered data, for which a prefetch of the next line does not help.
struct Rotation {
    /// Physical lines in the order of their touches. The list has all lines twice, so that any
    /// sequence of next lines is one slice.
    order: Box<[Line]>,
    lines: usize,
    position: usize,
}

impl Rotation {
    fn new(array: Array, pages: &PageTable) -> Self {
        /// Larger than a page. A prime that does not divide the number of lines reaches each of them,
        /// and no number of lines is a multiple of all.
        const STRIDES: [u64; 6] = [67, 71, 73, 79, 83, 89];
        let lines = u64::from(array.lines());
        let is_scattered = |stride: &u64| {
            !lines.is_multiple_of(*stride)
                && (2..lines.saturating_sub(1)).contains(&(stride % lines))
        };
        // Six lines, for example, have no such order.
        let stride = STRIDES.into_iter().find(is_scattered).unwrap_or(1);
        let line = |step: u64| array.line(0) + (step * stride % lines) as u32;
        Self {
            order: (0..2 * lines)
                .map(|step| pages.physical(line(step)))
                .collect(),
            lines: lines as usize,
            position: 0,
        }
    }

    /// The next `count` lines. `count` must not exceed the number of lines.
    #[inline]
    fn next(&mut self, count: usize) -> &[Line] {
        let first = self.position;
        let end = first + count;
        self.position = end.checked_sub(self.lines).unwrap_or(end);
        &self.order[first..end]
    }
}

/// One line of the current instance of a structure.
#[derive(Clone, Copy, Debug)]
struct StructureLine {
    structure: Structure,
    offset: u32,
}

/// A range of the lines of an operation. A rotation supplies these lines.
#[derive(Clone, Copy, Debug)]
struct RotationRange {
    rotation: usize,
    first: usize,
    end: usize,
}

/// A prepared operation: a list of its lines, so that a single call of the memory accesses all of
/// them.
struct Plan {
    layer: Layer,
    instructions: u64,
    /// Cycles without stalls.
    base_cycles: u64,
    /// In the order of the touches. `rotations` marks the lines of a rotation.
    lines: Box<[StructureLine]>,
    rotations: Box<[RotationRange]>,
    /// Lines of the shared structure, after those of `lines`.
    shared: Box<[DividedLines]>,
    /// Touches that access another structure part by part. Their lines follow those of `shared`.
    divided: Box<[Touch]>,
}

impl Plan {
    /// The plan of an operation; `shared` has the lines of the shared structure.
    fn new(footprint: &Footprint, cycles_per_instruction: f64, shared: &[Line]) -> Self {
        let mut lines = Vec::new();
        let mut rotations = Vec::new();
        let whole = |touch: &&Touch| touch.every == 1 && !touch.structure.is_scattered();
        for touch in footprint.touches.iter().filter(whole) {
            let first = lines.len();
            lines.extend((touch.first..touch.end).map(|offset| StructureLine {
                structure: touch.structure,
                offset: offset * touch.structure.spacing(),
            }));
            rotations.extend(touch.rotation.map(|rotation| RotationRange {
                rotation,
                first,
                end: lines.len(),
            }));
        }
        Self {
            layer: footprint.layer,
            instructions: footprint.instructions,
            base_cycles: (footprint.instructions as f64 * cycles_per_instruction).round() as u64,
            lines: lines.into(),
            rotations: rotations.into(),
            shared: footprint.touches_of(Structure::Shared, shared),
            divided: footprint
                .touches
                .iter()
                .filter(|touch| touch.every > 1 && !touch.structure.is_scattered())
                .copied()
                .collect(),
        }
    }

    /// The largest number of lines of one call.
    fn most(&self) -> usize {
        let shared = self.shared.iter().map(DividedLines::most);
        let divided = self
            .divided
            .iter()
            .map(|touch| (touch.end - touch.first) as usize);
        self.lines.len() + shared.chain(divided).sum::<usize>()
    }
}

/// The processor.
pub struct Cpu {
    clock: Clock,
    memory: Hierarchy,
    front_end: FrontEnd,
    /// By `Operation as usize`.
    plans: Box<[Plan]>,
    /// Room for the lines of the current operation.
    lines: Box<[Line]>,
    interrupt: Interrupt,
    /// The profiler's cost of a frame.
    profiler: Cost,
    arrays: Arrays<FirstLines>,
    rotations: [Rotation; 2],
    rx_buffer_lines: u32,
    rings: Rings,
    /// Physical first line of the current instance, by structure.
    bases: [Line; Structure::ALL.len()],
    free_mbufs: Vec<Mbuf>,
    /// The number of buffers, free or not.
    mbufs: u32,
    free_connections: Vec<u32>,
    /// Cycles since the start of the run.
    now: u64,
    started: (Time, u64),
    costs: Costs,
    /// The operations of the work that began last, and the cycles at which each ended. Recorded only
    /// if interrupts preempt.
    ended: Option<Vec<(u64, Operation)>>,
}

/// What an interrupt interrupts.
#[derive(Clone, Copy, Debug)]
pub enum Interrupted {
    /// A processor without work.
    Idle,
    /// A processor between two operations, or one whose interrupts count for no operation.
    Busy,
    Operation(Operation),
}

/// The machine's caches, empty, or the parameter that is impossible.
pub fn hierarchy(machine: &Machine) -> Result<Hierarchy, ConfigurationError> {
    let memory = Hierarchy::new(&machine.hierarchy())
        .map(|memory| memory.with_device_writes(machine.first_read_cycles));
    let memory = if machine.l1i.size_kib > 0 {
        memory.and_then(|memory| memory.with_instruction_cache(machine.l1i))
    } else {
        memory
    };
    memory.map_err(|error| {
        // The memory crate counts levels; the data files name them.
        let name = error
            .parameter
            .replace("levels[0]", "l1d")
            .replace("levels[1]", "l2");
        ConfigurationError::new(format!("machine.{name}"), error.value, error.allowed)
    })
}

impl Cpu {
    /// A processor with empty caches.
    pub fn new(
        machine: &Machine,
        footprints: &[Footprint],
        structures: &Structures,
        population: Population,
        profiler_instructions: u32,
        seed: u64,
    ) -> Result<Self, ConfigurationError> {
        let memory = hierarchy(machine)?;
        let mut layout = Layout::default();
        let arrays = Arrays::lay_out(&mut layout, footprints, structures, population);
        let background = layout.array(1, structures.background, 1);
        let stream = layout.array(1, structures.stream, 1);
        let kernel = layout.array(1, structures.kernel, 1);
        let process = layout.array(1, structures.process, 1);
        let pages = layout.place(seed);
        let shared: Vec<_> = scattered(structures.shared, seed ^ 3)
            .into_iter()
            .map(|number| Line(SHARED + number))
            .collect();
        let plans: Box<[Plan]> = footprints
            .iter()
            .map(|footprint| Plan::new(footprint, machine.cycles_per_instruction, &shared))
            .collect();
        let most = plans.iter().map(Plan::most).max().unwrap_or(0);
        let arrays = arrays.place(&pages);
        let mut bases = [Line(0); Structure::ALL.len()];
        bases[Structure::Kernel as usize] = pages.physical(kernel.line(0));
        bases[Structure::Process as usize] = pages.physical(process.line(0));
        Ok(Self {
            clock: Clock::from_mhz(machine.clock_mhz),
            memory,
            front_end: FrontEnd::new(machine, footprints, structures, seed)?,
            plans,
            lines: vec![Line(0); most].into(),
            interrupt: machine.interrupt,
            profiler: Cost {
                instructions: u64::from(profiler_instructions),
                cycles: (f64::from(profiler_instructions) * machine.cycles_per_instruction).round()
                    as u64,
                ..Cost::default()
            },
            rotations: [background, stream].map(|array| Rotation::new(array, &pages)),
            rx_buffer_lines: structures.rx_buffer,
            rings: Rings::new(machine, footprints, structures),
            bases,
            mbufs: arrays.count(Structure::Mbuf),
            free_mbufs: shuffled(arrays.count(Structure::Mbuf), seed ^ 1)
                .into_iter()
                .map(Mbuf)
                .collect(),
            free_connections: shuffled(arrays.count(Structure::Socket), seed ^ 2),
            arrays,
            now: 0,
            started: (Time::ZERO, 0),
            costs: [Cost::default(); Operation::ALL.len()],
            ended: (machine.interrupt.is_on && machine.interrupt.preempts).then(Vec::new),
        })
    }

    /// Begins work at `time`.
    pub fn begin(&mut self, time: Time) {
        let cycles = self.clock.cycles_at(time).max(self.now);
        self.now = cycles;
        self.started = (time, cycles);
        if let Some(ended) = &mut self.ended {
            ended.clear();
        }
    }

    /// The operation under way at `time`, in the work that began last, if interrupts have delayed
    /// that work by `delay` cycles so far.
    pub fn operation_at(&self, time: Time, delay: u64) -> Option<Operation> {
        let (started, cycles) = self.started;
        let passed = self.clock.cycles(time.since(started));
        let at = cycles + passed.saturating_sub(delay);
        let ended = self.ended.as_ref()?;
        let current = ended.partition_point(|&(end, _)| end <= at);
        ended
            .get(current)
            .or(ended.last())
            .map(|&(_, operation)| operation)
    }

    /// Cycles since the start of the run.
    pub const fn cycles(&self) -> u64 {
        self.now
    }

    /// The time that `cycles` cycles take.
    pub const fn span(&self, cycles: u64) -> Span {
        self.clock.span(cycles)
    }

    /// The current time, in the work that began last.
    pub fn time(&self) -> Time {
        let (time, cycles) = self.started;
        time + self.clock.span(self.now - cycles)
    }

    /// The costs of the operations so far.
    pub const fn costs(&self) -> &Costs {
        &self.costs
    }

    pub fn layer(&self, operation: Operation) -> Layer {
        self.plans[operation as usize].layer
    }

    pub fn cycles_per_second(&self) -> f64 {
        self.clock.cycles_per_second()
    }

    /// Runs an operation on the current instances.
    pub fn run(&mut self, operation: Operation) {
        let plan = &self.plans[operation as usize];
        let call = self.costs[operation as usize].calls;
        let mut count = plan.lines.len();
        for shared in &plan.shared {
            let part = shared.of_call(call);
            self.lines[count..count + part.len()].copy_from_slice(part);
            count += part.len();
        }
        for touch in &plan.divided {
            for offset in touch.of_call(call) {
                let offset = offset * touch.structure.spacing();
                self.lines[count] = Line(self.bases[touch.structure as usize].0 + offset);
                count += 1;
            }
        }
        let lines = &mut self.lines[..count];
        for (line, planned) in lines.iter_mut().zip(&plan.lines) {
            *line = Line(self.bases[planned.structure as usize].0 + planned.offset);
        }
        for range in &plan.rotations {
            let count = range.end - range.first;
            lines[range.first..range.end]
                .copy_from_slice(self.rotations[range.rotation].next(count));
        }
        let front = if self.front_end.is_free() {
            FrontEndCost::default()
        } else {
            self.front_end
                .run(operation, call, lines, &mut self.memory, self.now)
        };
        let tally = self.memory.access_all(lines, self.now + front.stall_cycles);
        let cycles = front.stall_cycles + tally.stall_cycles + plan.base_cycles;
        self.now += cycles;
        let cost = &mut self.costs[operation as usize];
        cost.calls += 1;
        cost.cycles += cycles;
        cost.instructions += plan.instructions;
        cost.l1d_misses += tally.misses[0];
        cost.l2_misses += tally.misses[1];
        cost.fetch_misses += front.fetch_misses;
        cost.fetch_l2_misses += front.fetch_l2_misses;
        cost.tlb_misses += front.tlb_misses;
        if let Some(ended) = &mut self.ended {
            ended.push((self.now, operation));
        }
    }

    /// Charges the costs that every frame has besides the operations of its layers: the operation
    /// `other.background`, and the profiler.
    pub fn run_per_frame(&mut self) {
        self.run(Operation::Background);
        self.now += self.profiler.cycles;
        let other = &mut self.costs[Operation::Background as usize];
        other.cycles += self.profiler.cycles;
        other.instructions += self.profiler.instructions;
    }

    /// Whether an operation has a cost.
    pub fn is_counted(&self, operation: Operation) -> bool {
        self.plans[operation as usize].instructions > 0
    }

    /// Entry and return of an interrupt, with accesses to the interrupt controller. They count for
    /// the interrupted operation, if that is part of the kernel.
    pub fn enter_interrupt(&mut self, interrupted: Interrupted) {
        let before = self.costs[Operation::Interrupt as usize];
        self.run(Operation::Interrupt);
        let cycles = match interrupted {
            Interrupted::Idle => self.interrupt.from_idle_cycles,
            _ => self.interrupt.access_cycles,
        };
        self.stall(Operation::Interrupt, cycles.into());
        if let Interrupted::Operation(interrupted) = interrupted
            && self.layer(interrupted) != Layer::User
        {
            let cost = &mut self.costs[Operation::Interrupt as usize];
            let added = cost.since(&before);
            let calls = cost.calls;
            *cost = Cost { calls, ..before };
            self.costs[interrupted as usize].add(&Cost { calls: 0, ..added });
        }
    }

    /// The driver's handler of an interrupt, which waits for a register of the NIC.
    pub fn run_handler(&mut self, wait: Span) {
        self.run(Operation::DriverInterrupt);
        self.stall(Operation::DriverInterrupt, self.clock.cycles(wait));
    }

    /// Charges cycles in which an operation waits.
    fn stall(&mut self, operation: Operation, cycles: u64) {
        self.now += cycles;
        self.costs[operation as usize].cycles += cycles;
    }

    /// Fetches the lines of an operation before they are needed; `kind` selects prefetches or
    /// loads.
    pub fn run_fetch(&mut self, operation: Operation, kind: FetchKind) {
        match kind {
            FetchKind::Prefetch => self.run_prefetch(operation),
            FetchKind::Load => self.run(operation),
        }
    }

    /// Issues prefetches of an operation's lines. The cost is that of its instructions.
    fn run_prefetch(&mut self, operation: Operation) {
        let plan = &self.plans[operation as usize];
        for planned in &plan.lines {
            let line = Line(self.bases[planned.structure as usize].0 + planned.offset);
            self.memory.prefetch(line, self.now);
        }
        self.now += plan.base_cycles;
        let cost = &mut self.costs[operation as usize];
        cost.calls += 1;
        cost.cycles += plan.base_cycles;
        cost.instructions += plan.instructions;
    }

    /// Memory for a new connection's structures.
    pub fn allocate_connection(&mut self, connection: ConnectionId) -> ConnectionLines {
        let number = connection.number();
        let index = self.free_connections.pop().unwrap_or(number);
        // Spreads connections over the buckets as a hash of ports and addresses does.
        let hash = number.wrapping_mul(0x9E37_79B1);
        let lines = OF_CONNECTION.map(|structure| {
            let index = match structure {
                Structure::PcbHash => hash >> 8,
                Structure::Callout => hash >> 12,
                _ => index,
            };
            self.arrays.line(structure, index)
        });
        ConnectionLines { index, lines }
    }

    /// Frees a connection's memory; the next connection gets it.
    pub fn free_connection(&mut self, lines: ConnectionLines) {
        self.free_connections.push(lines.index);
    }

    /// The following operations are on this connection.
    #[inline]
    pub fn at_connection(&mut self, connection: &ConnectionLines) {
        for (structure, line) in OF_CONNECTION.iter().zip(&connection.lines) {
            self.bases[*structure as usize] = *line;
        }
    }

    /// The following operations are on an instance of a structure.
    #[inline]
    fn at(&mut self, structure: Structure, index: u32) {
        self.bases[structure as usize] = self.arrays.line(structure, index);
    }

    /// The following operations are on this file.
    pub fn at_object(&mut self, object: u32) {
        self.at(Structure::Object, object);
    }

    /// A buffer for data to be sent: the one freed last.
    pub fn allocate_mbuf(&mut self) -> Mbuf {
        // If there are more buffers than addresses, further buffers share the addresses of earlier
        // ones.
        let mbuf = self.free_mbufs.pop().unwrap_or_else(|| {
            self.mbufs += 1;
            Mbuf(self.mbufs - 1)
        });
        self.at_mbuf(mbuf);
        mbuf
    }

    /// The following operations are on this buffer.
    pub fn at_mbuf(&mut self, mbuf: Mbuf) {
        self.at(Structure::Mbuf, mbuf.0);
    }

    /// The following operations are on the buffer that will be allocated after `skipped` others.
    pub fn at_free_mbuf(&mut self, skipped: usize) {
        let free = &self.free_mbufs;
        if let Some(&mbuf) = free
            .len()
            .checked_sub(1 + skipped)
            .map(|index| &free[index])
        {
            self.at_mbuf(mbuf);
        }
    }

    /// Frees a buffer.
    pub fn free_mbuf(&mut self, mbuf: Mbuf) {
        self.free_mbufs.push(mbuf);
    }
}
