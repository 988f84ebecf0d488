//! Judges a measured number only if the machine was quiet. Fails only if the number is wrong
//! repeatedly.
#![expect(clippy::panic, reason = "a failure here is the test's failure")]

use perpacket_requirements::{DISTURBED, skip};
use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// Number of processors that other programs may use.
const MAX_OTHERS: f64 = 0.2;

/// Share of the processors' time that the hypervisor may steal.
const MAX_STEAL_SHARE: f64 = 0.01;

/// The parent of kernel threads.
const KERNEL_THREADS: u32 = 2;

/// Number of measurements before a number counts as wrong. Chance or a busy machine may spoil one
/// measurement, but a fault spoils all of them.
const TRIES: usize = 3;

/// Ticks of `/proc` in a second: `USER_HZ` is 100 on every architecture that this builds for.
const TICKS_PER_S: f64 = 100.0;

/// The verdict on a measured number.
pub enum Verdict {
    /// The number is right.
    Right,
    /// The number is wrong. The text has the difference.
    Wrong(String),
    /// The number cannot be judged. The text has the reason.
    Undecided(String),
}

/// Measures until the number is right. Skips the test if the number cannot be judged. Panics if the
/// number is wrong each time on a quiet machine.
pub fn judge(mut measure: impl FnMut() -> Verdict) {
    let mut wrong = Vec::new();
    for _ in 0..TRIES {
        let before = Snapshot::now();
        let why = match measure() {
            Verdict::Right => return,
            Verdict::Undecided(why) => why,
            Verdict::Wrong(what) => match before.disturbance() {
                Some(why) => why,
                None => {
                    eprintln!("wrong: {what}");
                    wrong.push(what);
                    continue;
                }
            },
        };
        skip(DISTURBED, why);
        return;
    }
    panic!("wrong each time: {}", wrong.join("; "));
}

/// A process in `/proc/PID/stat`.
struct Process {
    parent: u32,
    cpu_ticks: u64,
    began_ticks: u64,
}

/// The kernel's counts at one time.
struct Snapshot {
    at: Instant,
    processors: Vec<u64>,
    processes: HashMap<u32, Process>,
}

impl Snapshot {
    /// The counts now.
    fn now() -> Self {
        Self {
            at: Instant::now(),
            processors: processors(),
            processes: processes(),
        }
    }

    /// The disturbance since this snapshot, if there was one.
    fn disturbance(&self) -> Option<String> {
        let now = Self::now();
        let elapsed = |from: usize, to: usize| -> u64 {
            (from..to)
                .map(|n| now.processors[n].saturating_sub(self.processors[n]))
                .sum()
        };
        let steal = elapsed(7, 8) as f64 / elapsed(0, 8).max(1) as f64;
        if steal > MAX_STEAL_SHARE {
            return Some(format!(
                "the hypervisor stole {:.0} % of the processors' time",
                100.0 * steal
            ));
        }
        let ticks: u64 = now
            .processes
            .iter()
            .filter(|(pid, _)| !is_ours(**pid, &now.processes))
            .map(|(pid, process)| {
                let known = self.processes.get(pid);
                let known = known.filter(|known| known.began_ticks == process.began_ticks);
                process.cpu_ticks - known.map_or(0, |known| known.cpu_ticks)
            })
            .sum();
        let others = ticks as f64 / TICKS_PER_S / self.at.elapsed().as_secs_f64();
        (others > MAX_OTHERS).then(|| format!("other programs used {others:.2} processors"))
    }
}

/// User, nice, system, idle, iowait, irq, softirq, steal and guests' ticks, see `proc_stat(5)`.
fn processors() -> Vec<u64> {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let words = text.lines().next().unwrap().split_whitespace().skip(1);
    words.map(|word| word.parse().unwrap()).collect()
}

fn processes() -> HashMap<u32, Process> {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let numbers = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|pid: u32| Some((pid, process(pid)?)))
        .collect()
}

/// Returns `None` if the process has ended.
fn process(pid: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any character. The state follows the name.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        cpu_ticks: number(11)? + number(12)?,
        began_ticks: number(19)?,
    })
}

/// Whether a process is this one, a descendant of it, or a kernel thread.
fn is_ours(mut pid: u32, processes: &HashMap<u32, Process>) -> bool {
    while let Some(process) = processes.get(&pid) {
        if pid == std::process::id() || pid == KERNEL_THREADS {
            return true;
        }
        pid = process.parent;
    }
    false
}
