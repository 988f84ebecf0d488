//! The priority of a thread.

use std::io;
use std::num::NonZeroU64;

use rustix::process::setpriority_process;
use rustix::thread::set_current_timer_slack;

/// A real-time priority. Load generators have the lowest one. This one is above it, and below that
/// of the kernel's threads for timers and interrupts.
const PRIORITY: libc::c_int = 10;

/// Makes the calling thread wake on time. It gets timers without slack and real-time priority
/// (`SCHED_FIFO`). If the process has no right to real-time priority, the thread gets the highest
/// ordinary priority. Returns whether the thread has real-time priority.
pub fn prioritize() -> bool {
    // By default the kernel delays a timer by up to 50 us to save wake-ups (prctl(2)).
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    set_real_time().is_ok() || {
        let _ = setpriority_process(None, -20);
        false
    }
}

fn set_real_time() -> io::Result<()> {
    let wanted = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: process 0 is the calling thread; the kernel reads the parameter during the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) };
    crate::check(result).map(drop)
}
