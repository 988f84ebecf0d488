// SPDX-License-Identifier: GPL-2.0-or-later
//! The plugin's state: options, observer, card, and the turn of the running processor.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::ptr;

use perpacket_cost::{KernelSymbols, Rules};
use perpacket_emulate::card::{Card, CardEvents, Family};
use perpacket_emulate::recording::{RecordFilter, Recorder};
use perpacket_emulate::{
    Block, By, Event, Functions, KernelMemory, Observer, ObserverSettings, Options, Structures,
    interrupt_frame,
};
use perpacket_memory::{Action, Line, Touch, words};

use crate::api::{
    MemoryInfo, PluginId, qemu_plugin_get_hwaddr, qemu_plugin_hwaddr_is_io,
    qemu_plugin_hwaddr_phys_addr, qemu_plugin_mem_get_value, qemu_plugin_mem_is_store,
    qemu_plugin_mem_size_shift,
};
use crate::machine::{CardBus, Machine, Processor};
use crate::registers::FirstArgument;
use crate::report;
use crate::translate::{rest_after, rest_from};

/// Exit status of QEMU after an error of the plugin.
const FAILED: i32 = 71;

/// Number of pages whose physical addresses are stored.
const PAGES: usize = 4096;

/// Bytes of a line.
const LINE_BYTES: u64 = 64;
/// Length of the longest access of a processor without AVX, in bytes.
const ACCESS_BYTES: u64 = 16;
/// Size of a card's registers in bytes.
const REGISTER_BYTES: u64 = 0x2_0000;

/// An error, and the next step for the user.
#[derive(Debug)]
pub struct Failure {
    /// The fault.
    pub error: String,
    /// The next step.
    pub hint: &'static str,
}

/// The physical address of a virtual page.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Bits 24 to 55 of its virtual address. The index of the entry has the lower bits. The higher
    /// bits are equal to bit 47, as in every address of a processor with four levels of page tables.
    tag: u32,
    first_line: Line,
}

/// An unused entry. No address has bit 55 alone.
const NO_PAGE: Page = Page {
    tag: 1 << 31,
    first_line: Line(0),
};

impl Page {
    /// The index and the tag of the page of a virtual address.
    const fn place(address: u64) -> (usize, u32) {
        ((address >> 12) as usize % PAGES, (address >> 24) as u32)
    }
}

/// What is known about one of the server's processors.
#[derive(Debug)]
struct Known {
    pages: Box<[Page; PAGES]>,
    begun: *const Block,
    entered: *const Block,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            pages: Box::new([NO_PAGE; PAGES]),
            begun: ptr::null(),
            entered: ptr::null(),
        }
    }
}

/// Facts of the run that no result depends on.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// Whether the clients' processor has its own blocks.
    pub separate: bool,
    /// Processor time that this process had used at the start of the window.
    pub began_s: f64,
    /// Number of watched blocks that the clients' processor ran.
    pub foreign_blocks: u64,
}

/// The plugin.
#[derive(Debug)]
pub struct Plugin {
    pub id: PluginId,
    pub options: Options,
    pub functions: Functions,
    pub observer: Observer,
    /// The machine. `None` until its processors run.
    pub machine: Option<Machine>,
    /// The physical address of the card's registers, and its kind.
    pub registers: Option<(u64, Family)>,
    pub card: Option<Card>,
    pub out: File,
    pub dump: Option<BufWriter<File>>,
    /// The part of the guest's new symbols that it has sent.
    pub new_symbols: Vec<u8>,
    pub diagnosis: Diagnosis,
    /// Whether the running block belongs to a processor of the server and is watched.
    pub is_active: bool,
    /// The block that the server's processor began last, or null. It is only compared.
    pub begun: *const Block,
    /// The entry of an exception that has not stored yet, or null. It is only compared.
    pub entered: *const Block,
    /// The processor of the last turn; none before the machine is found.
    last: Option<Processor>,
    /// Whether it is one of the server's.
    server_runs: bool,
    /// The number of the server's processor that ran last.
    server: usize,
    /// What is known about the server's other processors. The entry of the one that ran last is not
    /// used.
    others: Vec<Known>,
    /// The processors that have run in this round of turns, as bits.
    round: u32,
    /// Those that ran in the round before: they are expected to run in this one.
    round_before: u32,
    /// Whether the clients have run since the card was looked at: only they send it frames.
    client_ran: bool,
    /// Instructions left in this turn.
    turn_left: i64,
    pages: Box<[Page; PAGES]>,
    /// The register of a function's first argument, once it was needed.
    first_argument: Option<FirstArgument>,
    /// The address at which the next block begins, if the last instruction of a block was the long nop
    /// that marks a request.
    pub after_mark: Option<u64>,
    /// The address of the function whose calls are requests, if there is one.
    pub counted: Option<u64>,
}

