//! The rows of processors in a report, and what is uneven about them.

use std::path::Path;

use perpacket_cost::{EventKind, Layer};
use perpacket_linux::cpus;
use serde::Serialize;

use crate::calibration::Calibration;
use crate::count::{self, ProcessorActivity, Queue};
use crate::error::ProfileError;
use crate::passes::{PassResult, Passes, SECOND_NS, part, per};
use crate::report::{Closure, Named, Processor, QueueLoad};
use crate::sums::{Sums, busy, measured_layers};

/// Packets of a processor over its fair share, from which it receives too many.
const UNFAIR: f64 = 1.5;

/// Share of the window from which a processor that receives too many packets is a limit.
const LOADED: f64 = 0.5;

/// Share of the window below which a processor counts as idle.
const IDLE: f64 = 0.2;

/// Fewest packets from which a distribution over processors follows.
const MIN_PACKETS: u64 = 1000;

/// A row for each processor whose times are known, from the pass that sampled time, or else from the
/// main pass.
pub(crate) fn processors(passes: &Passes<'_>) -> Vec<Processor> {
    let pass = passes.of(EventKind::CpuNs).unwrap_or(passes.main);
    let known = || known_processors(pass);
    let all: u64 = known().map(|row| row.activity.received.packets).sum();
    known().map(|row| row.report(all)).collect()
}

/// The processors and queues of a machine since it started.
#[derive(Clone, Debug, Serialize)]
pub struct SinceStart {
    /// The processors, without samples.
    pub processors: Vec<Processor>,
    /// The queues of the interfaces.
    pub queues: Vec<QueueLoad>,
    /// Conclusions from the numbers.
    pub findings: Vec<String>,
}

impl SinceStart {
    /// Reads a machine from a folder with its `proc` and `sys`: `/`, or a copy.
    ///
    /// # Errors
    /// A file is missing.
    pub fn read(root: &Path) -> Result<Self, ProfileError> {
        let (activity, queues) = count::since_start(root)?;
        let (sums, calibration) = (Sums::default(), Calibration::default());
        let known: Vec<_> = activity
            .iter()
            .map(|(cpu, activity)| Known {
                cpu: *cpu,
                activity: *activity,
                sums: &sums,
                calibration: &calibration,
                counts_time: false,
            })
            .collect();
        let all = known.iter().map(|row| row.activity.received.packets).sum();
        let processors: Vec<_> = known.iter().map(|row| row.report(all)).collect();
        Ok(Self {
            queues: loads(&queues, &processors)
                .map(|load| QueueLoad {
                    softirq_share: None,
                    ..load
                })
                .collect(),
            findings: imbalance(&processors).into_iter().collect(),
            processors,
        })
    }
}

/// A processor whose times are known.
struct Known<'a> {
    cpu: usize,
    activity: ProcessorActivity,
    sums: &'a Sums,
    calibration: &'a Calibration,
    counts_time: bool,
}

fn known_processors(pass: &PassResult) -> impl Iterator<Item = Known<'_>> {
    let counts_time = pass.tally.event == EventKind::CpuNs;
    pass.activity
        .processors
        .iter()
        .filter_map(move |(cpu, activity)| {
            let (sums, calibration) = pass.tally.processors.get(cpu)?;
            Some(Known {
                cpu: *cpu,
                activity: *activity,
                sums,
                calibration,
                counts_time,
            })
        })
}

impl Known<'_> {
    fn report(&self, all_packets: u64) -> Processor {
        let whole = busy(self.sums);
        let layer = |layer: Layer| {
            let weight: f64 = self.sums.cells[layer].iter().map(|(_, &one)| one).sum();
            (weight > 0.0).then(|| (layer.name().to_owned(), part(weight, whole)))
        };
        let received = self.activity.received;
        // Without calibration there is no number of its time.
        let is_known = !self.counts_time || self.calibration.factor.is_some();
        Processor {
            cpu: self.cpu,
            run_s: self.activity.run_s(),
            run_share: part(self.activity.run_s(), self.activity.window_s),
            sampled_s: self.calibration.sampled_s,
            calibration: self.calibration.factor,
            layers: Named(measured_layers().filter_map(layer).collect()),
            softirq_share: is_known.then(|| part(self.sums.softirq, whole)),
            packets: received.packets,
            packet_share: part(received.packets as f64, all_packets as f64),
            cpu_ns_per_packet: per(whole, received.packets)
                .filter(|_| self.counts_time && is_known),
            squeezes: received.squeezes,
            drops: received.drops,
        }
    }
}

