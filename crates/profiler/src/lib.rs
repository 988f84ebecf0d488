//! perf events and kernel symbols to a profile of what a packet costs by layer.
//!
//! It samples whole processors, charges each sample to a layer by its call chain and to a kind of
//! work by its leaf, counts packets over the same window, and divides. The parts:
//!
//! - [`capture`]: samples from the kernel, or from a stand-in, as records;
//! - [`kernel`] and [`process`]: what an address is called and which program it is of;
//! - [`rules`]: which functions and files belong where, as data;
//! - [`attribute`] and [`tally`]: what a sample is charged to, and the sums;
//! - [`count`] and [`requests`]: what happened in the window;
//! - [`report`]: everything as one result, and [`folded`] stacks for flame graphs;
//! - [`probe`]: what this machine can do.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use perpacket_profiler::{Settings, profile};
//!
//! let report = profile(Settings::default(), &AtomicBool::new(false))?;
//! println!("{} packets", report.packets.sent + report.packets.received);
//! # Ok::<(), perpacket_profiler::ProfileError>(())
//! ```

#![forbid(unsafe_code)]

pub mod attribute;
mod breakdown;
pub mod capture;
pub mod count;
pub mod cpus;
mod error;
pub mod folded;
pub mod kernel;
pub mod limits;
pub mod probe;
pub mod process;
pub mod profiler;
pub mod report;
pub mod requests;
pub mod rules;
pub mod settings;
pub mod statistics;
pub mod tally;

pub use error::{Fault, ProfileError};
pub use probe::{Capabilities, Capability, probe};
pub use profiler::{End, Profiler, profile};
pub use report::Report;
pub use settings::Settings;
