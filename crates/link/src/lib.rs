//! A link between two hosts in user space: delay, jitter, bandwidth, a queue and loss, each way.
//!
//! It is for kernels without netem. The network namespace of each host has a TAP device, and one
//! thread carries frames between them. It reads a frame, computes when a real link would deliver
//! it, and writes it to the other device at that time. [`schedule`] computes the times; it uses no
//! clock and no device. The [`Report`] counts late and dropped frames, so that an experiment can
//! report that its link was late.
//!
//! The devices have no offloads, so frames are as on a wire: the sending kernel segments and
//! computes checksums as for a NIC that does neither. An idle link sleeps without a timer. A busy
//! one sleeps until shortly before the next frame is due and spins for the rest. So delays are
//! exact to tens of microseconds, at a cost that `spin_s` reports.

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
