//! The kernel's symbols: the function that contains an address, and its module.

mod kallsyms;
mod modules;

pub use kallsyms::{KernelSymbols, SymbolId};
pub use modules::network_drivers;
