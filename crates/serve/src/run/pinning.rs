//! Which CPU a worker runs on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::ServeError;

/// How many loops there are: one for each core asked for, or for each that may be used.
pub fn usable(cores: &[usize]) -> Result<usize, ServeError> {
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
            problem: format!("CPU {core} is not there, or this process may not use it"),
        }),
    }
}

/// The core of the worker in `slot`, if workers are pinned.
pub fn core_of(cores: &[usize], slot: usize) -> Option<usize> {
    (!cores.is_empty()).then(|| cores[slot % cores.len()])
}

/// Keeps this thread on a core.
pub fn pin(core: Option<usize>) -> io::Result<()> {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None, &set)?;
    }
    Ok(())
}
