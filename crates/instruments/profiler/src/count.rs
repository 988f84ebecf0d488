//! Counts over a window: packets, segments, context switches, page faults and drops.
//!
//! The kernel's text files are opened once and read at both ends of the window. An open file of a
//! network namespace remains readable after the end of its process.

mod interface;
mod processors;
mod queues;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Seek;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use perpacket_cost::{Directions, Window};
use perpacket_linux::{ethtool, text};
use serde::Serialize;

use crate::error::ProfileError;
use interface::devices;
use processors::received;
use queues::queues_of;

pub use interface::Interface;
pub use processors::{ProcessorActivity, Processors, Received};
pub use queues::{Carried, Queue};

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
    is_own_namespace: bool,
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
        self.file
            .rewind()
            .and_then(|()| text::read_rest(&mut self.file))
            .map_err(|source| ProfileError::file(&self.path, source))
    }
}

impl Sources {
    /// Opens the files of a process's network namespace, or of the caller's network namespace.
    ///
    /// # Errors
    /// A file cannot be opened, or the process does not exist.
    pub fn open(pid: Option<u32>) -> Result<Self, ProfileError> {
        Self::open_in(Path::new("/proc"), pid)
    }

    fn open_in(proc: &Path, pid: Option<u32>) -> Result<Self, ProfileError> {
        let process = pid.map_or("thread-self".to_owned(), |pid| pid.to_string());
        let process = proc.join(process);
        let net = process.join("net");
        let of = |path: &str| Source::open(proc.join(path));
        let namespace = |process: &Path| Some(fs::metadata(process.join("ns/net")).ok()?.ino());
        Ok(Self {
            devices: Source::open(net.join("dev"))?,
            snmp: Source::open(net.join("snmp"))?,
            netstat: Source::open(net.join("netstat"))?,
            softnet: of("net/softnet_stat")?,
            stat: of("stat")?,
            vmstat: of("vmstat")?,
            softirqs: of("softirqs")?,
            is_own_namespace: namespace(&process) == namespace(Path::new("/proc/thread-self")),
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
        let mut counters = named_pairs(&self.snmp.text()?);
        counters.extend(named_pairs(&self.netstat.text()?));
        counters.extend(counter(&stat, CONTEXT_SWITCHES));
        counters.extend(counter(&self.vmstat.text()?, PAGE_FAULTS));
        let mut devices = devices(&self.devices.text()?);
        let mut queues = BTreeMap::new();
        for (name, interface) in &mut devices {
            // sysfs has the interfaces of this process's namespace.
            let of_interface = (self.is_own_namespace)
                .then(|| queues_of(Path::new("/sys"), name, &driver_counters(name)))
                .flatten();
            let counts = of_interface.as_deref();
            interface.interrupts = counts.map(|queues| queues.iter().map(Queue::interrupts).sum());
            for queue in of_interface.into_iter().flatten() {
                queues.insert(queue.irq, queue);
            }
        }
        Ok(Snapshot {
            devices,
            queues,
            counters,
            backlog_drops: received(&softnet).map(|(_, counts)| counts.drops).sum(),
            processors,
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

/// The counters of an interface's driver; none if it has none.
fn driver_counters(interface: &str) -> Vec<(String, u64)> {
    ethtool::statistics(interface).unwrap_or_default()
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
        .filter_map(|name| queues_of(&sys, &name, &[]))
        .flatten()
        .collect();
    queues.sort_by_key(|queue| queue.irq);
    Ok((processors::since_start(&stat, &softnet, uptime_s), queues))
}

/// Counts from one call to the next. The namespace may change in between.
#[derive(Debug)]
pub struct Counter {
    sources: Sources,
    last: Snapshot,
}

impl Counter {
    /// Begins to count in the network namespace of a process, or in the caller's.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub fn new(pid: Option<u32>) -> Result<Self, ProfileError> {
        Self::of(Sources::open(pid)?, &[])
    }

    fn of(mut sources: Sources, cpus: &[usize]) -> Result<Self, ProfileError> {
        let last = sources.read(cpus)?;
        Ok(Self { sources, last })
    }

    /// The activity since the last call.
    ///
    /// # Errors
    /// The counts cannot be read. The next call then returns the activity of both.
    pub fn advance(&mut self, cpus: &[usize]) -> Result<Activity, ProfileError> {
        let now = self.sources.read(cpus)?;
        let activity = self.last.until(&now, 0.0);
        self.last = now;
        Ok(activity)
    }

    /// Continues in the namespace of another process.
    ///
    /// # Errors
    /// The counts cannot be read. The old namespace is then still counted.
    pub fn follow(&mut self, pid: u32, cpus: &[usize]) -> Result<(), ProfileError> {
        self.replace(Sources::open(Some(pid))?, cpus)
    }

    fn replace(&mut self, sources: Sources, cpus: &[usize]) -> Result<(), ProfileError> {
        *self = Self::of(sources, cpus)?;
        Ok(())
    }
}

/// The counts since the machine started.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    devices: BTreeMap<String, Interface>,
    /// Queues by the number of their interrupt.
    queues: BTreeMap<u32, Queue>,
    /// Counts by name: those of protocols, and two of the whole machine.
    counters: BTreeMap<String, u64>,
    backlog_drops: u64,
    processors: Processors,
    softirqs: BTreeMap<String, u64>,
}

/// Names of counters in `/proc/stat` and `/proc/vmstat`.
const CONTEXT_SWITCHES: &str = "ctxt";
const PAGE_FAULTS: &str = "pgfault";

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

/// TCP connections of the namespace that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Connections that programs accepted.
    pub accepted: u64,
    /// Connections that programs opened.
    pub opened: u64,
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
    /// Connections that began.
    pub connections: Connections,
    /// Dropped packets by place.
    pub drops: Drops,
    /// Counters that this kernel, or one end of the window, does not have. They add nothing.
    pub missing: BTreeSet<&'static str>,
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
        let mut missing = BTreeSet::new();
        let mut grown = |name: &'static str| {
            let (before, now) = (self.counters.get(name), later.counters.get(name));
            let both = before.zip(now);
            if both.is_none() {
                missing.insert(name);
            }
            both.map_or(0, |(before, now)| now.saturating_sub(*before))
        };
        let mut window = Window {
            duration_s,
            context_switches: grown(CONTEXT_SWITCHES),
            page_faults: grown(PAGE_FAULTS),
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
        window.segments = Directions {
            sent: grown("Tcp.OutSegs"),
            received: grown("Tcp.InSegs"),
        };
        drops.tcp = TCP_DROPS.into_iter().map(&mut grown).sum();
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
            connections: Connections {
                accepted: grown("Tcp.PassiveOpens"),
                opened: grown("Tcp.ActiveOpens"),
            },
            drops,
            missing,
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

/// A counter on a line of its own, after its name.
fn counter(text: &str, name: &str) -> Option<(String, u64)> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.into_iter().find(|&(key, _)| key == name)?;
    Some((name.to_owned(), value.trim().parse().ok()?))
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

    /// A machine of one process, 7, whose interface has received these packets.
    fn machine(proc: &Path, packets: u64) -> Sources {
        let file = |path: &str, text: &str| {
            let path = proc.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let device = format!("eth0: 1 {packets} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        file("7/net/dev", &device);
        let others = "7/net/snmp 7/net/netstat net/softnet_stat stat vmstat softirqs";
        others.split(' ').for_each(|name| file(name, ""));
        Sources::open_in(proc, Some(7)).unwrap()
    }

    #[test]
    fn a_namespace_that_cannot_be_read_is_not_counted_later() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        let mut counter = Counter::of(machine(&old, 10), &[]).unwrap();
        let mut broken = machine(&new, 100_000);
        // A folder can be opened and not be read.
        broken.vmstat = Source::open(new.join("net")).unwrap();
        assert!(counter.replace(broken, &[]).is_err());
        machine(&old, 12);
        let activity = counter.advance(&[]).unwrap();
        assert_eq!(activity.window.packets.received, 2);
        counter.replace(machine(&new, 100_000), &[]).unwrap();
        machine(&new, 100_003);
        let activity = counter.advance(&[]).unwrap();
        assert_eq!(activity.window.packets.received, 3);
    }

    #[test]
    fn sysfs_has_the_interfaces_of_the_own_namespace_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!machine(folder.path(), 1).is_own_namespace);
        assert!(Sources::open(None).unwrap().is_own_namespace);
    }

    #[test]
    fn the_activity_is_the_difference_of_two_snapshots() {
        let [mut before, mut after] = [(); 2].map(|()| Snapshot::default());
        for (name, then, now) in [("Tcp.OutSegs", 5, 12), ("Tcp.ActiveOpens", 40, 49)] {
            before.counters.insert(name.to_owned(), then);
            after.counters.insert(name.to_owned(), now);
        }
        // The first snapshot does not have this counter.
        after.counters.insert("ctxt".to_owned(), 1_000_000);
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
        assert_eq!(activity.window.segments.sent, 7);
        assert_eq!(activity.connections.opened, 9);
        assert_eq!(activity.window.context_switches, 0);
        assert!(activity.missing.contains("ctxt"));
        assert!(!activity.missing.contains("Tcp.OutSegs"));
        assert!(activity.interfaces.contains_key("lo"));
    }
}
