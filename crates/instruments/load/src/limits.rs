//! Limits of the machine, checked before the run. A load that reached a limit would measure the
//! limit instead of the server.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use perpacket_linux::{affinity, descriptors};

use crate::error::LoadError;
use crate::sources::SourceAddresses;

/// Number of file descriptors that are not connections: standard streams, files, epoll.
const OTHER_DESCRIPTORS: u64 = 64;
/// First and last port that the kernel assigns to clients.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Number of ports in the kernel's default range.
const DEFAULT_PORTS: u64 = 28_232;

/// Raises the limit of open files if necessary.
pub(crate) fn ensure_descriptors(connections: u64) -> Result<(), LoadError> {
    let needed = connections + OTHER_DESCRIPTORS;
    let available = descriptors::raise(needed);
    if available >= needed {
        return Ok(());
    }
    Err(LoadError::Limit {
        resource: "open files",
        needed,
        available,
        hint: format!(
            "ask for fewer connections, raise the hard limit with `ulimit -Hn {needed}` as root, \
             or run several processes with `--shard I/N`"
        ),
    })
}

/// Checks that there are enough ports for the connections to one address and port.
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

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: usize) -> Result<(), LoadError> {
    affinity::bind(&[cpu]).map_err(|error| LoadError::Usage(format!("cpu {cpu}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_ports_are_an_error_before_the_run() {
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
