// SPDX-License-Identifier: GPL-2.0-or-later
//! The callbacks: QEMU calls them when it translates a block, and when the block's code runs.
//!
//! Only plain callbacks are registered. If one thread runs two processors, inline operations and
//! conditional callbacks change a constant of the translated code of processor 1 (QEMU 10.0).

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use iced_x86::{Mnemonic, OpKind};
use perpacket_emulate::{Block, Event, Extent, Instruction, Repetitions, Rest, Work, decode};
use perpacket_memory::Line;

use crate::api::{
    ExecuteCallback, LOADS, LOADS_AND_STORES, MemoryCallback, MemoryInfo, NO_REGISTERS, PluginId,
    READS_REGISTERS, STORES, TranslatedBlock, TranslatedInstruction, qemu_plugin_insn_data,
    qemu_plugin_insn_haddr, qemu_plugin_insn_size, qemu_plugin_insn_vaddr,
    qemu_plugin_mem_is_store, qemu_plugin_register_atexit_cb, qemu_plugin_register_flush_cb,
    qemu_plugin_register_vcpu_insn_exec_cb, qemu_plugin_register_vcpu_mem_cb,
    qemu_plugin_register_vcpu_tb_exec_cb, qemu_plugin_register_vcpu_tb_trans_cb, qemu_plugin_reset,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns, qemu_plugin_tb_vaddr,
};
use crate::plugin::Plugin;

/// Longest instruction.
const INSTRUCTION_BYTES: usize = 15;

/// The plugin. It is set when QEMU calls the install function.
static PLUGIN: AtomicPtr<Plugin> = AtomicPtr::new(ptr::null_mut());

/// All blocks whose addresses QEMU's code contains. They are stored in pieces that never move.
/// Adjacent blocks cause fewer cache misses than blocks in separate allocations.
struct Blocks {
    pieces: Vec<Vec<Block>>,
    /// The instructions of each block, by its address.
    extents: BTreeMap<usize, Extent>,
}

/// Number of blocks in a piece.
const PIECE: usize = 4096;

impl Blocks {
    /// Stores a block. Its address is valid until the blocks are dropped.
    fn push(&mut self, block: Block) -> *mut Block {
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        match self.pieces.last_mut() {
            Some(piece) => {
                piece.push(block);
                piece.last_mut().map_or(ptr::null_mut(), ptr::from_mut)
            }
            None => ptr::null_mut(),
        }
    }
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks {
    pieces: Vec::new(),
    extents: BTreeMap::new(),
});

/// What a block has from the instruction at `address` on, if one begins there.
pub fn rest_from(block: *const Block, address: u64) -> Option<Rest> {
    let blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    blocks.extents.get(&block.addr())?.from(address)
}

/// What a block has after its instruction that is the only one of another block.
pub fn rest_after(block: *const Block, only: *const Block) -> Option<Rest> {
    let blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let only = blocks.extents.get(&only.addr())?;
    blocks.extents.get(&block.addr())?.after(only)
}

/// Registers the plugin's callbacks with QEMU.
pub fn install(plugin: Plugin) {
    let id = plugin.id;
    PLUGIN.store(Box::into_raw(Box::new(plugin)), Ordering::Release);
    // SAFETY: registrations from the install function, of functions that live as long as the library.
    unsafe {
        register(id);
        qemu_plugin_register_atexit_cb(id, at_exit, ptr::null_mut());
    }
}

/// Registers the callbacks that belong to no block.
unsafe fn register(id: PluginId) {
    // SAFETY: the functions live as long as the library.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_flush_cb(id, flushed);
    }
}

/// Makes QEMU translate all code again.
pub fn translate_again(id: PluginId) {
    // SAFETY: the function lives as long as the library.
    unsafe { qemu_plugin_reset(id, was_reset) }
}

extern "C" fn was_reset(id: PluginId) {
    // SAFETY: QEMU has dropped all registrations and expects new ones here.
    unsafe {
        register(id);
        qemu_plugin_register_atexit_cb(id, at_exit, ptr::null_mut());
    }
}

/// Drops all blocks, because QEMU has dropped all translated code, and with it their addresses.
extern "C" fn flushed(_id: PluginId) {
    if let Ok(mut blocks) = BLOCKS.lock() {
        blocks.pieces.clear();
        blocks.extents.clear();
    }
    // SAFETY: QEMU runs no processor while it drops their code.
    let plugin = unsafe { plugin() };
    plugin.forget_blocks();
}

extern "C" fn at_exit(_id: PluginId, _data: *mut c_void) {
    // SAFETY: QEMU has stopped the processors.
    let plugin = unsafe { plugin() };
    if let Err(error) = plugin.observer.finish() {
        plugin.fail_recording(&error);
    }
}

