//! Clocks in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// Time since an arbitrary start. A change of the date does not change it.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Time since 1970, UTC.
#[inline]
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
