//! The vocabulary of costs: layers of the network stack, kinds of work, events, and the rules that
//! assign code to them.
//!
//! This crate depends on no other crate of perpacket. Every table, profile and simulation uses these
//! names, so that one column can contain measured, emulated, simulated and modelled numbers. The
//! profiler charges samples and the emulator charges instructions by the same rules.

#![forbid(unsafe_code)]

mod named;

mod category;
mod charge;
mod direction;
mod event;
mod host_stack;
mod layer;
mod profile;
mod rules;
mod symbols;

pub use category::Category;
pub use charge::{Charge, charge_chain};
pub use direction::Direction;
pub use event::{EventKind, Kind, PerKind};
pub use host_stack::HostStack;
pub use layer::{Layer, PerLayer, Region};
pub use profile::{Directions, Profile, Window};
pub use rules::{Clue, FunctionClass, Owner, RuleError, Rules, Source};
pub use symbols::{KernelSymbols, SymbolId};