/// The plugin.
///
/// # Safety
///
/// No other reference to the plugin is in use. This is so in a callback, because only one callback
/// runs at a time.
unsafe fn plugin<'a>() -> &'a mut Plugin {
    // SAFETY: set before the first callback, and never freed.
    unsafe { &mut *PLUGIN.load(Ordering::Acquire) }
}

extern "C" fn translated(_id: PluginId, block: *mut TranslatedBlock) {
    // SAFETY: a callback of the thread that runs processors.
    let plugin = unsafe { plugin() };
    let instructions = instructions(block);
    watch_requests(plugin, &instructions);
    watch_halts(plugin, &instructions);
    if !plugin.observer.is_attached() {
        return;
    }
    let is_server = {
        let machine = plugin.machine();
        machine.server(machine.running()).is_some()
    };
    if is_server || !plugin.diagnosis.separate {
        watch(plugin, block, &instructions);
        return;
    }
    // If turns have no limit, a block of another processor matters only if it may send frames to
    // the card. Only blocks of the card's driver do this.
    // SAFETY: QEMU is translating this block.
    let (_, work) = plugin.functions.at(unsafe { qemu_plugin_tb_vaddr(block) });
    if plugin.options.turn_instructions > 0 || work.is_driver() {
        let number = instructions.len() as *mut c_void;
        // SAFETY: as above.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_cb(block, other_runs, NO_REGISTERS, number);
        }
    }
}

/// An instruction that QEMU translates.
struct Translated {
    instruction: *mut TranslatedInstruction,
    decoded: iced_x86::Instruction,
    effect: Instruction,
}

/// The instructions of a block and their effects.
fn instructions(block: *const TranslatedBlock) -> Vec<Translated> {
    // SAFETY: QEMU is translating this block.
    let number = unsafe { qemu_plugin_tb_n_insns(block) };
    let translated = |index| {
        let mut bytes = [0; INSTRUCTION_BYTES];
        // SAFETY: as above, and the index is below the number of instructions.
        let (instruction, address, length) = unsafe {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            let into = bytes.as_mut_ptr().cast();
            let length = qemu_plugin_insn_data(instruction, into, bytes.len());
            (instruction, qemu_plugin_insn_vaddr(instruction), length)
        };
        let decoded = decode(&bytes[..length.min(INSTRUCTION_BYTES)], address);
        Translated {
            instruction,
            decoded,
            effect: Instruction::of(&decoded),
        }
    };
    (0..number).map(translated).collect()
}

/// Registers callbacks for the guest's requests. A request is a load directly after the long nop that
/// marks it.
fn watch_requests(plugin: &mut Plugin, all: &[Translated]) {
    for (index, translated) in all.iter().enumerate() {
        let follows = match index.checked_sub(1) {
            Some(before) => all[before].effect == Instruction::Hypercall,
            None => plugin.after_mark == Some(translated.decoded.ip()),
        };
        if follows {
            let data = ptr::from_mut(plugin).cast();
            on_access(translated.instruction, request, data);
        }
        if translated.effect == Instruction::Hypercall && index + 1 == all.len() {
            plugin.after_mark = Some(translated.decoded.next_ip());
        }
    }
}

/// Registers a callback before each instruction that halts the processor.
///
/// When all processors are halted, QEMU's main thread moves the clock to the next timer. It may look
/// at a time of the host when a processor has halted and its last instructions are not in the clock
/// yet. They would then move the clock beyond that timer. [`Machine::halts`](crate::machine::Machine)
/// makes this time irrelevant.
fn watch_halts(plugin: &mut Plugin, all: &[Translated]) {
    for translated in all {
        if translated.effect == Instruction::Halt {
            let data = ptr::from_mut(plugin).cast();
            // SAFETY: QEMU is translating this instruction; the data lives as long as QEMU.
            unsafe {
                qemu_plugin_register_vcpu_insn_exec_cb(
                    translated.instruction,
                    halts,
                    NO_REGISTERS,
                    data,
                );
            }
        }
    }
}

