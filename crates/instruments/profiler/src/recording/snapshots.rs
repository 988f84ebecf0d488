//! The time between the two snapshots of the interfaces that the recorded command took.
//!
//! The recording itself has this time, because it contains the start of each program. Only the
//! samples between the snapshots may be divided by their packets.

use std::collections::{BTreeMap, HashMap, HashSet};

use perf_event_open_sys::bindings;

use super::file::{At, Event};
use super::sample::time_ns;
use crate::capture::Record;
use crate::capture::record::parse;
use crate::capture::ring::HEADER_BYTES;

/// The name of perf's child before it executes the recorded command
/// (`evlist__prepare_workload` in `tools/perf/util/evlist.c`).
const COMMAND_START: &str = "perf-exec";

/// The program that takes the snapshots.
const PROGRAM: &str = "ip";

/// The namespaces of a process, in pairs of device and inode, follow the process, the
/// thread and the number of pairs. The network's is the first (`NET_NS_INDEX`).
const NETWORK_NAMESPACE: usize = HEADER_BYTES + 24;

/// What the records show about the two snapshots.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Snapshots {
    /// Times of the snapshots, on the clock of the samples.
    pub times_ns: (u64, u64),
    /// Whether the recording has the namespaces of processes (`--namespaces`).
    pub has_namespaces: bool,
}

impl Snapshots {
    /// Searches the records, which are in the order of time. `server` is the process whose packets
    /// are counted.
    ///
    /// # Errors
    /// The recorded command did not run `ip` exactly twice, or in another network namespace.
    pub fn new(records: &[&[u8]], events: &[Event], server: Option<u32>) -> Result<Self, String> {
        let mut chain = Vec::new();
        let mut inside = HashSet::new();
        let mut namespaces = HashMap::new();
        let mut times = BTreeMap::new();
        for bytes in records {
            if At(bytes).u32(0) == Some(bindings::PERF_RECORD_SAMPLE) {
                continue;
            }
            if let Some((pid, inode)) = namespace(bytes) {
                namespaces.insert(pid, inode);
            }
            match parse(bytes, &mut chain) {
                Some(Record::Forked { pid, parent }) if pid != parent => {
                    let is_inside = inside.contains(&parent);
                    if is_inside {
                        inside.insert(pid);
                    } else {
                        inside.remove(&pid);
                    }
                }
                Some(Record::Command { pid, name, .. }) if name == COMMAND_START => {
                    inside.insert(pid);
                }
                // A process may execute `ip` twice: `ip netns exec` executes another program.
                Some(Record::Command {
                    pid,
                    name,
                    executed: true,
                    ..
                }) if name == PROGRAM && inside.contains(&pid) => {
                    times.insert(pid, time_ns(bytes, events));
                }
                _ => {}
            }
        }
        let mut runs: Vec<(u64, u32)> = times.into_iter().map(|(pid, time)| (time, pid)).collect();
        runs.sort_unstable();
        let &[(before, first), (after, second)] = &runs[..] else {
            return Err(format!(
                "the recorded command ran `ip` {} times, expected once at its start and once at its \
                 end",
                runs.len()
            ));
        };
        let of = |pid: u32| namespaces.get(&pid).copied();
        if of(first) != of(second) {
            return Err("the snapshots are of two network namespaces".to_owned());
        }
        if let Some(pid) = server
            && let (Some(own), Some(counted)) = (of(pid), of(first))
            && own != counted
        {
            return Err(format!(
                "the snapshots are not of the network namespace of process {pid}"
            ));
        }
        Ok(Self {
            times_ns: (before, after),
            has_namespaces: of(first).is_some(),
        })
    }

    /// Whether a time is between the snapshots.
    pub fn contain(&self, time_ns: u64) -> bool {
        (self.times_ns.0..=self.times_ns.1).contains(&time_ns)
    }
}

/// The process of a record of namespaces, and the inode of its network namespace.
fn namespace(bytes: &[u8]) -> Option<(u32, u64)> {
    let at = At(bytes);
    (at.u32(0)? == bindings::PERF_RECORD_NAMESPACES)
        .then(|| Some((at.u32(HEADER_BYTES)?, at.u64(NETWORK_NAMESPACE)?)))?
}
