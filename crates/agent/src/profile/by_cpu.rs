//! The processors and queues of a profile as text. If there are many processors, the text has their quantiles and the
//! outliers.

use std::fmt::Write;

use perpacket_profiler::count::Carried;
use perpacket_profiler::limits::FEW;
use perpacket_profiler::report::{Processor, QueueLoad};

use super::table::seconds;

/// Most processors that each have a row. If there are more, the text has quantiles and outliers.
const ROWS: usize = 16;

/// Number of outliers with a row.
const OUTLIERS: usize = 8;

/// Number of layers in a row.
const LAYERS: usize = 3;

/// A column of numbers.
type Column = (&'static str, fn(&Processor) -> Option<f64>);

/// The columns: their titles with units, and their values.
const COLUMNS: [Column; 8] = [
    ("busy %", |row| Some(100.0 * row.run_share)),
    ("calibrated", |row| row.calibration),
    ("softirq %", |row| Some(100.0 * row.softirq_share?)),
    ("packets", |row| Some(row.packets as f64)),
    ("of all %", |row| Some(100.0 * row.packet_share)),
    ("ns/packet", |row| {
        row.cpu_ns_per_packet.filter(|_| row.packets >= FEW)
    }),
    ("squeezes", |row| Some(row.squeezes as f64)),
    ("drops", |row| Some(row.drops as f64)),
];

/// Appends the tables of processors and queues.
pub fn render(text: &mut String, processors: &[Processor], queues: &[QueueLoad]) {
    if processors.is_empty() {
        text.push_str("\nthe run times of processors are not known: there is no table of them\n");
    } else {
        table(text, processors);
    }
    if !queues.is_empty() {
        most_interrupts(text, queues);
    }
}

fn most_interrupts(text: &mut String, queues: &[QueueLoad]) {
    let mut rows: Vec<_> = queues.iter().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.interrupts), row.queue.irq));
    let _ = writeln!(
        text,
        "\n{:<28}{:>6}{:>12}{:>8}{:>12}{:>12}{:>12}{:>14}",
        "queue", "irq", "interrupts", "CPU", "softirq %", "received", "sent", "bytes"
    );
    for row in rows.iter().take(ROWS) {
        let name = format!("{} {}", row.queue.interface, row.queue.name);
        let cpu = row
            .served_by
            .map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        let softirq = shown(row.softirq_share.map(|share| 100.0 * share));
        let _ = writeln!(
            text,
            "{name:<28}{:>6}{:>12}{cpu:>8}{softirq:>12}{}",
            row.queue.irq,
            row.interrupts,
            carried(row.queue.carried)
        );
    }
    if let Some(others) = rows.get(ROWS..).filter(|others| !others.is_empty()) {
        let sum: u64 = others.iter().map(|row| row.interrupts).sum();
        let _ = writeln!(text, "{} other queues with {sum} interrupts", others.len());
    }
}

/// The packets of a queue received and sent, and the bytes of both.
fn carried(counts: Option<Carried>) -> String {
    let [received, sent, bytes] = match counts {
        Some(Carried { packets, bytes }) => {
            [packets.received, packets.sent, bytes.total()].map(|count| count.to_string())
        }
        None => ["-"; 3].map(str::to_owned),
    };
    format!("{received:>12}{sent:>12}{bytes:>14}")
}

fn table(text: &mut String, processors: &[Processor]) {
    let rows: Vec<_> = processors.iter().collect();
    let _ = write!(text, "\n{:<8}{:>8}", "CPU", "run s");
    for (title, _) in COLUMNS {
        let _ = write!(text, "{title:>12}");
    }
    text.push_str("  largest layers\n");
    if rows.len() <= ROWS {
        for row in rows {
            line(text, row);
        }
        return;
    }
    for (name, share) in [
        ("min", 0.0),
        ("25 %", 0.25),
        ("median", 0.5),
        ("75 %", 0.75),
        ("max", 1.0),
    ] {
        let _ = write!(text, "{name:<8}");
        let _ = write!(text, "{:>8}", quantile(&rows, share, |row| Some(row.run_s)));
        for (_, value) in COLUMNS {
            let _ = write!(text, "{:>12}", quantile(&rows, share, value));
        }
        text.push('\n');
    }
    for row in outliers(rows) {
        line(text, row);
    }
}