impl Plugin {
    /// Reads and opens the files of the options.
    pub fn new(id: PluginId, options: Options) -> Result<Self, Failure> {
        let symbols = match &options.symbols {
            Some(path) => KernelSymbols::parse(&String::from_utf8_lossy(&read(path)?)),
            None => KernelSymbols::default(),
        };
        if let Some(path) = &options.symbols
            && symbols.is_empty()
        {
            return Err(Failure {
                error: format!("{}: no function has an address", path.display()),
                hint: "use a kernel that is built with CONFIG_KALLSYMS; if this kernel is, \
                       `perpacket emulate prepare --remove` removes the stored guests",
            });
        }
        let rules = match &options.rules {
            Some(path) => {
                let text = String::from_utf8_lossy(&read(path)?).into_owned();
                Rules::with_file(&path.display().to_string(), &text)
            }
            None => Rules::builtin(),
        };
        let rules = rules.map_err(|error| Failure {
            error: error.to_string(),
            hint: "docs/howto/rules.md explains the format",
        })?;
        let structures = match &options.types {
            Some(path) if options.by == By::Structure => {
                let symbols = options.symbols.as_deref().map(read).transpose()?;
                let symbols = String::from_utf8_lossy(symbols.as_deref().unwrap_or_default());
                let processors = options.server_processors();
                let types = read(path)?;
                let structures = Structures::new(&types, &symbols, processors);
                let mut structures = structures.map_err(no_structures)?;
                if let Some(path) = &options.program {
                    structures.name_program(&String::from_utf8_lossy(&read(path)?));
                }
                Some(structures)
            }
            None if options.by == By::Structure => {
                return Err(no_structures("the option `types` is missing"));
            }
            _ => None,
        };
        let filters_recording = options.filters_recording && options.model.allows_filters();
        let recorder = match (&options.record, &options.sharing) {
            (Some(path), Some(sharing)) => {
                let file = Box::new(create(path)?);
                Some(Recorder::of_several(file, sharing.processors))
            }
            (Some(path), None) => {
                let filter = if filters_recording {
                    RecordFilter::LinesAndPages
                } else {
                    RecordFilter::None
                };
                Some(Recorder::new(Box::new(create(path)?), filter))
            }
            (None, _) => None,
        };
        let settings = ObserverSettings {
            model: options.model.clone(),
            sharing: options.sharing.clone(),
            by: options.by,
            filters_recording,
            turn_instructions: options.turn_instructions,
        };
        let observer = Observer::new(settings, recorder, structures).map_err(|error| Failure {
            error: error.to_string(),
            hint: "change l1, l2 or tlb",
        })?;
        Ok(Self {
            id,
            out: create(&options.out)?,
            dump: None,
            new_symbols: Vec::new(),
            functions: Functions::new(symbols, rules).dividing_user(options.maps.is_some()),
            observer,
            machine: None,
            registers: None,
            card: None,
            diagnosis: Diagnosis::default(),
            is_active: false,
            begun: ptr::null(),
            entered: ptr::null(),
            last: None,
            server_runs: true,
            server: 0,
            others: (0..options.server_processors())
                .map(|_| Known::default())
                .collect(),
            round: 0,
            round_before: 0,
            client_ran: true,
            turn_left: 0,
            pages: Box::new([NO_PAGE; PAGES]),
            first_argument: None,
            after_mark: None,
            counted: None,
            options,
        })
    }

