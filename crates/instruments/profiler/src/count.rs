//! Counts over a window: packets, segments, context switches, page faults and drops.
//!
//! The kernel's text files are opened once and read at both ends of the window. An open file of a
//! network namespace remains readable after the end of its process.

mod interface;
mod processors;
mod queues;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use perpacket_cost::{Directions, Window};
use serde::Serialize;

use crate::error::ProfileError;
use interface::devices;
use processors::received;
use queues::queues_of;

pub use interface::Interface;
pub use processors::{ProcessorActivity, Processors, Received};
pub use queues::Queue;

/// Ticks a second of the times in `/proc/stat` (`USER_HZ`, the same on every architecture Rust
/// knows).
pub const TICKS_PER_S: f64 = 100.0;

/// The files that contain the counts.
#[derive(Debug)]
pub struct Sources {
    devices: Source,
    snmp: Source,
    netstat: Source,
    softnet: Source,
    stat: Source,
    vmstat: Source,
    softirqs: Source,
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    file: File,
}

impl Source {
    fn open(path: PathBuf) -> Result<Self, ProfileError> {
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(ProfileError::file(path, source)),
        }
    }

    fn text(&mut self) -> Result<String, ProfileError> {
        let mut text = String::new();
        self.file
            .rewind()
            .and_then(|()| self.file.read_to_string(&mut text))
            .map_err(|source| ProfileError::file(&self.path, source))?;
        Ok(text)
    }
}

impl Sources {
    /// Opens the files of a process's network namespace, or of the caller's network namespace.
    ///
    /// # Errors
    /// A file cannot be opened, or the process does not exist.
    pub fn open(pid: Option<u32>) -> Result<Self, ProfileError> {
        let net = match pid {
            Some(pid) => Path::new("/proc").join(pid.to_string()).join("net"),
            None => PathBuf::from("/proc/thread-self/net"),
        };
        let of = |path: &str| Source::open(PathBuf::from(path));
        Ok(Self {
            devices: Source::open(net.join("dev"))?,
            snmp: Source::open(net.join("snmp"))?,
            netstat: Source::open(net.join("netstat"))?,
            softnet: of("/proc/net/softnet_stat")?,
            stat: of("/proc/stat")?,
            vmstat: of("/proc/vmstat")?,
            softirqs: of("/proc/softirqs")?,
        })
    }

    /// Reads all counts.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&mut self, cpus: &[usize]) -> Result<Snapshot, ProfileError> {
        let stat = self.stat.text()?;
        let softnet = self.softnet.text()?;
        let processors = Processors::parse(&stat, &softnet, cpus);
        let mut protocols = named_pairs(&self.snmp.text()?);
        protocols.extend(named_pairs(&self.netstat.text()?));
        let mut devices = devices(&self.devices.text()?);
        let mut queues = BTreeMap::new();
        for (name, interface) in &mut devices {
            let of_interface = queues_of(Path::new("/sys"), name);
            let counts = of_interface.as_deref();
            interface.interrupts = counts.map(|queues| queues.iter().map(Queue::interrupts).sum());
            for queue in of_interface.into_iter().flatten() {
                queues.insert(queue.irq, queue);
            }
        }
        Ok(Snapshot {
            devices,
            queues,
            protocols,
            backlog_drops: received(&softnet).map(|(_, counts)| counts.drops).sum(),
            processors,
            context_switches: value_of(&stat, "ctxt"),
            page_faults: value_of(&self.vmstat.text()?, "pgfault"),
            softirqs: softirqs(&self.softirqs.text()?, cpus),
        })
    }

    /// Reads only the times and the received packets of processors.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn processors(&mut self, cpus: &[usize]) -> Result<Processors, ProfileError> {
        let softnet = self.softnet.text()?;
        // Read the times last, because they are compared with those of the samples.
        Ok(Processors::parse(&self.stat.text()?, &softnet, cpus))
    }
}

/// The activity of processors, and the queues, of a machine since it started. `root` has its `proc`
/// and `sys`.
pub(crate) fn since_start(
    root: &Path,
) -> Result<(BTreeMap<usize, ProcessorActivity>, Vec<Queue>), ProfileError> {
    let text = |path: &str| Source::open(root.join(path))?.text();
    let stat = text("proc/stat")?;
    let softnet = text("proc/net/softnet_stat")?;
    let uptime = text("proc/uptime")?;
    let uptime_s = uptime.split_ascii_whitespace().next();
    let uptime_s = uptime_s.and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let sys = root.join("sys");
    let net = sys.join("class/net");
    let entries = fs::read_dir(&net).map_err(|source| ProfileError::file(&net, source))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut queues: Vec<_> = names
        .filter_map(|name| queues_of(&sys, &name))
        .flatten()
        .collect();
    queues.sort_by_key(|queue| queue.irq);
    Ok((processors::since_start(&stat, &softnet, uptime_s), queues))
}