/// Registers the callbacks for the events of a block of the server's processors.
fn watch(plugin: &mut Plugin, block: *mut TranslatedBlock, all: &[Translated]) {
    // SAFETY: QEMU is translating this block.
    let address = unsafe { qemu_plugin_tb_vaddr(block) };
    let (function, work) = plugin.functions.at(address);
    let lines = lines(plugin, all);
    let mut repetitions = Repetitions::default();
    // A driver's access may read or write a register of its device, so it must be reported.
    if plugin.observer.drops_repeats() && !work.is_hardware_entry && !work.is_driver() {
        for translated in all {
            repetitions.read(&translated.decoded, translated.effect != Instruction::Other);
        }
    }
    let block_data = store_block(
        Block::new(
            (function, work),
            all.len() as u32,
            &lines,
            repetitions.accesses() as u16,
        ),
        Extent::new(
            all.iter()
                .enumerate()
                .map(|(index, translated)| (translated.decoded.ip(), repetitions.of(index))),
        ),
    );
    let first_push = work.is_exception.then(|| first_push(all)).flatten();
    if let [only] = all {
        on_access(only.instruction, runs_alone, block_data);
    }
    for (index, translated) in all.iter().enumerate() {
        let Translated {
            instruction,
            effect,
            ..
        } = *translated;
        if repetitions.of(index) == 0 {
            if first_push == Some(index) {
                on_access(instruction, exception_stores, block_data);
            }
            let callback = access_callback(effect, &work);
            let data = ptr::from_mut(plugin).cast();
            // Of several processors, a load that repeats another needs no answer of QEMU.
            if plugin.observer.is_shared() && ptr::fn_addr_eq(callback, accesses as MemoryCallback)
            {
                register_access(instruction, loads, LOADS, data);
                register_access(instruction, callback, STORES, data);
            } else {
                on_access(instruction, callback, data);
            }
        }
        let callback: ExecuteCallback = match effect {
            Instruction::TranslationControl => translations_dropped,
            Instruction::PageInvalidation => page_dropped,
            Instruction::InterruptReturn if !work.is_user() => interrupt_returns,
            _ => continue,
        };
        let data = ptr::from_mut(plugin).cast();
        // SAFETY: QEMU is translating this instruction.
        unsafe {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, NO_REGISTERS, data);
        }
    }
    for translated in all {
        if plugin.counted == Some(translated.decoded.ip()) {
            let data = ptr::from_mut(plugin).cast();
            // SAFETY: QEMU is translating this instruction.
            unsafe {
                qemu_plugin_register_vcpu_insn_exec_cb(
                    translated.instruction,
                    counted_runs,
                    NO_REGISTERS,
                    data,
                );
            }
        }
    }
    let runs = match first_push {
        Some(_) => exception_enters,
        None => block_runs,
    };
    // SAFETY: QEMU is translating this block; the data lives until QEMU drops its code.
    unsafe { qemu_plugin_register_vcpu_tb_exec_cb(block, runs, NO_REGISTERS, block_data) }
    let event = plugin.functions.event(address);
    if let Some(event) = event.filter(|_| plugin.observer.is_shared()) {
        let number = event as usize as *mut c_void;
        // SAFETY: as above; the data is a number. QEMU calls this after the callback above.
        unsafe { qemu_plugin_register_vcpu_tb_exec_cb(block, happens, READS_REGISTERS, number) }
    }
}

/// The first instruction that accesses memory, if it stores on the stack.
fn first_push(all: &[Translated]) -> Option<usize> {
    let accesses = |decoded: &iced_x86::Instruction| {
        let has_operand = decoded.op_kinds().any(|kind| kind == OpKind::Memory);
        decoded.is_stack_instruction() || has_operand && decoded.mnemonic() != Mnemonic::Nop
    };
    let first = all
        .iter()
        .position(|translated| accesses(&translated.decoded))?;
    (all[first].decoded.stack_pointer_increment() < 0).then_some(first)
}

