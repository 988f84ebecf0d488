// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's plugin interface, version 4, two functions of GLib, and eight of QEMU itself that Debian's and
//! Ubuntu's executables export. The declarations follow QEMU's documentation of TCG plugins and its public
//! header.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of the interface.
pub const VERSION: c_int = 4;

/// The identity of a plugin.
pub type PluginId = u64;

/// Size, direction and kind of one memory access, in an encoding that only QEMU knows.
pub type MemoryInfo = u32;

/// A block of code that QEMU translates.
#[repr(C)]
pub struct TranslatedBlock {
    _opaque: [u8; 0],
}

/// An instruction of such a block.
#[repr(C)]
pub struct TranslatedInstruction {
    _opaque: [u8; 0],
}

/// The physical address of an access.
#[repr(C)]
pub struct HardwareAddress {
    _opaque: [u8; 0],
}

/// The value that an access loaded or stored: its type and two words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryValue {
    kind: c_int,
    /// The lower 64 bits.
    pub low: u64,
    high: u64,
}

/// A register of a processor.
#[repr(C)]
pub struct RegisterDescriptor {
    pub handle: *mut c_void,
    pub name: *const c_char,
    feature: *const c_char,
}

/// GLib's array, with the descriptors of registers.
#[repr(C)]
pub struct Array {
    pub data: *mut c_char,
    pub length: c_uint,
}

/// GLib's array of bytes.
#[repr(C)]
pub struct ByteArray {
    pub data: *mut u8,
    length: c_uint,
}

/// States that a callback does not use the processor's registers.
pub const NO_REGISTERS: c_int = 0;

/// States that a callback reads the processor's registers.
pub const READS_REGISTERS: c_int = 1;

/// Registers a callback for loads alone.
pub const LOADS: c_int = 1;
/// Registers a callback for stores alone.
pub const STORES: c_int = 2;
/// Registers a callback for both loads and stores.
pub const LOADS_AND_STORES: c_int = 3;

/// A function that QEMU calls when a block or an instruction is executed.
pub type ExecuteCallback = extern "C" fn(c_uint, *mut c_void);

/// A function that QEMU calls after a load or store.
pub type MemoryCallback = extern "C" fn(c_uint, MemoryInfo, u64, *mut c_void);

/// A function that QEMU calls once.
pub type SimpleCallback = extern "C" fn(PluginId);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, *mut TranslatedBlock),
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut TranslatedBlock,
        callback: ExecuteCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut TranslatedInstruction,
        callback: ExecuteCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut TranslatedInstruction,
        callback: MemoryCallback,
        flags: c_int,
        access: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_flush_cb(id: PluginId, callback: SimpleCallback);
    pub fn qemu_plugin_register_atexit_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, *mut c_void),
        data: *mut c_void,
    );
    pub fn qemu_plugin_reset(id: PluginId, callback: SimpleCallback);

    pub fn qemu_plugin_tb_n_insns(block: *const TranslatedBlock) -> usize;
    pub fn qemu_plugin_tb_vaddr(block: *const TranslatedBlock) -> u64;
    pub fn qemu_plugin_tb_get_insn(
        block: *const TranslatedBlock,
        index: usize,
    ) -> *mut TranslatedInstruction;
    pub fn qemu_plugin_insn_data(
        instruction: *const TranslatedInstruction,
        into: *mut c_void,
        length: usize,
    ) -> usize;
    pub fn qemu_plugin_insn_size(instruction: *const TranslatedInstruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const TranslatedInstruction) -> u64;
    pub fn qemu_plugin_insn_haddr(instruction: *const TranslatedInstruction) -> *mut c_void;

    pub fn qemu_plugin_mem_size_shift(info: MemoryInfo) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: MemoryInfo) -> bool;
    pub fn qemu_plugin_mem_get_value(info: MemoryInfo) -> MemoryValue;
    pub fn qemu_plugin_get_hwaddr(info: MemoryInfo, address: u64) -> *mut HardwareAddress;
    pub fn qemu_plugin_hwaddr_is_io(address: *const HardwareAddress) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(address: *const HardwareAddress) -> u64;

    pub fn qemu_plugin_get_registers() -> *mut Array;
    pub fn qemu_plugin_read_register(handle: *mut c_void, into: *mut ByteArray) -> c_int;
    pub fn g_byte_array_new() -> *mut ByteArray;
    pub fn g_byte_array_set_size(array: *mut ByteArray, length: c_uint) -> *mut ByteArray;

    pub fn qemu_get_cpu(index: c_int) -> *mut c_void;
    pub fn cpu_exit(processor: *mut c_void);
    pub fn icount_update(processor: *mut c_void);
    pub fn icount_process_data(processor: *mut c_void);
    pub fn icount_prepare_for_run(processor: *mut c_void, instructions: i64);
    pub fn qemu_clock_deadline_ns_all(clock: c_int, attributes: c_int) -> i64;
    pub fn runstate_is_running() -> bool;
    pub fn cpu_physical_memory_map(address: u64, length: *mut u64, is_write: bool) -> *mut c_void;
    pub fn cpu_memory_rw_debug(
        processor: *mut c_void,
        address: u64,
        bytes: *mut c_void,
        length: usize,
        is_write: bool,
    ) -> c_int;
    pub fn curr_cflags(processor: *mut c_void) -> u32;
    pub fn memory_region_from_host(address: *mut c_void, offset: *mut u64) -> *mut c_void;
    pub fn memory_region_size(region: *mut c_void) -> u64;
    pub fn cpu_physical_memory_rw(address: u64, bytes: *mut c_void, length: u64, is_write: bool);
}

/// QEMU's description of itself, which it passes when it loads a plugin.
#[repr(C)]
pub struct Information {
    target: *const c_char,
    version_least: c_int,
    version_current: c_int,
    is_system: bool,
    processors: c_int,
    processors_most: c_int,
}

impl Information {
    /// Whether QEMU emulates a whole machine instead of one process.
    #[must_use]
    pub const fn is_system(&self) -> bool {
        self.is_system
    }

    /// Number of processors of the machine.
    #[must_use]
    pub const fn processors(&self) -> c_int {
        self.processors
    }

    /// The architecture's name.
    ///
    /// # Safety
    ///
    /// QEMU passed this record to the install function, which has not returned.
    #[must_use]
    pub unsafe fn target(&self) -> String {
        // SAFETY: QEMU passes a C string that lives as long as the call.
        let name = unsafe { std::ffi::CStr::from_ptr(self.target) };
        name.to_string_lossy().into_owned()
    }
}
