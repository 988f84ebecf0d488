//! Reads the packets of the interfaces from the output of `ip -s -j link` (iproute2,
//! `ip/ipaddress.c`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::count::{Activity, Interface, Snapshot};
use crate::error::ProfileError;

#[derive(Deserialize)]
struct Link {
    ifname: String,
    ifindex: Option<u32>,
    address: Option<String>,
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

impl Link {
    fn counts(&self) -> Interface {
        let (received, sent) = (&self.stats64.rx, &self.stats64.tx);
        Interface {
            packets_sent: sent.packets,
            packets_received: received.packets,
            bytes_sent: sent.bytes,
            bytes_received: received.bytes,
            drops: sent.dropped + received.dropped,
            interrupts: None,
        }
    }

    const fn is_loopback(&self) -> bool {
        matches!(self.ifname.as_bytes(), b"lo")
    }
}

/// The traffic between two snapshots.
///
/// # Errors
/// A file is not a snapshot, or the files are not an earlier and a later one of one network
/// namespace.
pub(super) fn traffic(before: &Path, after: &Path) -> Result<Activity, ProfileError> {
    let (first, second) = (read(before)?, read(after)?);
    let wrong = |reason: String| ProfileError::Links {
        path: after.to_owned(),
        reason,
    };
    for link in &second {
        let is_other = |other: &&Link| {
            other.ifname == link.ifname
                && (other.ifindex != link.ifindex || other.address != link.address)
        };
        if first.iter().any(|other| is_other(&other)) {
            return Err(wrong(format!(
                "{} has another index or address than in {}: the files are of two network namespaces",
                link.ifname,
                before.display()
            )));
        }
    }
    let wires = |links: &[Link]| -> BTreeSet<String> {
        let wires = links.iter().filter(|link| !link.is_loopback());
        wires.map(|link| link.ifname.clone()).collect()
    };
    let (old, new) = (wires(&first), wires(&second));
    if old.is_disjoint(&new) && old != new {
        return Err(wrong(format!(
            "no interface is also in {}: the files are of two network namespaces",
            before.display()
        )));
    }
    let [first, second] = [first, second].map(|links| {
        let counts = links
            .iter()
            .map(|link| (link.ifname.clone(), link.counts()));
        Snapshot::of_interfaces(counts.collect())
    });
    if second.is_before(&first) {
        return Err(wrong(format!("it is older than {}", before.display())));
    }
    Ok(first.until(&second, 0.0))
}

fn read(path: &Path) -> Result<Vec<Link>, ProfileError> {
    // A name of an interface may be any bytes.
    let bytes = fs::read(path).map_err(ProfileError::option_file("links", path))?;
    serde_json::from_str(&String::from_utf8_lossy(&bytes)).map_err(|error| ProfileError::Links {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
