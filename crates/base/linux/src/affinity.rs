//! Binding threads to CPUs.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// The machine has more CPUs than [`CpuSet`] can name.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Binds the calling thread, and threads that it starts later, to `cpus`. An empty list changes
/// nothing.
///
/// # Errors
/// No CPU of the list exists, or this process may use none of them.
pub fn bind(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_thread_may_use_that_cpu_only() {
        std::thread::spawn(|| {
            let cpu = *allowed().unwrap().last().unwrap();
            bind(&[cpu]).unwrap();
            assert_eq!(allowed().unwrap(), [cpu]);
            bind(&[]).unwrap();
            assert_eq!(allowed().unwrap(), [cpu]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_no_machine_has_is_an_error() {
        assert!(bind(&[CpuSet::MAX_CPU]).is_err());
    }
}