/// The counts since the machine started.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    devices: BTreeMap<String, Interface>,
    /// Queues by the number of their interrupt.
    queues: BTreeMap<u32, Queue>,
    protocols: BTreeMap<String, u64>,
    backlog_drops: u64,
    processors: Processors,
    context_switches: u64,
    page_faults: u64,
    softirqs: BTreeMap<String, u64>,
}

/// The source that announces received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptSource {
    /// The interrupts of network interfaces.
    Interfaces,
    /// Runs of the softirq `NET_RX`. They are used if no interface has interrupts of its own.
    NetRx,
}

/// Numbers of dropped packets by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// Packets dropped by the interfaces, as the interfaces count them.
    pub interfaces: u64,
    /// Packets dropped from the processors' backlogs, on the whole machine.
    pub backlog: u64,
    /// Packets dropped by TCP: full accept queues, full socket backlogs, full receive buffers.
    pub tcp: u64,
    /// Packets dropped by UDP: full receive and send buffers.
    pub udp: u64,
}

impl Drops {
    /// The sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.interfaces + self.backlog + self.tcp + self.udp
    }
}

/// The difference of two snapshots.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// The counts that every window has. The caller adds the requests.
    pub window: Window,
    /// Counts by interface. Interfaces without traffic are omitted.
    pub interfaces: BTreeMap<String, Interface>,
    /// The queues of the interfaces, in the order of their interrupts' numbers.
    pub queues: Vec<Queue>,
    /// Datagrams sent and received.
    pub datagrams: Directions,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Dropped packets by place.
    pub drops: Drops,
    /// Softirqs by name on the chosen processors.
    pub softirqs: BTreeMap<String, u64>,
    /// Times and received packets of each processor that both snapshots have.
    pub processors: BTreeMap<usize, ProcessorActivity>,
}

/// TCP's counters of full queues and buffers in `/proc/net/netstat`.
const TCP_DROPS: [&str; 4] = [
    "TcpExt.ListenDrops",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.TCPReqQFullDrop",
];

impl Snapshot {
    /// A snapshot that has only counts of interfaces.
    pub(crate) fn of_interfaces(devices: BTreeMap<String, Interface>) -> Self {
        Self {
            devices,
            ..Self::default()
        }
    }

    /// Replaces the times and packets of processors by those of another moment.
    #[must_use]
    pub fn with_processors(self, processors: Processors) -> Self {
        Self { processors, ..self }
    }

    /// Whether this snapshot is older: some of its counts are lower, and none is higher.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let pairs: Vec<_> = self
            .devices
            .iter()
            .filter_map(|(name, own)| Some((*own, *other.devices.get(name)?)))
            .collect();
        pairs.iter().all(|(own, other)| own.is_at_most(*other))
            && !pairs.iter().all(|(own, other)| other.is_at_most(*own))
    }

    /// The activity from this snapshot to a later one.
    #[must_use]
    pub fn until(&self, later: &Self, duration_s: f64) -> Activity {
        let mut interfaces = BTreeMap::new();
        let mut window = Window {
            duration_s,
            context_switches: later.context_switches.saturating_sub(self.context_switches),
            page_faults: later.page_faults.saturating_sub(self.page_faults),
            ..Window::default()
        };
        let mut drops = Drops {
            backlog: later.backlog_drops.saturating_sub(self.backlog_drops),
            ..Drops::default()
        };
        for (name, now) in &later.devices {
            let before = self.devices.get(name).copied().unwrap_or_default();
            let new = now.since(before);
            window.packets.sent += new.packets_sent;
            window.packets.received += new.packets_received;
            window.bytes.sent += new.bytes_sent;
            window.bytes.received += new.bytes_received;
            drops.interfaces += new.drops;
            let traffic = Interface {
                interrupts: None,
                ..new
            };
            if traffic != Interface::default() {
                interfaces.insert(name.clone(), new);
            }
        }
        let grown = |name: &str| {
            let value = |of: &Self| of.protocols.get(name).copied().unwrap_or(0);
            value(later).saturating_sub(value(self))
        };
        window.segments = Directions {
            sent: grown("Tcp.OutSegs"),
            received: grown("Tcp.InSegs"),
        };
        drops.tcp = TCP_DROPS.into_iter().map(grown).sum();
        drops.udp = grown("Udp.RcvbufErrors") + grown("Udp.SndbufErrors");
        window.drops = drops.total();
        Activity {
            window,
            interfaces,
            queues: later
                .queues
                .iter()
                .map(|(irq, queue)| queue.since(self.queues.get(irq)))
                .collect(),
            datagrams: Directions {
                sent: grown("Udp.OutDatagrams"),
                received: grown("Udp.InDatagrams"),
            },
            retransmitted: grown("Tcp.RetransSegs"),
            drops,
            softirqs: differences(&self.softirqs, &later.softirqs),
            processors: self.processors.until(&later.processors),
        }
    }
}

