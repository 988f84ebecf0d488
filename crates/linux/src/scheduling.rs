//! Real-time priority.

use std::io;

/// Above a load generator that asks for the lowest priority, below the kernel's threads for timers
/// and interrupts.
const PRIORITY: libc::c_int = 10;

/// Runs the calling thread before all threads that are not real-time (`SCHED_FIFO`).
///
/// # Errors
/// This process may not.
pub fn run_first() -> io::Result<()> {
    let wanted = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: process 0 is the calling thread; the kernel reads the parameter during the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) };
    crate::check(result).map(drop)
}