/// The sum of the layers compared with the run time; `None` without samples of time or without times.
pub(crate) fn closure(passes: &Passes<'_>) -> Option<Closure> {
    let pass = passes.of(EventKind::CpuNs)?;
    let times = &pass.activity.processors;
    let stat_cpu_s: f64 = times.values().map(ProcessorActivity::run_s).sum();
    let error_s = ProcessorActivity::RESOLUTION_S * times.len() as f64;
    if stat_cpu_s <= error_s {
        return None;
    }
    let profile_cpu_s = pass.tally.busy() / SECOND_NS;
    let processors = pass.tally.processors.values();
    let sampled = processors.map(|(_, calibration)| calibration.sampled_s);
    // The kernel's accounts have no samples of a processor.
    let sampled_s = Some(sampled.sum()).filter(|&sampled_s: &f64| sampled_s > 0.0);
    Some(Closure {
        profile_cpu_s,
        stat_cpu_s,
        difference: profile_cpu_s / stat_cpu_s - 1.0,
        resolution: error_s / stat_cpu_s,
        sampled_cpu_s: sampled_s.unwrap_or(profile_cpu_s),
    })
}

/// The queues of the interfaces, with the processors that serve them.
pub(crate) fn queues(passes: &Passes<'_>, processors: &[Processor]) -> Vec<QueueLoad> {
    loads(&passes.main.activity.queues, processors).collect()
}

fn loads(queues: &[Queue], processors: &[Processor]) -> impl Iterator<Item = QueueLoad> {
    queues.iter().map(|queue| {
        let served_by = queue.served_by();
        let row = processors.iter().find(|row| Some(row.cpu) == served_by);
        QueueLoad {
            interrupts: queue.interrupts(),
            served_by,
            softirq_share: row.and_then(|row| row.softirq_share),
            queue: queue.clone(),
        }
    })
}