impl Activity {
    /// The source that announced received packets, and its count. The source is the interrupts of
    /// the interfaces that had traffic, or the runs of `NET_RX` on the chosen processors.
    #[must_use]
    pub fn interrupts(&self) -> (InterruptSource, u64) {
        let counts = self.interfaces.values().filter_map(|one| one.interrupts);
        counts.reduce(|sum, count| sum + count).map_or_else(
            || {
                (
                    InterruptSource::NetRx,
                    self.softirqs.get("net_rx").copied().unwrap_or(0),
                )
            },
            |count| (InterruptSource::Interfaces, count),
        )
    }
}

fn differences(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    after
        .iter()
        .map(|(name, &now)| {
            let then = before.get(name).copied().unwrap_or(0);
            (name.clone(), now.saturating_sub(then))
        })
        .filter(|&(_, grown)| grown > 0)
        .collect()
}

/// Parses `/proc/net/snmp` and `netstat`. A line of values follows each line of names. Both lines
/// begin with the protocol and a colon.
fn named_pairs(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<_> = text.lines().collect();
    let mut values = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let (Some((protocol, names)), Some((_, numbers))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        let named = names
            .split_ascii_whitespace()
            .zip(numbers.split_ascii_whitespace());
        for (name, number) in named {
            if let Ok(number) = number.parse() {
                values.insert(format!("{protocol}.{name}"), number);
            }
        }
    }
    values
}

fn value_of(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|&(key, _)| key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

/// Parses `/proc/softirqs`. The first line lists the processors. The line of each softirq has a
/// count for each processor.
fn softirqs(text: &str, cpus: &[usize]) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let columns: Vec<bool> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(|name| {
            let number = name.strip_prefix("CPU").and_then(|text| text.parse().ok());
            number.is_some_and(|number: usize| cpus.contains(&number))
        })
        .collect();
    lines
        .filter_map(|line| {
            let (name, counts) = line.split_once(':')?;
            let chosen = counts
                .split_ascii_whitespace()
                .zip(&columns)
                .filter(|&(_, &chosen)| chosen)
                .filter_map(|(count, _)| count.parse::<u64>().ok());
            Some((name.trim().to_lowercase(), chosen.sum()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_go_by_protocol_and_name() {
        let text = "Tcp: InSegs OutSegs MaxConn\nTcp: 7 9 -1\nUdp: InDatagrams\nUdp: 3\n";
        let values = named_pairs(text);
        assert_eq!(values["Tcp.OutSegs"], 9);
        assert_eq!(values["Udp.InDatagrams"], 3);
        assert!(!values.contains_key("Tcp.MaxConn"));
    }

    #[test]
    fn softirqs_count_on_the_chosen_processors_only() {
        let text = "      CPU0  CPU1\nNET_RX:  4  70\n";
        assert_eq!(softirqs(text, &[1])["net_rx"], 70);
    }

    #[test]
    fn received_packets_are_announced_by_interrupts_or_else_by_the_softirq() {
        let counts = |packets_received, interrupts| Interface {
            packets_received,
            interrupts,
            ..Interface::default()
        };
        let activity = |interrupts| {
            let mut before = Snapshot::of_interfaces(BTreeMap::new());
            before.devices.insert("eth0".to_owned(), counts(4, Some(2)));
            let mut after = before.clone();
            after
                .devices
                .insert("eth0".to_owned(), counts(9, interrupts));
            after.softirqs.insert("net_rx".to_owned(), 7);
            before.until(&after, 1.0)
        };
        assert_eq!(
            activity(Some(5)).interrupts(),
            (InterruptSource::Interfaces, 3)
        );
        assert_eq!(activity(None).interrupts(), (InterruptSource::NetRx, 7));
    }

    #[test]
    fn the_activity_is_the_difference_of_two_snapshots() {
        let before = Snapshot::default();
        let mut after = Snapshot::default();
        after.protocols.insert("Tcp.OutSegs".to_owned(), 12);
        after.devices.insert(
            "lo".to_owned(),
            Interface {
                packets_sent: 3,
                packets_received: 3,
                ..Interface::default()
            },
        );
        let activity = before.until(&after, 2.0);
        assert_eq!(activity.window.packets.total(), 6);
        assert_eq!(activity.window.segments.sent, 12);
        assert!(activity.interfaces.contains_key("lo"));
    }
}
