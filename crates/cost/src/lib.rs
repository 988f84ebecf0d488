//! The vocabulary of costs: layers of the network stack, kinds of work, events.
//!
//! This crate depends on nothing. Every table, profile and simulation uses these names, so that one
//! column can contain measured, simulated and modelled numbers.

#![forbid(unsafe_code)]

mod category;
mod event;
mod host_stack;
mod layer;
mod profile;

pub use category::Category;
pub use event::{EventKind, Kind, PerKind};
pub use host_stack::HostStack;
pub use layer::{Layer, PerLayer, Region};
pub use profile::{Directions, Profile, Window};
