//! The run time of each processor, and the packets that it received.

use std::collections::BTreeMap;
use std::time::Instant;

use super::TICKS_PER_S;

/// The times and the received packets of each processor since the machine started.
#[derive(Clone, Debug)]
pub struct Processors {
    at: Instant,
    times: BTreeMap<usize, Ticks>,
    received: BTreeMap<usize, Received>,
}

/// Ticks that a processor did not work for this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    /// Idle time, including the time of waiting for disks.
    idle: u64,
    /// Time that the hypervisor stole.
    stolen: u64,
}

/// Packets that a processor received in softirqs (`/proc/net/softnet_stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets received.
    pub packets: u64,
    /// Packets dropped because the processor's backlog was full.
    pub drops: u64,
    /// How many times the softirq `NET_RX` stopped before its work was done.
    pub squeezes: u64,
}

/// The activity of a processor in a window.
///
/// The busy columns of `/proc/stat` count ticks, and miss processes that sleep between two ticks.
/// Its idle time is exact where the tick stops on idle processors (`kernel/time/tick-sched.c`). So
/// the run time is the window less the idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorActivity {
    /// Time between the reads of `/proc/stat`.
    pub window_s: f64,
    /// Idle time.
    pub idle_s: f64,
    /// Time that the hypervisor stole.
    pub stolen_s: f64,
    /// Packets that the processor received.
    pub received: Received,
}

impl ProcessorActivity {
    /// Largest error of the run time: `/proc/stat` rounds the idle time down to a tick at both ends.
    pub const RESOLUTION_S: f64 = 1.0 / TICKS_PER_S;

    /// The window less idle and stolen time.
    #[must_use]
    pub fn run_s(&self) -> f64 {
        (self.window_s - self.idle_s - self.stolen_s).max(0.0)
    }
}

impl Processors {
    /// The processors `cpus` in the texts of `/proc/stat` and `/proc/net/softnet_stat`.
    pub(super) fn parse(stat: &str, softnet: &str, cpus: &[usize]) -> Self {
        Self {
            at: Instant::now(),
            times: times(stat).filter(|(cpu, _)| cpus.contains(cpu)).collect(),
            received: received(softnet)
                .filter(|(cpu, _)| cpus.contains(cpu))
                .collect(),
        }
    }

    /// The activity of each processor that both reads have.
    pub(super) fn until(&self, later: &Self) -> BTreeMap<usize, ProcessorActivity> {
        let window_s = later.at.duration_since(self.at).as_secs_f64();
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / TICKS_PER_S;
        let both = later.times.iter().filter_map(|(cpu, now)| {
            let before = self.times.get(cpu)?;
            let [then, latest] = [self, later].map(|read| read.received.get(cpu).copied());
            let activity = ProcessorActivity {
                window_s,
                idle_s: seconds(now.idle, before.idle),
                stolen_s: seconds(now.stolen, before.stolen),
                received: latest.unwrap_or_default().since(then.unwrap_or_default()),
            };
            Some((*cpu, activity))
        });
        both.collect()
    }
}

/// The activity of each processor since the machine started, `uptime_s` ago.
pub(super) fn since_start(
    stat: &str,
    softnet: &str,
    uptime_s: f64,
) -> BTreeMap<usize, ProcessorActivity> {
    let received: BTreeMap<_, _> = received(softnet).collect();
    let row = |(cpu, ticks): (usize, Ticks)| {
        let activity = ProcessorActivity {
            window_s: uptime_s,
            idle_s: ticks.idle as f64 / TICKS_PER_S,
            stolen_s: ticks.stolen as f64 / TICKS_PER_S,
            received: received.get(&cpu).copied().unwrap_or_default(),
        };
        (cpu, activity)
    };
    times(stat).map(row).collect()
}

impl Default for Processors {
    fn default() -> Self {
        Self::parse("", "", &[])
    }
}

impl Received {
    const fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            drops: self.drops.saturating_sub(before.drops),
            squeezes: self.squeezes.saturating_sub(before.squeezes),
        }
    }
}

/// The times of each processor in `/proc/stat`: user, nice, system, idle, disk wait, interrupt,
/// softirq, stolen.
fn times(stat: &str) -> impl Iterator<Item = (usize, Ticks)> {
    stat.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let number = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
        let times: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
        let [_, _, _, idle, disk, _, _, stolen, ..] = times[..] else {
            return None;
        };
        let ticks = Ticks {
            idle: idle + disk,
            stolen,
        };
        Some((number, ticks))
    })
}

/// The lines of `/proc/net/softnet_stat`: hexadecimal numbers of one processor that is online. The
/// 13th is the processor; before Linux 5.10 it is absent, and lines are in the order of processors.
pub(super) fn received(softnet: &str) -> impl Iterator<Item = (usize, Received)> {
    softnet.lines().enumerate().filter_map(|(line, text)| {
        let fields: Vec<u64> = text
            .split_ascii_whitespace()
            .filter_map(|field| u64::from_str_radix(field, 16).ok())
            .collect();
        let [packets, drops, squeezes, ..] = fields[..] else {
            return None;
        };
        let cpu = fields.get(12).map_or(line, |&cpu| cpu as usize);
        let received = Received {
            packets,
            drops,
            squeezes,
        };
        Some((cpu, received))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_time_is_the_window_less_idle_and_stolen_time() {
        let before = "cpu  0 0 0 0\ncpu0 1 0 1 100 5 0 0 2 0 0\ncpu1 0 0 0 50 0 0 0 0 0 0\n";
        // The busy columns have no part in it: they count ticks.
        let after = "cpu0 1 0 9 300 15 0 0 12 0 0\ncpu1 70 0 0 50 0 0 0 0 0 0\n";
        let first = Processors::parse(before, "", &[0]);
        let mut second = Processors::parse(after, "", &[0]);
        second.at = first.at + std::time::Duration::from_secs(4);
        let activity = first.until(&second);
        assert_eq!(activity.keys().collect::<Vec<_>>(), [&0]);
        let found = activity[&0];
        assert!((found.idle_s - 2.1).abs() < 1e-9 && (found.stolen_s - 0.1).abs() < 1e-9);
        assert!((found.run_s() - 1.8).abs() < 1e-9);
    }

    #[test]
    fn a_processor_has_its_packets_drops_and_squeezes() {
        let zeros = "00000000 ".repeat(8);
        let newer = format!("0000000a 00000001 00000002 {zeros}00000000 00000003\n");
        let older = format!("00000007 00000000 00000000 {zeros}\n0000000b 00000000 00000000\n");
        let [found]: [_; 1] = received(&newer).collect::<Vec<_>>().try_into().unwrap();
        let expected = Received {
            packets: 10,
            drops: 1,
            squeezes: 2,
        };
        assert_eq!(found, (3, expected));
        let packets: Vec<_> = received(&older)
            .map(|(cpu, one)| (cpu, one.packets))
            .collect();
        assert_eq!(packets, [(0, 7), (1, 11)]);
    }
}
