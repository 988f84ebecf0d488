//! The words everyone shares: layers of the network stack, kinds of work, events.
//!
//! This crate depends on nothing. Every table, profile and simulation names costs with these
//! words, so that a measured, a simulated and a modelled number can stand in one column.

mod event;
mod layer;

pub use event::{EventKind, Kind};
pub use layer::{Layer, PerLayer, Region};
