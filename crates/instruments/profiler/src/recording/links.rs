//! Reads the packets of the interfaces from the output of `ip -s -j link` (iproute2,
//! `ip/ipaddress.c`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::count::{Interface, Snapshot};
use crate::error::ProfileError;

#[derive(Deserialize)]
struct Link {
    ifname: String,
    // Older versions of ip write 32-bit counts in `stats`.
    #[serde(alias = "stats")]
    stats64: Directions,
}

#[derive(Deserialize)]
struct Directions {
    rx: Counts,
    tx: Counts,
}

#[derive(Deserialize)]
struct Counts {
    bytes: u64,
    packets: u64,
    dropped: u64,
}

/// Reads the counts of all interfaces.
pub(super) fn read(path: &Path) -> Result<Snapshot, ProfileError> {
    let text = fs::read_to_string(path).map_err(ProfileError::option_file("links", path))?;
    let links: Vec<Link> = serde_json::from_str(&text).map_err(|error| ProfileError::Links {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let interfaces: BTreeMap<_, _> = links
        .into_iter()
        .map(|link| {
            let (received, sent) = (link.stats64.rx, link.stats64.tx);
            let counts = Interface {
                packets_sent: sent.packets,
                packets_received: received.packets,
                bytes_sent: sent.bytes,
                bytes_received: received.bytes,
                drops: sent.dropped + received.dropped,
                interrupts: None,
            };
            (link.ifname, counts)
        })
        .collect();
    Ok(Snapshot::of_interfaces(interfaces))
}