    /// Ends QEMU after an error that makes every result wrong.
    pub fn fail(&mut self, error: &str, hint: &str) -> ! {
        report(error, hint);
        let line = serde_json::json!({"version": 1, "error": error, "hint": hint});
        // Ignore a failed write, because the error has been reported.
        let _ = writeln!(self.out, "{line}");
        // SAFETY: this ends the process at once. QEMU's own exit function would wait for the thread
        // that runs this code.
        unsafe { libc::_exit(FAILED) }
    }

    /// The machine's processors and memory. The first call finds them.
    pub fn machine(&mut self) -> &Machine {
        let machine = match self.machine.take() {
            Some(machine) => machine,
            None => match Machine::find(self.options.server_processors()) {
                Ok(machine) => {
                    self.last = Some(machine.first());
                    machine
                }
                Err(lacks) => self.fail(
                    &format!("this QEMU {lacks}"),
                    "use QEMU 10.0 or newer from packages of Debian or Ubuntu",
                ),
            },
        };
        self.machine.insert(machine)
    }

    /// Records that a processor runs `instructions` instructions. Returns whether it is one of the
    /// server's.
    #[inline]
    pub fn turn(&mut self, instructions: u32) -> bool {
        let Some(machine) = &self.machine else {
            return false;
        };
        let running = machine.running();
        if Some(running) != self.last {
            self.change_turn(running);
        }
        self.turn_left -= i64::from(instructions);
        if self.turn_left < 0 {
            self.end_turn();
        }
        self.server_runs
    }

    #[inline(never)]
    fn change_turn(&mut self, running: Processor) {
        self.last = Some(running);
        self.turn_left = self.options.turn_instructions as i64;
        let server = self
            .machine
            .as_ref()
            .and_then(|machine| machine.server(running));
        self.server_runs = server.is_some();
        self.give_turn();
        match server {
            Some(server) => {
                self.change_server(server);
                if std::mem::take(&mut self.client_ran) {
                    self.look_at_card();
                }
            }
            None => self.client_ran = true,
        }
    }

    /// A turn of one of several processors begins.
    fn give_turn(&mut self) {
        let Some(machine) = self.machine.as_ref().filter(|machine| machine.gives()) else {
            return;
        };
        let number = machine.number(machine.running());
        if self.round >> number != 0 {
            self.round_before = std::mem::take(&mut self.round);
        }
        self.round |= 1 << number;
        let follow = self.round_before >> number >> 1;
        machine.give(1 + follow.count_ones());
    }

    /// From now on the server's processor with this number runs.
    fn change_server(&mut self, server: usize) {
        use std::mem::swap;
        if server == self.server {
            return;
        }
        for entry in [self.server, server] {
            if let Some(known) = self.others.get_mut(entry) {
                swap(&mut self.pages, &mut known.pages);
                swap(&mut self.begun, &mut known.begun);
                swap(&mut self.entered, &mut known.entered);
            }
        }
        self.server = server;
        self.observer.run(server);
    }

    /// Forgets which blocks the processors have begun.
    pub fn forget_blocks(&mut self) {
        (self.begun, self.entered) = (ptr::null(), ptr::null());
        for known in &mut self.others {
            (known.begun, known.entered) = (ptr::null(), ptr::null());
        }
    }

    #[inline(never)]
    fn end_turn(&mut self) {
        self.turn_left = self.options.turn_instructions as i64;
        if self.options.turn_instructions > 0 {
            if let Some(machine) = &self.machine {
                machine.end_turn();
            }
        } else {
            self.turn_left = i64::MAX;
        }
    }

    /// Handles the beginning of a watched block.
    #[inline]
    pub fn block(&mut self, block: &mut Block) {
        let is_server = self.turn(block.instructions());
        self.is_active = is_server && self.observer.is_watching();
        if self.is_active {
            self.begun = block;
            self.observer.block(block);
        } else if !is_server {
            self.diagnosis.foreign_blocks += 1;
        }
    }

