//! The capabilities of this machine, found by trying them.
//!
//! A missing capability is reported with its cost and the next step.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use perpacket_cost::EventKind;
use perpacket_linux::cpus;
use perpacket_linux::text;
use serde::Serialize;

use crate::capture::events;
use crate::capture::perf::{PARANOID, try_open};
use crate::kernel::read_symbols;

/// The setting that hides kernel addresses.
const KPTR_RESTRICT: &str = "/proc/sys/kernel/kptr_restrict";

/// The kernel's type information.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// A capability that a machine may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Its name.
    pub name: &'static str,
    /// Whether this machine has it.
    pub available: bool,
    /// Details of the result.
    pub detail: String,
    /// The consequence if it is missing; empty if it is available.
    pub cost_of_lack: &'static str,
    /// How to get the capability; empty if it is available.
    pub next_step: &'static str,
}

impl Capability {
    fn new(
        name: &'static str,
        found: Result<String, String>,
        cost_of_lack: &'static str,
        next_step: &'static str,
    ) -> Self {
        let available = found.is_ok();
        let detail = match found {
            Ok(detail) | Err(detail) => detail,
        };
        Self {
            name,
            available,
            detail,
            cost_of_lack: if available { "" } else { cost_of_lack },
            next_step: if available { "" } else { next_step },
        }
    }
}

/// The capabilities of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Version of this document.
    pub schema: u32,
    /// The kernel's release.
    pub kernel: String,
    /// Processors that are online, as a list of ranges.
    pub cpus: String,
    /// The backend of a profile: `pmu`, `cpu-clock` or `none`.
    pub backend: &'static str,
    /// Hardware events that can be opened.
    pub hardware_events: Vec<&'static str>,
    /// All other capabilities.
    pub capabilities: Vec<Capability>,
}

impl Capabilities {
    /// A capability by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Capability> {
        self.capabilities.iter().find(|one| one.name == name)
    }
}

/// Tries each capability that perpacket uses. Changes nothing on the machine.
#[must_use]
pub fn probe() -> Capabilities {
    let online = cpus::online().unwrap_or_default();
    let first = online.first().copied().unwrap_or(0);
    let clock = clock(first);
    let hardware_events: Vec<_> = EventKind::ALL
        .into_iter()
        .filter(|&event| event != EventKind::CpuNs && events::kernel_event(event).is_some())
        .filter(|&event| try_open(event, first).is_ok())
        .map(EventKind::name)
        .collect();
    let backend = match (clock.available, hardware_events.contains(&"cycles")) {
        (_, true) => "pmu",
        (true, false) => "cpu-clock",
        (false, false) => "none",
    };
    Capabilities {
        schema: 1,
        kernel: release(),
        cpus: cpus::format(&online),
        backend,
        capabilities: vec![
            clock,
            counters(&hardware_events),
            symbols(),
            btf(),
            namespaces(),
            tun(),
            io_uring(),
            discipline(
                "netem",
                "latency and loss between hosts cannot be emulated by the kernel: `link` does it in \
                 user space",
            ),
            discipline(
                "tbf",
                "the rate between hosts cannot be limited by the kernel: `link` does it in user space",
            ),
        ],
        hardware_events,
    }
}

