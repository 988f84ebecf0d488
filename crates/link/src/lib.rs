//! A link between two hosts in user space: latency, jitter, bandwidth, a queue and loss, each way.
//!
//! It is for kernels without netem. A TAP device stands in the network namespace of each host, and
//! one thread carries frames between them: it reads a frame, decides when a real link would have
//! delivered it, and writes it to the other device then. What it decides is in [`direction`], which
//! knows no clock and no device; what it could not keep is in the [`Report`], because an experiment
//! whose link was late must be able to say so.
//!
//! The devices have no offloads, so what passes is wire frames: the sending kernel segments and
//! checksums as it would for a NIC that can do neither. An idle link sleeps without a timer; a busy
//! one sleeps until shortly before the next frame is due and spins for the rest, which is the price
//! of keeping a delay to tens of microseconds and is stated as `spin_s`.

#![forbid(unsafe_code)]

mod device;
pub mod direction;
mod error;
mod link;
mod place;
mod processor;
mod report;

pub use direction::Settings;
pub use error::LinkError;
pub use link::{Ends, Link};
pub use place::{Address, Place};
pub use report::{Dropped, Errors, OneWay, Report};
