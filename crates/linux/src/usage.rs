//! What processes have used: CPU time, page faults, context switches.

use std::mem::MaybeUninit;

/// What a process has used since it started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults with disk access.
    pub major_faults: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the scheduler took the CPU away.
    pub involuntary_switches: u64,
}

impl Usage {
    /// All threads of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::read(libc::RUSAGE_SELF)
    }

    /// Children that ended and were waited for.
    #[must_use]
    pub fn of_ended_children() -> Self {
        Self::read(libc::RUSAGE_CHILDREN)
    }

    fn read(of: libc::c_int) -> Self {
        let mut raw = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: getrusage(2) fills the structure; zero bytes are valid before that.
        let raw = unsafe {
            libc::getrusage(of, raw.as_mut_ptr());
            raw.assume_init()
        };
        let nanoseconds =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Self {
            user_ns: nanoseconds(raw.ru_utime),
            system_ns: nanoseconds(raw.ru_stime),
            minor_faults: raw.ru_minflt as u64,
            major_faults: raw.ru_majflt as u64,
            voluntary_switches: raw.ru_nvcsw as u64,
            involuntary_switches: raw.ru_nivcsw as u64,
        }
    }

    /// CPU time in both modes.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Page faults of both kinds.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.minor_faults + self.major_faults
    }

    /// Context switches of both kinds.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }
}
