//! The host's side of the machine: memory layout, footprints of operations, the processor.

pub mod address;
pub mod cpu;
pub mod footprint;
