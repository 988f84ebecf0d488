//! Pinning workers to CPUs.

use std::io;

use perpacket_linux::affinity;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::error::ServeError;

/// The number of loops: one for each CPU of the setting, or for each usable CPU.
pub fn loop_count(cores: &[usize]) -> Result<usize, ServeError> {
    let allowed = sched_getaffinity(None).map_err(ServeError::system("the CPUs allowed"))?;
    if cores.is_empty() {
        return Ok((allowed.count() as usize).max(1));
    }
    match cores
        .iter()
        .find(|&&core| core >= CpuSet::MAX_CPU || !allowed.is_set(core))
    {
        None => Ok(cores.len()),
        Some(core) => Err(ServeError::Lacking {
            what: "--cpus",
            problem: format!("CPU {core} does not exist, or this process may not use it"),
        }),
    }
}

/// The CPU of a worker, if workers are pinned.
pub fn core_of(cores: &[usize], slot: usize) -> Option<usize> {
    (!cores.is_empty()).then(|| cores[slot % cores.len()])
}

/// Pins this thread to a CPU.
pub fn pin(core: Option<usize>) -> io::Result<()> {
    affinity::bind(core.as_slice())
}