    /// Handles the begin of a function of the kernel whose calls are counted.
    pub fn happens(&mut self, event: Event) {
        if self.first_argument.is_none() {
            self.first_argument = FirstArgument::find();
        }
        let socket = self.first_argument.as_ref().and_then(FirstArgument::read);
        match socket {
            Some(socket) => self.observer.happens(event, socket),
            None => self.fail(
                "this QEMU has no register `rdi` that a plugin can read",
                "use QEMU 10.0 or newer from packages of Debian or Ubuntu",
            ),
        }
    }

    /// Handles an access of a block that has one instruction, before any other effect of it.
    ///
    /// If an instruction in the middle of a block accesses a device, QEMU leaves the block and runs the
    /// instruction in a block that it does not report (`CF_MEMI_ONLY` in its function
    /// `cpu_io_recompile`). Only the access is reported.
    #[inline(never)]
    pub fn alone(&mut self, block: *const Block) {
        if self.is_active && self.begun != block && self.entered != block {
            if let Some(rest) = rest_after(self.begun, block) {
                self.observer.leave(rest);
            }
            self.begun = block;
        }
    }

    /// Handles the first store of the entry of an exception. If an instruction in the middle of a block
    /// causes the exception, the processor leaves the block, and does not complete the instruction.
    pub fn exception(&mut self, entry: &mut Block, address: u64) {
        let mut next = [0; 8];
        if self.observer.is_shared() {
            // The last block must be that of the processor that runs now.
            self.turn(0);
        }
        if let Some(machine) = &self.machine
            && machine.server(machine.running()).is_some()
            && self.observer.is_watching()
            && KernelMemory::read(machine, interrupt_frame(address), &mut next)
            && let Some(rest) = rest_from(self.begun, u64::from_le_bytes(next))
        {
            self.observer.leave(rest);
        }
        self.block(entry);
    }

    /// Handles a load of one of several processors if it repeats an earlier one. Returns whether it does.
    #[inline]
    pub fn repeats_load(&mut self, address: u64) -> bool {
        let (index, tag) = Page::place(address);
        let page = self.pages[index];
        let line = Line(page.first_line.0 + (address >> 6) as u32 % 64);
        let is_within = address % LINE_BYTES <= LINE_BYTES - ACCESS_BYTES;
        let repeats = is_within && page.tag == tag && self.observer.repeats_load(line);
        if repeats {
            self.observer.count_data();
        }
        repeats
    }

    /// Handles a load or store of the server's processor.
    #[inline]
    pub fn data(&mut self, info: MemoryInfo, address: u64) {
        let is_shared = self.observer.is_shared();
        // Only an access that begins in the last bytes of a line can cross its end.
        let offset = address % LINE_BYTES;
        if !is_shared && offset <= LINE_BYTES - ACCESS_BYTES {
            self.access(info, address, 0);
            return;
        }
        // SAFETY: a query about an access that QEMU reports.
        let bytes: u64 = 1 << unsafe { qemu_plugin_mem_size_shift(info) };
        self.access(info, address, bytes);
        let end = offset + bytes;
        if end > LINE_BYTES {
            self.access(info, address - offset + LINE_BYTES, end - LINE_BYTES);
        }
    }

    /// Handles an access to one line. With several processors, `bytes` are those from `address` on; they
    /// may end after the line.
    #[inline]
    fn access(&mut self, info: MemoryInfo, address: u64, bytes: u64) {
        self.observer.count_data();
        let (index, tag) = Page::place(address);
        let page = self.pages[index];
        let line = if page.tag == tag {
            Some(Line(page.first_line.0 + (address >> 6) as u32 % 64))
        } else {
            self.translate(info, address)
        };
        match line {
            Some(line) if self.observer.is_shared() => self.touch(info, address, line, bytes),
            Some(line) => self.see(address, line),
            None => {}
        }
    }

