//! Computes cache misses by layer from the accesses of an emulated machine.
//!
//! An emulator reports what one processor does: blocks of code, loads and stores, calls and
//! returns, writes of its network card. [`Observer`] charges each of these to the layer, kind and
//! direction that the profiler's rules assign to its call chain. It simulates caches of several
//! sizes at once, and can record the accesses. [`replay`] simulates other caches with the accesses
//! of a recording.
//!
//! This crate uses no clock, socket, file or environment. The emulator's plugin
//! (`lab/crates/emulate-plugin`) and the tests pass all inputs.
//!
//! ```text
//! context, functions     layer, kind and direction of code, by the rules of its function
//! tracker                the context of a processor by its call stack
//! processors             the processor that runs, and the counts of each
//! meetings               whether packets and their application meet on one processor
//! model                  caches and translation buffers of one processor, and their misses
//! sharing                those of several processors, and the lines that move between them
//! moves                  the counts of these lines
//! caches                 the caches of one processor or of several
//! rows, structures       the rows for which misses are counted, and the kernel's structure at an
//!                        address
//! window                 the result
//! recording              the accesses in a file
//! card                   what a network card wrote, and the frames it moved
//! block                  a block of code
//! observer, replay       compute a result, from an emulator or from a recording
//! instruction            the instructions that the plugin must recognize
//! extent                 the instructions of a block that did not run
//! repetition             the accesses of a block that the plugin need not report
//! options                the plugin's options
//! ```

#![forbid(unsafe_code)]

mod block;
mod caches;
pub mod card;
mod context;
mod extent;
mod footprint;
mod functions;
mod instruction;
mod meetings;
mod model;
mod moves;
mod observer;
mod options;
mod processors;
pub mod recording;
mod repetition;
mod replay;
mod rows;
mod sharing;
mod structures;
mod tracker;
mod window;

pub use block::Block;
pub use caches::Caches;
pub use context::Context;
pub use extent::{Extent, Rest};
pub use footprint::{Footprint, Touches, footprint};
pub use functions::{Function, Functions, Work};
pub use instruction::{Instruction, decode};
pub use meetings::{Event, Met};
pub use model::{Configuration, DeviceWrites, Misses, Model, ModelParameters, Outcome};
pub use moves::{Move, Moved, ProcessorMisses, SharingWindow};
pub use observer::Observer;
pub use options::{ObserverSettings, OptionError, Options};
pub use repetition::Repetitions;
pub use replay::{replay, replay_coherent};
pub use rows::{By, RowName, Rows};
pub use sharing::{Sharing, SharingParameters};
pub use structures::{KernelMemory, Place, StructureId, Structures, StructuresError};
pub use tracker::{Tracker, interrupt_frame};
pub use window::{Count, Facts, Frames, Guest, ProcessorFacts, QueueFrames, Returns, Window};
