//! What the machine allows a client, checked before the run: a generator that runs into a limit in
//! the middle of a run measures the limit.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::LoadError;
use crate::sources::SourceAddresses;

/// Descriptors a process needs besides its connections: standard streams, files, epoll.
const OTHER_DESCRIPTORS: u64 = 64;
/// Where Linux keeps the first and last port it gives to clients.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Its default, where the file cannot be read.
const DEFAULT_PORTS: u64 = 28_232;

/// Raises the soft limit of open files as far as is needed and allowed.
pub(crate) fn ensure_descriptors(connections: u64) -> Result<(), LoadError> {
    let needed = connections + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum.map(|maximum| maximum.max(needed)),
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| LoadError::Limit {
        resource: "open files",
        needed,
        available: limit.maximum.or(limit.current).unwrap_or_default(),
        hint: format!(
            "ask for fewer connections, or raise the hard limit: `ulimit -Hn {needed}` as root, or \
             several processes with `--shard I/N`"
        ),
    })
}

/// Whether there are ports enough for so many connections to one address and port.
pub(crate) fn check_ports(
    connections: u64,
    sources: &SourceAddresses,
    to: SocketAddr,
) -> Result<(), LoadError> {
    let range = fs::read_to_string(PORT_RANGE).ok().and_then(|text| {
        let mut ends = text.split_whitespace().map(str::parse::<u64>);
        let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
        last.checked_sub(first).map(|difference| difference + 1)
    });
    let available = range.unwrap_or(DEFAULT_PORTS) * sources.count();
    if connections <= available {
        return Ok(());
    }
    let example = match to.ip() {
        IpAddr::V4(address) if address.is_loopback() => "127.0.0.2-127.0.0.9",
        _ => "FIRST-LAST",
    };
    Err(LoadError::Limit {
        resource: "client ports",
        needed: connections,
        available,
        hint: format!(
            "name more source addresses with `--source {example}`, or widen net.ipv4.ip_local_port_range"
        ),
    })
}

/// Binds the calling thread to one processor.
pub(crate) fn pin(cpu: usize) -> Result<(), LoadError> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(LoadError::Usage(format!(
            "cpu {cpu}: expected a number below {}",
            CpuSet::MAX_CPU
        )));
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).map_err(|error| LoadError::Usage(format!("cpu {cpu}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_named_before_the_run() {
        let to = SocketAddr::from(([127, 0, 0, 1], 80));
        let error = check_ports(70_000, &SourceAddresses::default(), to).unwrap_err();
        assert!(
            error.to_string().starts_with("client ports: 70000 needed"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("--source 127.0.0.2"));
        let many = "127.0.0.2-127.0.0.9".parse().unwrap();
        assert!(check_ports(70_000, &many, to).is_ok());
    }
}