    /// Passes an access of one of several processors to the observer.
    #[inline]
    fn touch(&mut self, info: MemoryInfo, address: u64, line: Line, bytes: u64) {
        // SAFETY: a query about an access that QEMU reports.
        let action = match unsafe { qemu_plugin_mem_is_store(info) } {
            true => Action::Store,
            false => Action::Load,
        };
        let words = words(address, bytes);
        if let Some(machine) = &self.machine {
            let touch = Touch {
                action,
                line,
                words,
            };
            self.observer.touch(address, touch, machine);
        }
    }

    /// The line of an access to a page whose physical address is not stored; `None` for a device.
    #[inline(never)]
    fn translate(&mut self, info: MemoryInfo, address: u64) -> Option<Line> {
        // SAFETY: queries about an access that QEMU reports, within its callback.
        let (is_device, physical) = unsafe {
            let physical = qemu_plugin_get_hwaddr(info, address);
            if physical.is_null() {
                return None;
            }
            (
                qemu_plugin_hwaddr_is_io(physical),
                qemu_plugin_hwaddr_phys_addr(physical),
            )
        };
        if is_device {
            self.device(info, physical);
            return None;
        }
        let (index, tag) = Page::place(address);
        self.pages[index] = Page {
            tag,
            first_line: Line((physical >> 12 << 6) as u32),
        };
        Some(Line((physical >> 6) as u32))
    }

    /// Passes an access to memory to the observer.
    #[inline]
    fn see(&mut self, address: u64, line: Line) {
        match &self.machine {
            Some(machine) if self.observer.counts_structures() => {
                self.observer.data_at(address, line, machine);
            }
            _ => self.observer.data(line),
        }
    }

    /// Handles an access of the server's processor to a device's register.
    fn device(&mut self, info: MemoryInfo, physical: u64) {
        let Some((registers, _)) = self.registers else {
            return;
        };
        let offset = physical.wrapping_sub(registers);
        if offset >= REGISTER_BYTES {
            return;
        }
        // SAFETY: queries about an access that QEMU reports, within its callback.
        let (is_store, value) = unsafe {
            (
                qemu_plugin_mem_is_store(info),
                qemu_plugin_mem_get_value(info).low,
            )
        };
        if is_store {
            self.with_card(|card, bus, events| card.stored(offset, value, bus, events));
        }
        self.look_at_card();
    }

    /// Reports the frames that the card has received to the observer.
    fn look_at_card(&mut self) {
        if self.observer.is_watching() {
            self.with_card(|card, bus, events| card.receive(bus, events));
        }
    }

    fn with_card(&mut self, act: impl FnOnce(&mut Card, &CardBus<'_>, &mut Seen<'_>)) {
        if let (Some(card), Some(machine), Some((registers, _))) =
            (&mut self.card, &self.machine, self.registers)
        {
            act(
                card,
                &CardBus { machine, registers },
                &mut Seen(&mut self.observer),
            );
        }
    }

    /// Forgets the stored physical addresses, because virtual addresses of the processor that runs may
    /// be mapped differently now.
    pub fn forget_pages(&mut self) {
        self.pages.fill(NO_PAGE);
    }

    /// Forgets the stored physical addresses of all processors.
    pub fn forget_all_pages(&mut self) {
        self.forget_pages();
        for known in &mut self.others {
            known.pages.fill(NO_PAGE);
        }
    }
}

/// The card's events, for the observer.
struct Seen<'a>(&'a mut Observer);

impl CardEvents for Seen<'_> {
    fn wrote(&mut self, address: u64, bytes: u64) {
        self.0.device_write(address, bytes);
    }

    fn responds(&mut self, status: u16) {
        self.0.responds(status);
    }

    fn moved(&mut self, queue: usize, sent: u64, received: u64) {
        self.0.moved(queue, sent, received);
    }
}

fn no_structures(error: impl Display) -> Failure {
    Failure {
        error: error.to_string(),
        hint: "use a kernel that is built with CONFIG_DEBUG_INFO_BTF",
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure {
        error: format!("{}: {error}", path.display()),
        hint: "name a file that can be read",
    })
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure {
        error: format!("{}: {error}", path.display()),
        hint: "name a file that can be written",
    })
}