fn line(text: &mut String, row: &Processor) {
    let _ = write!(text, "{:<8}{:>8}", row.cpu, seconds(row.run_s));
    for (_, value) in COLUMNS {
        let _ = write!(text, "{:>12}", shown(value(row)));
    }
    let mut layers: Vec<_> = row.layers.0.iter().collect();
    layers.sort_by(|a, b| b.1.total_cmp(&a.1));
    let largest: Vec<_> = layers
        .into_iter()
        .take(LAYERS)
        .map(|(name, share)| format!("{name} {:.0} %", 100.0 * share))
        .collect();
    // Without a share of softirqs, the samples do not show the processor's time.
    let shown = row
        .softirq_share
        .map_or("-".to_owned(), |_| largest.join(", "));
    let _ = writeln!(text, "  {shown}");
}

fn shown(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn quantile(rows: &[&Processor], share: f64, value: fn(&Processor) -> Option<f64>) -> String {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| value(row)).collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    shown(values.get((last * share).round() as usize).copied())
}

/// The processors farthest from the median in busy time or in packets, in the order of their numbers.
fn outliers(mut rows: Vec<&Processor>) -> Vec<&Processor> {
    let median = |value: fn(&Processor) -> f64| {
        let mut values: Vec<f64> = rows.iter().map(|row| value(row)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (busy, packets) = (median(|row| row.run_share), median(|row| row.packet_share));
    let distance = |row: &Processor| {
        let of_packets = (row.packet_share - packets).abs();
        (row.run_share - busy).abs().max(of_packets)
    };
    rows.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    rows.truncate(OUTLIERS);
    rows.sort_by_key(|row| row.cpu);
    rows
}

#[cfg(test)]
mod tests {
    use perpacket_profiler::report::Named;

    use super::*;

    fn row(cpu: usize, run_share: f64) -> Processor {
        Processor {
            cpu,
            run_s: run_share,
            run_share,
            sampled_s: run_share,
            calibration: None,
            layers: Named(Vec::new()),
            softirq_share: None,
            packets: 0,
            packet_share: 0.0,
            cpu_ns_per_packet: None,
            squeezes: 0,
            drops: 0,
        }
    }

    #[test]
    fn a_processor_that_was_not_calibrated_has_no_number() {
        let of = |softirq_share, ns| {
            let mut text = String::new();
            let row = Processor {
                softirq_share,
                cpu_ns_per_packet: ns,
                layers: Named(vec![("tcp".to_owned(), 1.0)]),
                packets: 100,
                ..row(3, 0.5)
            };
            line(&mut text, &row);
            text.split_ascii_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let known = of(Some(0.25), Some(900.0));
        assert_eq!(known[4], "25.00");
        assert_eq!(known[7..], ["900", "0", "0", "tcp", "100", "%"]);
        let unknown = of(None, None);
        assert_eq!((unknown[4].as_str(), unknown[7].as_str()), ("-", "-"));
        assert_eq!(unknown.last().unwrap(), "-");
    }

    #[test]
    fn of_two_hundred_processors_the_outliers_are_listed() {
        let rows: Vec<_> = (0..200)
            .map(|cpu| {
                row(
                    cpu,
                    if cpu % 90 == 7 {
                        0.9
                    } else {
                        0.1 + cpu as f64 * 1e-6
                    },
                )
            })
            .collect();
        let rows: Vec<_> = rows.iter().collect();
        let listed: Vec<_> = outliers(rows.clone()).iter().map(|row| row.cpu).collect();
        assert_eq!(listed.len(), OUTLIERS);
        assert!(
            [7, 97, 187].iter().all(|cpu| listed.contains(cpu)),
            "{listed:?}"
        );
        assert_eq!(quantile(&rows, 1.0, |row| Some(row.run_share)), "0.90");
    }
}
