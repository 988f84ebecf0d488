//! Whether the machine was quiet enough over a window to judge a number measured in it, and how
//! often it has to be wrong.
#![expect(clippy::panic, reason = "a failure here is the test's failure")]

use perpacket_requirements::{DISTURBED, skip};
use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// Processors that programs of others may take.
const OTHERS_MOST: f64 = 0.2;

/// Share of the processors' time that the machine below may give to others.
const STEAL_MOST: f64 = 0.01;

/// The parent of the kernel's own processes.
const KERNEL_THREADS: u32 = 2;

/// How often a number is measured before it is called wrong: chance and a busy machine may spoil one
/// time, a mistake in the program spoils each.
const TRIES: usize = 3;

/// Ticks of `/proc` in a second: `USER_HZ` is 100 on every architecture that this builds for.
const TICKS_PER_S: f64 = 100.0;

/// What a measured number says.
pub enum Verdict {
    /// It is as it has to be.
    Right,
    /// It is not.
    Wrong(String),
    /// Too little was seen to say it.
    Open(String),
}

/// Measures until the number is right. Prints why where nothing can be said, and panics where it is
/// wrong each time on a quiet machine.
pub fn judge(mut measure: impl FnMut() -> Verdict) {
    let mut wrong = Vec::new();
    for _ in 0..TRIES {
        let before = Look::now();
        let why = match measure() {
            Verdict::Right => return,
            Verdict::Open(why) => why,
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

/// A process as `/proc/PID/stat` tells of it.
struct Process {
    parent: u32,
    cpu_ticks: u64,
    began_ticks: u64,
}

/// What the kernel had counted up to a moment.
struct Look {
    at: Instant,
    processors: Vec<u64>,
    processes: HashMap<u32, Process>,
}

impl Look {
    /// What it has counted by now.
    fn now() -> Self {
        Self {
            at: Instant::now(),
            processors: processors(),
            processes: processes(),
        }
    }

    /// What disturbed the time since then.
    fn disturbance(&self) -> Option<String> {
        let now = Self::now();
        let passed = |from: usize, to: usize| -> u64 {
            (from..to)
                .map(|n| now.processors[n].saturating_sub(self.processors[n]))
                .sum()
        };
        let steal = passed(7, 8) as f64 / passed(0, 8).max(1) as f64;
        if steal > STEAL_MOST {
            return Some(format!(
                "the machine below took {:.0} % of the processors' time",
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
        (others > OTHERS_MOST).then(|| format!("other programs took {others:.2} processors"))
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

/// None where it is gone by now.
fn process(pid: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the state is the first field after it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        cpu_ticks: number(11)? + number(12)?,
        began_ticks: number(19)?,
    })
}

/// Whether a process is this one, descends from it, or is the kernel's.
fn is_ours(mut pid: u32, processes: &HashMap<u32, Process>) -> bool {
    while let Some(process) = processes.get(&pid) {
        if pid == std::process::id() || pid == KERNEL_THREADS {
            return true;
        }
        pid = process.parent;
    }
    false
}
