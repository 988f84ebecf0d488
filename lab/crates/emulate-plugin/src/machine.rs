// SPDX-License-Identifier: GPL-2.0-or-later
//! The emulated machine: its processors and its memory.
//!
//! Every function here runs in the one thread that emulates all processors (`thread=single`).

use std::ffi::{c_int, c_void};
use std::ptr;

use perpacket_emulate::KernelMemory;
use perpacket_emulate::card::Bus;

use crate::api::{
    cpu_exit, cpu_memory_rw_debug, cpu_physical_memory_map, cpu_physical_memory_rw, curr_cflags,
    icount_prepare_for_run, icount_process_data, icount_update, memory_region_from_host,
    memory_region_size, qemu_clock_deadline_ns_all, qemu_get_cpu,
};

/// A processor, as the pointer to its state in QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor(*mut c_void);

/// QEMU's `tcg_cflags` is within this number of bytes from the start of a processor's state.
const STATE_BYTES: usize = 4096;

/// The flags that QEMU takes from `tcg_cflags` unchanged when it translates (`curr_cflags` in
/// `accel/tcg/cpu-exec.c`). It may set lower ones.
const OWN_FLAGS: u32 = !0xfff;

/// A bit of the processor's cluster number. Processors share translated blocks only if all these
/// flags are equal, so a processor with a different cluster number has its own blocks.
const CLUSTER_BIT: u32 = 1 << 24;

/// QEMU's number of the guest's clock (`QEMU_CLOCK_VIRTUAL`). One instruction takes a nanosecond of it.
const VIRTUAL_CLOCK: c_int = 1;
/// QEMU's `QEMU_TIMER_ATTR_ALL`.
const ALL_TIMERS: c_int = -1;
/// The longest turn that QEMU gives, in instructions.
const LONGEST_TURN: i64 = i32::MAX as i64;

/// The emulated machine.
#[derive(Debug)]
pub struct Machine {
    /// The variable in which QEMU stores the running processor.
    running: *mut Processor,
    /// The server's processors.
    servers: Vec<Processor>,
    /// The processors of the clients.
    clients: Vec<Processor>,
    /// Address of the memory's first byte.
    memory: *const u8,
    memory_bytes: u64,
    /// Whether [`give`](Self::give) works: there are several processors, and QEMU's functions for it
    /// have the arguments of QEMU 10.
    gives: bool,
}

