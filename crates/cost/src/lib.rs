//! The words everyone shares: layers of the network stack, kinds of work, events.
//!
//! This crate depends on nothing. Every table, profile and simulation names costs with these
//! words, so that a measured, a simulated and a modelled number can stand in one column.

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
