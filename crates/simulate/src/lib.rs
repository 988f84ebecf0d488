//! A web server whose NIC can take over TCP connections, simulated down to the cache lines of the
//! connection structures.
//!
//! The crate never touches a clock, a file or the environment: configurations are names and
//! parameters compiled in from `data/`, traces are handed in, randomness is seeded. The same seed
//! gives the same bytes on every machine.
//!
//! Where things are: [`parameters`] turns a configuration's name into numbers with sources;
//! [`Simulation`] checks them and runs; `world` holds the state and the event loop; `clients`,
//! `nic`, `kernel`, `server`, `bypass` and `bulk` are what happens in it; [`tcp`] is both ends'
//! protocol; `host` is processor, memory layout and footprints; `measure` and [`Outcome`] are what
//! comes out.

#![forbid(unsafe_code)]

mod bulk;
mod bypass;
mod clients;
mod connection;
mod error;
mod host;
mod kernel;
mod measure;
mod nic;
mod outcome;
pub mod parameters;
pub mod queue;
mod selection;
mod server;
mod settings;
mod simulation;
pub mod tcp;
pub mod time;
mod timeline;
mod wire;
mod workload;
mod world;

pub use error::ConfigurationError;
pub use outcome::{
    Delays, HostCycles, LayerPerPacket, Messages, OnNic, Outcome, SCHEMA, Statistics,
};
pub use simulation::{Interrupted, Progress, RunError, Simulation};
pub use timeline::Timeline;