impl Machine {
    /// Finds the machine after its processors exist. The thread that emulates the processors must
    /// call this. The first `servers` processors are the server's, the others the clients'.
    ///
    /// The error states what this QEMU lacks.
    pub fn find(servers: usize) -> Result<Self, &'static str> {
        // SAFETY: dlsym reads a C string. For a thread-local variable it returns the address in
        // this thread.
        let running = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"current_cpu".as_ptr()) };
        if running.is_null() {
            return Err("exports no `current_cpu`");
        }
        // SAFETY: QEMU returns the state of a processor, or null.
        let all = (0..).map(|index: c_int| Processor(unsafe { qemu_get_cpu(index) }));
        let mut servers_then_clients: Vec<_> =
            all.take_while(|processor| !processor.0.is_null()).collect();
        if servers_then_clients.len() < servers {
            return Err("has fewer processors than its server needs");
        }
        let clients = servers_then_clients.split_off(servers);
        let mut length = u64::MAX;
        // SAFETY: the length is a valid number; QEMU returns memory for at most that many bytes.
        let memory = unsafe { cpu_physical_memory_map(0, &raw mut length, false) };
        let mut offset = 0;
        // SAFETY: QEMU searches for the address; it accepts any.
        let region = unsafe { memory_region_from_host(memory, &raw mut offset) };
        if memory.is_null() || region.is_null() || offset != 0 {
            return Err("has no memory at address 0");
        }
        // The map above ends at the screen's memory, but on the host the region is one block.
        // SAFETY: QEMU returned this region.
        let memory_bytes = unsafe { memory_region_size(region) };
        if memory_bytes > MEMORY_LIMIT {
            return Err("has more than 3 GiB of memory, so that it is in two parts");
        }
        Ok(Self {
            running: running.cast(),
            servers: servers_then_clients,
            clients,
            memory: memory.cast_const().cast(),
            memory_bytes,
            // SAFETY: dlsym reads a C string. Later versions of QEMU have no such function.
            gives: servers > 1
                && !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"icount_percpu_budget".as_ptr()) }
                    .is_null(),
        })
    }

    /// The processor that runs now.
    #[inline]
    pub fn running(&self) -> Processor {
        // SAFETY: this is the address of QEMU's variable for this thread. It is valid as long as
        // the thread runs.
        unsafe { *self.running }
    }

    /// Processor 0, which is always one of the server's.
    pub fn first(&self) -> Processor {
        self.servers[0]
    }

    /// The number of a processor if it is one of the server's.
    pub fn server(&self, processor: Processor) -> Option<usize> {
        self.servers.iter().position(|own| *own == processor)
    }

    /// Ends the turn of the running processor.
    pub fn end_turn(&self) {
        // SAFETY: the running processor's state is valid while it runs.
        unsafe { cpu_exit(self.running().0) }
    }

    /// Whether [`give`](Self::give) works.
    pub const fn gives(&self) -> bool {
        self.gives
    }

    /// The number of a processor, of the server's first.
    pub fn number(&self, processor: Processor) -> usize {
        let mut all = self.servers.iter().chain(&self.clients);
        all.position(|own| *own == processor).unwrap_or(0)
    }

    /// Divides the instructions until the next timer into equal parts, and gives the running processor
    /// one of them.
    ///
    /// QEMU divides them by the number of all processors before each round. While some are halted, a
    /// round ends before the timer, and the next ones become shorter and shorter.
    pub fn give(&self, parts: u32) {
        let running = self.running();
        // SAFETY: these are the steps of QEMU's loop (`rr_cpu_thread_fn`) between two turns. The first one
        // adds the instructions of this turn to the clock. The clock may not be read while a processor
        // runs, so none does during the other steps.
        unsafe {
            icount_process_data(running.0);
            *self.running = Processor(ptr::null_mut());
            let left = qemu_clock_deadline_ns_all(VIRTUAL_CLOCK, ALL_TIMERS);
            let left = if left < 0 { LONGEST_TURN } else { left };
            icount_prepare_for_run(running.0, (left / i64::from(parts)).max(1));
            *self.running = running;
        }
    }

    /// Prepares for the halt of the running processor: adds the instructions that it has run to the
    /// machine's clock, and makes the next processor wait for one more round of QEMU's loop, as it
    /// does if QEMU's main thread moves the clock before that loop waits.
    pub fn halts(&self) {
        // SAFETY: as in `end_turn`. QEMU subtracts the instructions from those that it adds later.
        unsafe { icount_update(self.running().0) }
        let all = self.servers.iter().chain(&self.clients);
        for other in all.filter(|other| **other != self.running()) {
            // SAFETY: the processors' states are valid as long as QEMU runs.
            unsafe { cpu_exit(other.0) }
        }
    }

    /// Makes the clients' processor translate its own blocks. Those of the server share theirs. Returns
    /// whether this succeeds.
    pub fn separate_processors(&self) -> bool {
        self.clients.iter().all(|other| self.separate(*other))
    }

    /// QEMU has no function that clears a flag, so this searches for the word that has the flags: it
    /// is the one that changes the result of `curr_cflags`. Other words may have the same value.
    fn separate(&self, other: Processor) -> bool {
        // SAFETY: the processors' states are valid as long as QEMU runs.
        let flags = |processor: Processor| unsafe { curr_cflags(processor.0) };
        let shared = flags(self.first());
        if flags(other) & CLUSTER_BIT != shared & CLUSTER_BIT {
            return true;
        }
        (0..STATE_BYTES).step_by(4).any(|offset| {
            // SAFETY: a processor's state is longer than STATE_BYTES, and aligned. The other
            // processor does not run now, because all processors run in this thread.
            unsafe {
                let word = other.0.byte_add(offset).cast::<u32>();
                let before = word.read();
                if (before ^ shared) & OWN_FLAGS != 0 {
                    return false;
                }
                word.write(before ^ CLUSTER_BIT);
                let is_found = flags(other) & CLUSTER_BIT != shared & CLUSTER_BIT;
                if !is_found {
                    word.write(before);
                }
                is_found
            }
        })
    }

    /// The physical address of a byte that QEMU's translator read from the machine's memory.
    pub fn physical(&self, host: *const c_void) -> Option<u64> {
        let offset = (host as u64).wrapping_sub(self.memory as u64);
        (offset < self.memory_bytes).then_some(offset)
    }

    /// Reads or writes physical memory or a device's register.
    fn transfer(address: u64, bytes: *mut c_void, length: usize, is_write: bool) {
        // SAFETY: the callers pass memory of that length. QEMU checks the guest's address.
        unsafe { cpu_physical_memory_rw(address, bytes, length as u64, is_write) }
    }

    /// Reads physical memory.
    pub fn read(&self, address: u64, into: &mut [u8]) {
        Self::transfer(address, into.as_mut_ptr().cast(), into.len(), false);
    }

    /// Writes physical memory.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        Self::transfer(
            address,
            ptr::from_ref(bytes).cast_mut().cast(),
            bytes.len(),
            true,
        );
    }
}

impl KernelMemory for Machine {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        // SAFETY: processor 0 runs; QEMU walks its page tables and changes nothing.
        unsafe {
            let bytes = into.as_mut_ptr().cast();
            cpu_memory_rw_debug(self.first().0, address, bytes, into.len(), false) == 0
        }
    }
}

/// The largest memory that is completely below the devices' addresses in QEMU's machine `pc`.
const MEMORY_LIMIT: u64 = 3 << 30;

/// The registers of a card, at a physical address.
#[derive(Clone, Copy, Debug)]
pub struct CardBus<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The physical address of the card's registers.
    pub registers: u64,
}

impl Bus for CardBus<'_> {
    fn read(&self, address: u64, into: &mut [u8]) {
        self.machine.read(address, into);
    }

    fn register(&self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.machine.read(self.registers + offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }
}
