//! Computes a profile from perf events and kernel symbols: the cost of a packet by layer.
//!
//! The profiler samples whole CPUs. The call chain of a sample determines its layer, and the leaf
//! function determines its kind of work. The profiler counts packets in the same window and divides
//! the costs by them. In the following list, each module uses only modules above it:
//!
//! ```text
//! error, settings
//! count, requests    packets, faults and requests in the window
//! capture            samples of the kernel, or of a test, as records
//! kernel, process    the function and the program that an address belongs to
//! cgroup             the container or unit that a process belongs to
//! attribute          what a call chain is charged to, by the rules of the crate `cost`
//! sums, tally        the sums of the samples
//! calibration        their scale, by the run time of each processor
//! collector          charges the records and sums them
//! statistics         intervals of shares
//! report             the document: data alone
//! passes             the passes over a window, and costs by packet
//! breakdown          modules, processes and functions by time
//! limits             what a reader of the report has to know
//! summary            the report, computed from the passes
//! folded, pprof      stacks for flame graphs and for pprof
//! profiler           one window: starts the events, reads the counts, stops them
//! bounded, watch     sums over months, while a profile continues
//! recording          a file of `perf record` as a profile
//! probe              what this machine can do
//! ```

#![forbid(unsafe_code)]

pub mod attribute;
pub mod bounded;
mod breakdown;
pub mod by_cpu;
pub mod calibration;
pub mod capture;
pub mod cgroup;
pub mod collector;
pub mod count;
mod error;
pub mod folded;
mod generated;
pub mod kernel;
pub mod limits;
pub mod passes;
pub mod pprof;
pub mod probe;
pub mod process;
pub mod profiler;
pub mod recording;
pub mod report;
pub mod requests;
pub mod settings;
pub mod spec;
pub mod statistics;
mod summary;
pub mod sums;
pub mod tally;
pub mod watch;

pub use error::{Fault, ProfileError};
pub use probe::{Capabilities, Capability, probe};
pub use profiler::{End, Profiler, profile};
pub use report::Report;
pub use settings::Settings;
