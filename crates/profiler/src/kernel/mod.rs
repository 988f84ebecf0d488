//! The kernel's symbols: what function an address lies in, and what module that function is of.

mod kallsyms;
mod modules;

pub use kallsyms::{KernelSymbols, SymbolId};
pub use modules::network_drivers;
