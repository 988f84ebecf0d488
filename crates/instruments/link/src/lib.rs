//! A link in user space between two hosts. It emulates delay, jitter, bandwidth, a queue and loss
//! in each direction.
//!
//! It is for kernels without netem. The network namespace of each host has a TAP device, and one
//! thread carries frames between them. It reads a frame, computes when a real link would deliver
//! it, and writes it to the other device at that time. [`schedule`] computes the times and uses no
//! clock and no device. The [`Report`] counts late and dropped frames, so that an experiment can
//! detect a late link.
//!
//! The devices have no offloads, so frames are as on a wire: the sending kernel segments packets
//! and computes checksums. An idle link sleeps without a timer. A busy link sleeps until shortly
//! before the next frame is due, and then spins. So delays are exact to tens of microseconds.
//! `spin_s` reports the CPU time that this costs.

#![forbid(unsafe_code)]

mod address;
mod device;
mod error;
mod link;
mod report;
pub mod schedule;
mod spec;

pub use address::Address;
pub use error::LinkError;
pub use link::{End, Link};
pub use report::{Dropped, Errors, OneWay, Report};
pub use schedule::DirectionSpec;
pub use spec::Spec;
