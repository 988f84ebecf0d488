//! A web server whose NIC can take over TCP connections, simulated down to the cache lines of the
//! connection structures.
//!
//! The crate never uses a clock, a file or the environment. Configurations are names and parameters
//! compiled in from `data/`, callers pass traces in, and randomness is seeded. Equal seeds have
//! equal results, byte by byte, on every machine.
//!
//! [`parameters`] turns a configuration's name into numbers with sources, and [`Simulation`] checks
//! and runs it. `engine` delivers events to the components: `clients`, `nic` and `host`, each of
//! which owns its state. [`tcp`] is the protocol of both ends; `measure` and [`Outcome`] are the
//! results.

#![forbid(unsafe_code)]

mod clients;
mod connection;
mod context;
mod engine;
mod error;
pub mod event_queue;
mod explanation;
mod host;
mod measure;
mod nic;
mod outcome;
pub mod parameters;
mod settings;
mod simulation;
pub mod tcp;
pub mod time;
mod timeline;
mod wire;
mod workload;

pub use error::ConfigurationError;
pub use explanation::{Explanation, NicWork, OperationCost, QueueWait};
pub use measure::Statistics;
pub use outcome::{Delays, HostCycles, LayerPerPacket, Messages, OnNic, Outcome, SCHEMA};
pub use simulation::{Interrupted, Progress, RunError, Simulated, Simulation};
pub use timeline::Timeline;
