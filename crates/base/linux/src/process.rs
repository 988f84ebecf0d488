//! Forks child processes.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::Pid;

/// Exit status of a child whose work panicked.
const PANICKED: i32 = 101;

/// Forks a child that runs `work` and exits with its result. The child runs no destructors and no
/// exit handlers of the parent.
///
/// The child has only the calling thread. If another thread of the parent had a lock, the lock
/// stays locked for ever in the child, so `work` must not wait for it. The allocator works, because
/// the C library unlocks it.
///
/// # Errors
/// There is not enough memory, or there are too many processes.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: the child runs only `work` and exits. It shares nothing with the parent except shared
    // mappings, so its other changes do not affect the parent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // A panic must not unwind into the child's copy of the caller.
            let status = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
            // SAFETY: _exit(2) does not return and touches no memory.
            unsafe { libc::_exit(status) }
        }
        child => Pid::from_raw(child).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, waitpid};

    #[test]
    fn a_child_exits_with_what_its_work_returns_and_a_panic_stays_in_it() {
        for (work, expected) in [(7, 7), (-1, PANICKED)] {
            let child = fork(|| {
                if work < 0 {
                    std::panic::resume_unwind(Box::new(()));
                }
                work
            });
            let (_, status) = waitpid(Some(child.unwrap()), WaitOptions::empty())
                .unwrap()
                .unwrap();
            assert_eq!(status.exit_status(), Some(expected));
        }
    }
}
