//! A link between two hosts in user space: delay, jitter, bandwidth, a queue and loss, each way.
//!
//! It is for kernels without netem. The network namespace of each host has a TAP device, and one
//! thread carries frames between them: it reads a frame, decides when a real link would deliver it,
//! and writes it to the other device then. [`schedule`] decides; it knows no clock and no device.
//! The [`Report`] has what the link could not keep, because an experiment must be able to report
//! that its link was late.
//!
//! The devices have no offloads, so frames are as on a wire: the sending kernel segments and
//! computes checksums as for a NIC that does neither. An idle link sleeps without a timer. A busy
//! one sleeps until shortly before the next frame is due and spins for the rest: that keeps a delay
//! to tens of microseconds, and `spin_s` is its price.

#![forbid(unsafe_code)]

mod address;
mod device;
mod error;
mod link;
mod report;
pub mod schedule;

pub use address::Address;
pub use error::LinkError;
pub use link::{End, Link};
pub use report::{Dropped, Errors, OneWay, Report};
pub use schedule::Settings;
