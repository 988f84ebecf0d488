//! What memory and context switches cost on this machine.
//!
//! Two microbenchmarks explain what a server measures. [`memory`] reports bandwidth over working set
//! and stride, the latency of dependent loads, and the caches that it shows. [`switch`] reports the
//! cost of a switch from one thread or process to the next.
//!
//! Both are single loops that allocate nothing while they are timed. They report every number as a
//! median with an interval and the count of repetitions ([`interval`]), because other work on a
//! machine disturbs a few repetitions a lot and most of them not at all.
//!
//! They follow Isa, *Memory Performance Evaluation of High Throughput
//! Servers* (MSc thesis, KFUPM, 2003), section 4.3; the memory surface is the extended copy
//! transfer characterization of Stricker and Gross (HPCA 1997).

#![forbid(unsafe_code)]

mod error;
pub mod interval;
pub mod machine;
pub mod memory;
pub mod switch;

pub use error::BenchError;

use perpacket_linux::memory::Words;

/// Private words, zero at first; with `huge`, in huge pages where the kernel has them.
fn words(length: usize, huge: bool) -> Result<Words, BenchError> {
    Words::new(length, huge).map_err(BenchError::memory(length * size_of::<u64>()))
}