/// The lines of a block's code. Consecutive instructions in one line count once.
fn lines(plugin: &mut Plugin, all: &[Translated]) -> Vec<Line> {
    let machine = plugin.machine();
    let mut lines: Vec<Line> = Vec::new();
    for Translated { instruction, .. } in all {
        // SAFETY: QEMU is translating this instruction.
        let (host, length) = unsafe {
            (
                qemu_plugin_insn_haddr(*instruction),
                qemu_plugin_insn_size(*instruction) as u64,
            )
        };
        let Some(begin) = machine.physical(host) else {
            continue;
        };
        // If an instruction ends on the next page, its end has an unrelated physical address. This
        // end is omitted, because the block's next instruction is on that page too.
        let end = (begin + length - 1).min(begin | 0xFFF);
        for number in begin / 64..=end / 64 {
            let line = Line(number as u32);
            if lines.last() != Some(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// Stores a block until QEMU drops its code. Returns the block's address.
fn store_block(block: Block, extent: Extent) -> *mut c_void {
    // A callback that panics ends QEMU, so no thread can have left the lock poisoned.
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let stored = blocks.push(block);
    blocks.extents.insert(stored.addr(), extent);
    stored.cast()
}

const fn access_callback(what: Instruction, work: &Work) -> MemoryCallback {
    match what {
        _ if work.is_user() => accesses,
        Instruction::Call if work.is_hardware_entry => enters_and_calls,
        _ if work.is_hardware_entry => enters,
        Instruction::Call if work.calls_drivers() => calls_driver,
        Instruction::Call => calls,
        Instruction::Return => returns,
        Instruction::InterruptReturn => interrupt_loads,
        _ => accesses,
    }
}

fn on_access(instruction: *mut TranslatedInstruction, callback: MemoryCallback, data: *mut c_void) {
    register_access(instruction, callback, LOADS_AND_STORES, data);
}

fn register_access(
    instruction: *mut TranslatedInstruction,
    callback: MemoryCallback,
    which: c_int,
    data: *mut c_void,
) {
    // SAFETY: QEMU is translating this instruction; the data is the plugin, which lives as long as QEMU,
    // or a block, which lives as long as its code.
    unsafe {
        qemu_plugin_register_vcpu_mem_cb(instruction, callback, NO_REGISTERS, which, data);
    }
}

/// The plugin from a callback's data.
///
/// # Safety
///
/// The data is the plugin's address, and no other reference to it is in use.
unsafe fn plugin_of<'a>(data: *mut c_void) -> &'a mut Plugin {
    // SAFETY: as the caller promises.
    unsafe { &mut *data.cast() }
}

fn is_store(info: MemoryInfo) -> bool {
    // SAFETY: a query about an access that QEMU reports.
    unsafe { qemu_plugin_mem_is_store(info) }
}

extern "C" fn block_runs(_processor: c_uint, data: *mut c_void) {
    // SAFETY: the data of `store_block`, which lives as long as the code that calls this; one
    // callback at a time.
    let (plugin, block) = unsafe { (plugin(), &mut *data.cast::<Block>()) };
    plugin.block(block);
}

/// The rest of the block that the exception interrupted must be known before this block is counted. It is
/// known when this block stores.
extern "C" fn exception_enters(_processor: c_uint, data: *mut c_void) {
    // SAFETY: as in `block_runs`.
    let plugin = unsafe { plugin() };
    plugin.entered = data.cast();
}

extern "C" fn exception_stores(_: c_uint, _: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `block_runs`.
    let plugin = unsafe { plugin() };
    if std::mem::replace(&mut plugin.entered, ptr::null()) == data.cast() {
        // SAFETY: as in `block_runs`.
        plugin.exception(unsafe { &mut *data.cast::<Block>() }, address);
    }
}

extern "C" fn runs_alone(_: c_uint, _: MemoryInfo, _: u64, data: *mut c_void) {
    // SAFETY: as in `block_runs`.
    unsafe { plugin().alone(data.cast()) }
}

extern "C" fn happens(_processor: c_uint, number: *mut c_void) {
    // SAFETY: a callback; one runs at a time.
    let plugin = unsafe { plugin() };
    if let Some(event) = Event::numbered(number as usize)
        && plugin.is_active
    {
        plugin.happens(event);
    }
}

extern "C" fn other_runs(_processor: c_uint, number: *mut c_void) {
    // SAFETY: a callback; one runs at a time.
    let plugin = unsafe { plugin() };
    plugin.turn(number as usize as u32);
}

extern "C" fn accesses(_processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: the data of `on_access`; one callback at a time.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.data(info, address);
    }
}

extern "C" fn loads(_processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active && !plugin.repeats_load(address) {
        plugin.data(info, address);
    }
}

extern "C" fn calls(_processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.data(info, address);
        if is_store(info) {
            plugin.observer.call(address, false);
        }
    }
}

extern "C" fn calls_driver(_processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.data(info, address);
        if is_store(info) {
            plugin.observer.call(address, true);
        }
    }
}

extern "C" fn returns(_processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.data(info, address);
        plugin.observer.ret(address);
    }
}

extern "C" fn enters(_processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.data(info, address);
        if is_store(info) {
            plugin.observer.interrupt_store(address);
        }
    }
}

extern "C" fn enters_and_calls(
    processor: c_uint,
    info: MemoryInfo,
    address: u64,
    data: *mut c_void,
) {
    enters(processor, info, address, data);
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active && is_store(info) {
        plugin.observer.call(address, false);
    }
}

extern "C" fn interrupt_returns(_processor: c_uint, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.observer.interrupt_return_begins();
    }
}

extern "C" fn interrupt_loads(
    _processor: c_uint,
    info: MemoryInfo,
    address: u64,
    data: *mut c_void,
) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.data(info, address);
        plugin.observer.interrupt_return(address);
    }
}

extern "C" fn halts(_processor: c_uint, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    plugin.machine().halts();
}

extern "C" fn translations_dropped(_processor: c_uint, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.forget_pages();
        plugin.observer.flush_translations();
    }
}

extern "C" fn page_dropped(_processor: c_uint, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.forget_pages();
    }
}

extern "C" fn counted_runs(_processor: c_uint, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    if plugin.is_active {
        plugin.observer.calls_counted();
    }
}

extern "C" fn request(_processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `accesses`.
    let plugin = unsafe { plugin_of(data) };
    plugin.answer(info, address);
}
