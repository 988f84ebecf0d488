//! Evidence from `/proc`, independent of perpacket's own probes. A test that calls these functions can
//! count a refusal by perpacket as a failure.

use std::fs;

use crate::skip;

/// Bits of a set of capabilities (`linux/capability.h`).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// Skips the calling test and returns true if this process may not sample whole processors with the
/// kernel's symbols.
pub fn lacks_perf() -> bool {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let is_open = paranoid.trim().parse::<i32>().is_ok_and(|level| level <= 0);
    // A filter of system calls may block perf_event_open. Container engines permit it with
    // CAP_SYS_ADMIN.
    let is_permitted = has(CAP_SYS_ADMIN) || (is_open && status("Seccomp").as_deref() == Some("0"));
    if paranoid.is_empty() || !is_permitted {
        skip("perf", "this process may not sample whole processors");
        return true;
    }
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let first = symbols.split_whitespace().next().unwrap_or_default();
    let is_hidden = first.bytes().all(|digit| digit == b'0');
    if is_hidden {
        skip("perf", "the kernel hides its symbols");
    }
    is_hidden
}

/// Skips the calling test and returns true if the kernel has no XDP, or if this process may not attach
/// a program to an interface.
pub fn lacks_xdp() -> bool {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let has_xdp = symbols.contains(" dev_xdp_attach");
    let lacks = !(has_xdp && has(CAP_NET_ADMIN) && has(CAP_SYS_ADMIN));
    if lacks {
        skip("xdp", "the kernel has no XDP, or root's rights are missing");
    }
    lacks
}

fn has(capability: u32) -> bool {
    let effective = status("CapEff").and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    effective.is_some_and(|set| set >> capability & 1 == 1)
}

/// A field of `/proc/self/status` (`proc_pid_status(5)`).
fn status(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim_start_matches(':').trim().to_owned())
}
