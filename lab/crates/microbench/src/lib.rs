//! Microbenchmarks of the costs of memory and context switches on this machine.
//!
//! Two microbenchmarks help to explain the measurements of a server. [`memory`] reports bandwidth
//! by working set and stride, the latency of dependent loads, and the caches that this latency
//! shows. [`switch`] reports the cost of a switch from one thread or process to the next.
//!
//! Both are single loops that allocate nothing while they are timed. They report every number as a
//! median with an interval and the count of repetitions ([`interval`]). Other work on the machine
//! disturbs a few repetitions a lot and most of them not at all.
//!
//! They follow Isa, *Memory Performance Evaluation of High Throughput Servers* (MSc thesis, KFUPM,
//! 2003), section 4.3. The memory surface is the extended copy transfer characterization of
//! Stricker and Gross (HPCA 1997).

#![forbid(unsafe_code)]

mod error;
pub mod interval;
pub mod machine;
pub mod memory;
mod repeating;
pub mod switch;

pub use error::BenchError;
pub use repeating::Repeating;

use perpacket_linux::memory::Words;

/// Private words, all zero. With `huge`, they are in huge pages if the kernel supports that.
fn words(length: usize, huge: bool) -> Result<Words, BenchError> {
    Words::new(length, huge).map_err(BenchError::memory(length * size_of::<u64>()))
}