fn release() -> String {
    text::read("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn setting(path: &str) -> String {
    text::read(path).map_or_else(|_| "unreadable".to_owned(), |text| text.trim().to_owned())
}

fn clock(cpu: usize) -> Capability {
    let paranoid = setting(PARANOID);
    let found = match try_open(EventKind::CpuNs, cpu) {
        Ok(()) => Ok(format!("cpu-clock opens (perf_event_paranoid {paranoid})")),
        Err(error) => Err(format!("{error} (perf_event_paranoid {paranoid})")),
    };
    Capability::new(
        "perf_cpu_wide",
        found,
        "nothing can be profiled",
        "run as root, grant the agent CAP_PERFMON, or `sysctl kernel.perf_event_paranoid=-1`",
    )
}

fn counters(events: &[&str]) -> Capability {
    let found = if events.is_empty() {
        Err("no hardware event opens".to_owned())
    } else {
        Ok(events.join(", "))
    };
    Capability::new(
        "pmu",
        found,
        "only time is measured, no cycles, instructions or cache misses; functions that run with \
         interrupts off are sampled where they enable interrupts again",
        "run on hardware, or let the hypervisor pass performance counters to this machine",
    )
}

fn symbols() -> Capability {
    let symbols = read_symbols(Path::new("/proc/kallsyms")).unwrap_or_default();
    let restrict = setting(KPTR_RESTRICT);
    let found = if symbols.is_empty() {
        let why = if symbols.are_hidden() {
            "hidden"
        } else {
            "absent"
        };
        Err(format!("addresses are {why} (kptr_restrict {restrict})"))
    } else {
        Ok(format!(
            "{} functions (kptr_restrict {restrict})",
            symbols.len()
        ))
    };
    Capability::new(
        "kernel_symbols",
        found,
        "all kernel time is one unresolved block",
        "run as root or with CAP_SYSLOG, or `sysctl kernel.kptr_restrict=0`",
    )
}

fn btf() -> Capability {
    let found = match fs::metadata(BTF) {
        Ok(file) => Ok(format!("{} bytes", file.len())),
        Err(error) => Err(format!("{BTF}: {error}")),
    };
    Capability::new(
        "btf",
        found,
        "programs that read the kernel's structures cannot be loaded; profiles do not need it",
        "use a kernel built with CONFIG_DEBUG_INFO_BTF",
    )
}

fn namespaces() -> Capability {
    let is_root = rustix::process::geteuid().is_root();
    let options: &[&str] = if is_root {
        &["--net"]
    } else {
        &["--map-root-user", "--net"]
    };
    let found = Command::new("unshare")
        .args(options)
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("unshare: {error}"))
        .and_then(|output| {
            if output.status.success() {
                let how = if is_root {
                    "as root"
                } else {
                    "with a user namespace"
                };
                return Ok(format!("a network namespace can be made {how}"));
            }
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        });
    Capability::new(
        "network_namespaces",
        found,
        "server, clients and router share the loopback interface: no wire, no latency between them",
        "run as root, or allow user namespaces",
    )
}

fn tun() -> Capability {
    let found = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .map(|_| "/dev/net/tun opens".to_owned())
        .map_err(|error| format!("/dev/net/tun: {error}"));
    Capability::new(
        "tun",
        found,
        "`link` cannot join two hosts in user space",
        "load the module `tun`, and pass /dev/net/tun to the container",
    )
}

fn io_uring() -> Capability {
    let found = perpacket_linux::uring::is_available()
        .map(|()| "the system call works".to_owned())
        .map_err(|error| error.to_string());
    Capability::new(
        "io_uring",
        found,
        "servers and load generators use epoll",
        "`sysctl kernel.io_uring_disabled=0`, and a container that allows the system call",
    )
}

/// The capability of a queueing discipline. It is built in, or it is a module that is loaded or can
/// be loaded.
fn discipline(name: &'static str, cost_of_lack: &'static str) -> Capability {
    let symbol = format!("{name}_enqueue");
    let is_linked = text::read("/proc/kallsyms").is_ok_and(|text| {
        text.lines()
            .any(|line| line.split_ascii_whitespace().nth(2) == Some(&symbol))
    });
    let modules = Path::new("/lib/modules").join(release());
    let file = format!("sch_{name}.ko");
    let is_loadable = || {
        ["modules.dep", "modules.builtin"]
            .iter()
            .any(|list| text::read(modules.join(list)).is_ok_and(|text| text.contains(&file)))
    };
    let found = if is_linked {
        Ok("in the kernel".to_owned())
    } else if is_loadable() {
        Ok("as a module".to_owned())
    } else {
        Err("neither in the kernel nor as a module".to_owned())
    };
    let step = "use a kernel that has it";
    Capability::new(name, found, cost_of_lack, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_capability_has_a_cost_and_a_next_step() {
        let found = probe();
        assert!(found.get("perf_cpu_wide").is_some());
        for one in &found.capabilities {
            assert!(!one.detail.is_empty(), "{}", one.name);
            assert_eq!(one.available, one.next_step.is_empty(), "{}", one.name);
            assert_eq!(one.available, one.cost_of_lack.is_empty(), "{}", one.name);
        }
    }
}
