//! Where and how the thread of a link runs.
//!
//! A wire does not wait for a processor. The thread therefore asks to run before all others; where
//! it may not, it asks for the best priority it can get, and the report says so.

use std::num::NonZeroU64;

use perpacket_linux::scheduling;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::error::LinkError;

/// Let the calling thread run on these processors; on any if there are none.
pub fn bind(processors: &[usize]) -> Result<(), LinkError> {
    if processors.is_empty() {
        return Ok(());
    }
    let refuse = |source| LinkError::Processors {
        processors: processors.to_vec(),
        source,
    };
    let mut set = CpuSet::new();
    for processor in processors {
        if *processor >= CpuSet::MAX_CPU {
            return Err(refuse(std::io::ErrorKind::InvalidInput.into()));
        }
        set.set(*processor);
    }
    sched_setaffinity(None, &set).map_err(|error| refuse(error.into()))
}

/// Make the calling thread prompt. True if it runs before all that are scheduled in the usual way.
pub fn hurry() -> bool {
    // The default lets a timer be 50 us late, which is all that a link may be.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    scheduling::run_first().is_ok() || {
        let _ = rustix::process::setpriority_process(None, -20);
        false
    }
}

/// Processor time the calling thread has used.
pub fn used_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The clock of all times of a link.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A span as the kernel takes it.
pub fn span(time_ns: u64) -> Timespec {
    Timespec {
        tv_sec: (time_ns / 1_000_000_000) as i64,
        tv_nsec: (time_ns % 1_000_000_000) as i64,
    }
}
