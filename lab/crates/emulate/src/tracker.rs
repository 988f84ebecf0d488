//! The context of a processor, by its exact call stack.
//!
//! A call instruction stores its return address. The tracker saves the caller's context under the
//! address of that store, and the return that loads from the same address restores it. So code
//! without a rule has its caller's context, even after the thread was switched out and in again,
//! because each thread has its own stack. For an interrupt, the tracker uses the address of the
//! interrupt's frame.

use crate::context::Context;
use crate::functions::Work;
use crate::window::Returns;

/// Number of return addresses whose contexts are stored. A stack of the kernel has 16 KiB, so there
/// is room for 64 whole stacks. If the entry of a return was overwritten, the return does not
/// change the context and is counted.
const SAVED: usize = 1 << 17;

#[derive(Clone, Copy, Debug)]
struct Saved {
    address: u64,
    context: Context,
}

/// The code that a processor runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    context: Context,
    /// Whether a function that calls drivers has just made a call.
    calls_driver: bool,
    /// The context that a hardware entry interrupted, until the address of the entry's frame is
    /// known.
    interrupted: Option<Context>,
    /// Whether the next load is the first load of a return from an interrupt.
    returns_from_interrupt: bool,
    /// The last address of the stack that a call stored to.
    stack: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self {
            context: Context::UNCLAIMED,
            calls_driver: false,
            interrupted: None,
            returns_from_interrupt: false,
            stack: 0,
        }
    }
}

/// The context of the processor that runs.
///
/// Several processors share the stored contexts, because a thread can make a call on one processor
/// and return from it on another.
#[derive(Debug)]
pub struct Tracker {
    position: Position,
    saved: Box<[Saved]>,
    returns: Returns,
}

impl Default for Tracker {
    fn default() -> Self {
        let none = Saved {
            address: 0,
            context: Context::UNCLAIMED,
        };
        Self {
            position: Position::default(),
            saved: vec![none; SAVED].into_boxed_slice(),
            returns: Returns::default(),
        }
    }
}

impl Tracker {
    /// The context of the code that runs.
    #[inline]
    #[must_use]
    pub const fn current(&self) -> Context {
        self.position.context
    }

    /// Returns matched and unmatched so far.
    #[must_use]
    pub const fn returns(&self) -> Returns {
        self.returns
    }

    /// Another processor runs: exchanges the position with a stored one.
    pub(crate) const fn exchange(&mut self, position: &mut Position) {
        std::mem::swap(&mut self.position, position);
    }

    /// Whether the next [`enter`](Self::enter) depends on more than the current context.
    #[inline]
    #[must_use]
    pub const fn is_at_driver_call(&self) -> bool {
        self.position.calls_driver
    }

    /// Code of that work runs now.
    pub fn enter(&mut self, work: &Work) {
        let calls_driver = std::mem::take(&mut self.position.calls_driver);
        self.position.context = work.enter(self.position.context, calls_driver);
    }

    /// Sets the context that [`enter`](Self::enter) would compute. The caller has stored it.
    #[inline]
    pub const fn set(&mut self, context: Context) {
        self.position.context = context;
    }

    #[inline]
    fn slot(&mut self, address: u64) -> &mut Saved {
        &mut self.saved[(address >> 3) as usize & (SAVED - 1)]
    }

    /// A call instruction stored its return address at `address`.
    #[inline]
    pub fn call(&mut self, address: u64) {
        let context = self.position.context;
        self.position.stack = address;
        *self.slot(address) = Saved { address, context };
    }

    /// An address in the stack of the code that runs: the last that a call stored to.
    #[must_use]
    pub const fn stack(&self) -> u64 {
        self.position.stack
    }

    /// The same as [`call`](Self::call), for a call from a function that calls network drivers.
    pub fn call_driver(&mut self, address: u64) {
        self.call(address);
        self.position.calls_driver = true;
    }

    /// A return instruction loaded its return address from `address`.
    #[inline]
    pub fn ret(&mut self, address: u64) {
        let saved = *self.slot(address);
        if saved.address == address {
            self.position.context = saved.context;
            self.returns.matched += 1;
        } else {
            self.returns.unmatched += 1;
        }
    }

    /// The processor is about to run the first instruction of a hardware entry.
    pub const fn interrupt(&mut self) {
        self.position.interrupted = Some(self.position.context);
    }

    /// Records the first store of a hardware entry. `address` is the word below the frame if the
    /// store is the number of the interrupt. It is one word lower if the store is a return address.
    ///
    pub fn interrupt_store(&mut self, address: u64) {
        if let Some(context) = self.position.interrupted.take() {
            let address = interrupt_frame(address);
            *self.slot(address) = Saved { address, context };
        }
    }

    /// A return from an interrupt begins: its first load is that of the address to return to.
    pub const fn interrupt_return_begins(&mut self) {
        self.position.returns_from_interrupt = true;
    }

    /// A return from an interrupt loaded from `address`.
    pub fn interrupt_return(&mut self, address: u64) {
        if !std::mem::take(&mut self.position.returns_from_interrupt) {
            return;
        }
        let saved = *self.slot(address);
        if saved.address == address {
            self.position.context = saved.context;
        }
    }
}

/// The address of the frame of an interrupt, from the address of the first store of its entry. The
/// frame's first word is the address at which the interrupted code continues.
///
/// The processor aligns the stack to 16 bytes before it stores its frame of five words. So the word
/// below the frame, which has the number or the error code, is aligned to 16 bytes.
#[must_use]
pub const fn interrupt_frame(first_store: u64) -> u64 {
    ((first_store + 15) & !15) + 8
}
