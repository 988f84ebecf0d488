//! The resources that processes use: CPU time, page faults, context switches.

use std::mem::MaybeUninit;

use crate::text;

/// The resources that a process has used since it started.
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
    /// Context switches because the scheduler preempted a thread.
    pub involuntary_switches: u64,
}

impl Usage {
    /// The use of all threads of this process.
    pub fn of_process() -> Self {
        Self::read(libc::RUSAGE_SELF)
    }

    /// The use of the calling thread.
    pub fn of_thread() -> Self {
        Self::read(libc::RUSAGE_THREAD)
    }

    /// The use of children that have ended and were waited for.
    pub fn of_ended_children() -> Self {
        Self::read(libc::RUSAGE_CHILDREN)
    }

    fn read(of: libc::c_int) -> Self {
        let mut raw = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: getrusage(2) fills the structure. Before that it is all zeros, which is a valid
        // value.
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

    /// Adds the use of another process (proc_pid_stat(5), proc_pid_status(5)). A process that has
    /// ended adds nothing.
    ///
    /// `schedstat` has the CPU time in nanoseconds. `stat` has user and system time in ticks of 10
    /// ms, and their ratio divides the CPU time into the two modes.
    pub fn add_process(&mut self, process: u32) {
        let read = |file| text::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let stat = read("stat");
        // The name of the program is in parentheses and may contain any character.
        let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
        let fields: Vec<u64> = fields
            .split_whitespace()
            .map(|field| number(field).unwrap_or_default())
            .collect();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or_default();
        let (user, system) = (field(14), field(15));
        let total_ns = read("schedstat").split_whitespace().next().and_then(number);
        let total_ns = total_ns.unwrap_or((user + system) * 10_000_000);
        let user_share = user as f64 / (user + system).max(1) as f64;
        let user_ns = (total_ns as f64 * user_share) as u64;
        self.user_ns += user_ns;
        self.system_ns += total_ns - user_ns;
        self.minor_faults += field(10);
        self.major_faults += field(12);
        for line in read("status").lines() {
            match line.split_once(':') {
                Some(("voluntary_ctxt_switches", count)) => {
                    self.voluntary_switches += number(count).unwrap_or_default();
                }
                Some(("nonvoluntary_ctxt_switches", count)) => {
                    self.involuntary_switches += number(count).unwrap_or_default();
                }
                _ => {}
            }
        }
    }

    /// CPU time in both modes.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Page faults of both kinds.
    pub fn faults(&self) -> u64 {
        self.minor_faults + self.major_faults
    }

    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_process_grows_and_an_ended_process_adds_nothing() {
        let mut usage = Usage::default();
        usage.add_process(std::process::id());
        assert!(usage.cpu_ns() > 0 && usage.faults() > 0, "{usage:?}");
        let before = usage.faults();
        // No process has the highest number.
        usage.add_process(u32::MAX);
        assert_eq!(usage.faults(), before);
    }
}