/// A sentence if some processors receive too many of the packets and are busy, while others are not.
pub(crate) fn imbalance(processors: &[Processor]) -> Option<String> {
    let packets: u64 = processors.iter().map(|row| row.packets).sum();
    let fair = 1.0 / processors.len().max(1) as f64;
    let (loaded, others): (Vec<_>, Vec<_>) = processors
        .iter()
        .partition(|row| row.packet_share > UNFAIR * fair && row.run_share >= LOADED);
    let mean = |rows: &[&Processor]| {
        let sum: f64 = rows.iter().map(|row| row.run_share).sum();
        sum / rows.len().max(1) as f64
    };
    // An application may keep a few of the others busy. The packets could go to the rest.
    let mut busy: Vec<_> = others.iter().map(|row| row.run_share).collect();
    busy.sort_by(f64::total_cmp);
    let median = busy.get(busy.len().saturating_sub(1) / 2);
    let is_uneven = !loaded.is_empty() && median < Some(&(mean(&loaded) / 2.0));
    if packets < MIN_PACKETS || others.is_empty() || !is_uneven {
        return None;
    }
    let share: f64 = loaded.iter().map(|row| row.packet_share).sum();
    let cpus: Vec<_> = loaded.iter().map(|row| row.cpu).collect();
    let [subject, receive, are] = match cpus.len() {
        1 => ["CPU", "receives", "is"],
        _ => ["CPUs", "receive", "are on average"],
    };
    let idle = others.iter().filter(|row| row.run_share < IDLE).count();
    let rest = match (idle, others.len()) {
        (1, 1) => "the other is idle".to_owned(),
        (idle, all) if idle == all => format!("the {all} others are idle"),
        (0, _) => format!(
            "the others are {:.0} % busy on average",
            100.0 * mean(&others)
        ),
        (1, all) => format!("1 of the {all} others is idle"),
        (idle, all) => format!("{idle} of the {all} others are idle"),
    };
    Some(format!(
        "{subject} {} {receive} {:.0} % of packets and {are} {:.0} % busy; {rest}",
        cpus::format(&cpus),
        100.0 * share,
        100.0 * mean(&loaded)
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn rows(of: &[(u64, f64)]) -> Vec<Processor> {
        let all: u64 = of.iter().map(|(packets, _)| packets).sum();
        let row = |(cpu, &(packets, run_share)): (usize, &(u64, f64))| Processor {
            cpu,
            run_s: run_share,
            run_share,
            sampled_s: run_share,
            calibration: None,
            layers: Named(Vec::new()),
            softirq_share: Some(0.0),
            packets,
            packet_share: part(packets as f64, all as f64),
            cpu_ns_per_packet: None,
            squeezes: 0,
            drops: 0,
        };
        of.iter().enumerate().map(row).collect()
    }

    #[test]
    fn one_processor_that_receives_most_packets_is_an_imbalance() {
        let uneven = rows(&[(7100, 0.98), (1000, 0.1), (1000, 0.1), (900, 0.05)]);
        assert_eq!(
            imbalance(&uneven).unwrap(),
            "CPU 0 receives 71 % of packets and is 98 % busy; the 3 others are idle"
        );
        let several = rows(&[
            (5000, 0.9),
            (5000, 0.7),
            (0, 0.1),
            (0, 0.3),
            (0, 0.1),
            (0, 0.1),
        ]);
        assert_eq!(
            imbalance(&several).unwrap(),
            "CPUs 0-1 receive 100 % of packets and are on average 80 % busy; 3 of the 4 others are idle"
        );
    }

    /// A machine of 256 processors and 128 queues, up for 1000 s. `hot` processors serve all queues.
    fn machine(hot: usize) -> SinceStart {
        let root = tempfile::tempdir().unwrap();
        let file = |path: String, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let is_hot = |cpu: usize| cpu < hot;
        let stat = (0..256).map(|cpu| {
            let idle = if is_hot(cpu) { 5_000 } else { 98_000 };
            format!("cpu{cpu} 1 0 1 {idle} 0 0 0 0 0 0\n")
        });
        let softnet = (0..256).map(|cpu| {
            let packets = if is_hot(cpu) { 100_000 } else { 10 };
            format!("{packets:08x} 0 0 0 0 0 0 0 0 0 0 0 {cpu:08x}\n")
        });
        file("proc/stat".to_owned(), &stat.collect::<String>());
        file("proc/uptime".to_owned(), "1000.00 5.00\n");
        file(
            "proc/net/softnet_stat".to_owned(),
            &softnet.collect::<String>(),
        );
        file("sys/class/net/eth0/uevent".to_owned(), "");
        for queue in 0..128 {
            let irq = 100 + queue;
            let counts = (0..256).map(|cpu| if cpu == queue % hot { "900" } else { "0" });
            file(format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix");
            file(
                format!("sys/kernel/irq/{irq}/actions"),
                &format!("eth0-{queue}\n"),
            );
            file(
                format!("sys/kernel/irq/{irq}/per_cpu_count"),
                &counts.collect::<Vec<_>>().join(","),
            );
        }
        SinceStart::read(root.path()).unwrap()
    }

    #[test]
    fn a_machine_of_256_processors_is_read_from_a_folder() {
        let pinned = machine(2);
        assert_eq!((pinned.processors.len(), pinned.queues.len()), (256, 128));
        assert_eq!(
            pinned.findings,
            [
                "CPUs 0-1 receive 99 % of packets and are on average 95 % busy; the 254 others are idle"
            ]
        );
        let last = &pinned.queues[127];
        assert_eq!(
            (last.queue.name.as_str(), last.served_by),
            ("eth0-127", Some(1))
        );
        assert_eq!(last.interrupts, 900);
        assert!(machine(256).findings.is_empty());
        let lacking = SinceStart::read(Path::new("/nonexistent")).unwrap_err();
        assert!(lacking.to_string().contains("/nonexistent/proc/stat"));
    }

    #[test]
    fn spread_packets_and_a_processor_that_is_not_busy_are_none() {
        let spread = [(2500, 0.9), (2600, 0.9), (2400, 0.8), (2500, 0.9)];
        assert_eq!(imbalance(&rows(&spread)), None);
        // One processor receives, and the applications keep the others busy.
        assert_eq!(
            imbalance(&rows(&[(9000, 0.9), (0, 0.8), (0, 0.8), (0, 0.9)])),
            None
        );
        assert_eq!(imbalance(&rows(&[(9000, 0.3), (0, 0.1)])), None);
        // An application on one of the others does not hide it.
        let beside = rows(&[(9000, 0.8), (0, 0.0), (0, 0.3), (1000, 1.0)]);
        assert!(
            imbalance(&beside)
                .unwrap()
                .ends_with("; 1 of the 3 others is idle")
        );
        assert_eq!(imbalance(&rows(&[(10, 0.9), (0, 0.1)])), None);
        assert_eq!(imbalance(&rows(&[(9000, 0.9)])), None);
        assert_eq!(imbalance(&[]), None);
    }
}
