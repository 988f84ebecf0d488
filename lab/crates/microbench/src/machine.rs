//! The machine that produced a result: processor, caches, page size, clock.

use std::fs;
use std::path::Path;
use std::time::Instant;

use perpacket_linux::affinity;
use rustix::thread::{sched_getaffinity, sched_getcpu};
use serde::Serialize;

use crate::error::BenchError;

/// The folder in which the kernel describes its processors
/// (Documentation/ABI/testing/sysfs-devices-system-cpu).
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// Size of a cache line in bytes, if the kernel does not report it.
const USUAL_LINE_BYTES: usize = 64;

/// The machine that measured.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Name of the processor, if the kernel reports it.
    pub processor: Option<String>,
    /// Number of the processor that the first thread ran on.
    pub cpu: usize,
    /// Number of processors that the process may use.
    pub cpus_allowed: usize,
    /// Data and unified caches of that processor, the nearest first.
    pub caches: Vec<Cache>,
    /// Bytes of an ordinary page.
    pub page_bytes: usize,
    /// The clock of all times.
    pub clock: Clock,
}

/// A cache as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// Level, starting at 1.
    pub level: u32,
    /// Capacity in bytes.
    pub size_bytes: usize,
    /// Lines in a set, if known.
    pub ways: Option<u32>,
    pub line_bytes: usize,
    /// Processors that share the cache, in the kernel's notation.
    pub shared_cpus: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    /// Name of the interface.
    pub name: &'static str,
    /// The kernel's clock source, such as `tsc`.
    pub source: Option<String>,
    /// Time of one clock reading in nanoseconds: the lowest of five means.
    pub read_ns: f64,
}

impl Machine {
    /// Describes the machine as seen from the processor that runs this.
    pub fn here() -> Self {
        let cpu = sched_getcpu();
        let caches = caches_in(&Path::new(PROCESSORS).join(format!("cpu{cpu}/cache")));
        Self {
            processor: processor(),
            cpu,
            cpus_allowed: sched_getaffinity(None).map_or(1, |set| set.count() as usize),
            caches,
            page_bytes: rustix::param::page_size(),
            clock: Clock::here(),
        }
    }

    /// Bytes of a line of the nearest cache.
    pub fn line_bytes(&self) -> usize {
        self.caches
            .first()
            .map_or(USUAL_LINE_BYTES, |cache| cache.line_bytes)
    }

    /// Bytes of the last cache, if any is known.
    pub fn last_cache_bytes(&self) -> Option<usize> {
        self.caches.iter().map(|cache| cache.size_bytes).max()
    }
}

impl Clock {
    fn here() -> Self {
        const READINGS: usize = 1000;
        let mut best_ns = f64::INFINITY;
        for _ in 0..5 {
            let begin = Instant::now();
            for _ in 0..READINGS {
                std::hint::black_box(Instant::now());
            }
            best_ns = best_ns.min(begin.elapsed().as_nanos() as f64 / READINGS as f64);
        }
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        Self {
            name: "CLOCK_MONOTONIC",
            source: word(Path::new(source)),
            read_ns: best_ns,
        }
    }
}

/// The data and unified caches of a processor's `cache` folder; empty without the folder.
fn caches_in(folder: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> = (0..)
        .map(|index| folder.join(format!("index{index}")))
        .take_while(|entry| entry.is_dir())
        .filter_map(|entry| cache(&entry))
        .collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn cache(folder: &Path) -> Option<Cache> {
    if word(&folder.join("type"))? == "Instruction" {
        return None;
    }
    let number = |name| word(&folder.join(name)).and_then(|text| text.parse::<u32>().ok());
    let line_bytes = number("coherency_line_size").map_or(USUAL_LINE_BYTES, |bytes| bytes as usize);
    Some(Cache {
        level: number("level")?,
        size_bytes: size(&word(&folder.join("size"))?)?,
        ways: number("ways_of_associativity").filter(|&ways| ways > 0),
        line_bytes,
        shared_cpus: word(&folder.join("shared_cpu_list")).unwrap_or_default(),
    })
}

/// A size as the kernel writes it: `32K`.
fn size(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1 << 20),
            None => (text, 1),
        },
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

fn word(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Binds this thread to one CPU. Dropping it restores the CPUs that the thread could use before.
#[derive(Debug)]
pub struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    /// Binds the thread to `cpu`. Threads and processes that it starts inherit the binding.
    ///
    /// # Errors
    /// The CPU does not exist, or this process may not use it.
    pub fn to(cpu: usize) -> Result<Self, BenchError> {
        let failed = |source| BenchError::Pin { cpu, source };
        let before = affinity::allowed().map_err(failed)?;
        affinity::bind(&[cpu]).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The thread could use these CPUs before, so this fails only if the CPUs are gone.
        let _ = affinity::bind(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_unified_caches_are_read_without_instruction_caches() {
        let folder = tempfile::tempdir().unwrap();
        let entries = [
            ("Data", "1", "32K", "8"),
            ("Instruction", "1", "32K", "8"),
            ("Unified", "2", "1024K", "8"),
        ];
        for (index, (kind, level, size, ways)) in entries.into_iter().enumerate() {
            let entry = folder.path().join(format!("index{index}"));
            fs::create_dir(&entry).unwrap();
            for (name, value) in [
                ("type", kind),
                ("level", level),
                ("size", size),
                ("ways_of_associativity", ways),
                ("coherency_line_size", "64"),
                ("shared_cpu_list", "0"),
            ] {
                fs::write(entry.join(name), format!("{value}\n")).unwrap();
            }
        }
        let caches = caches_in(folder.path());
        let sizes: Vec<_> = caches.iter().map(|cache| cache.size_bytes).collect();
        assert_eq!(sizes, [32 << 10, 1 << 20]);
        assert_eq!(caches[1].ways, Some(8));
    }

    #[test]
    fn dropping_a_binding_restores_the_cpus() {
        let before = affinity::allowed().unwrap();
        {
            let _pinned = Pinned::to(before[0]).unwrap();
            assert_eq!(affinity::allowed().unwrap(), before[..1]);
        }
        assert_eq!(affinity::allowed().unwrap(), before);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error_that_names_it() {
        let error = Pinned::to(100_000).unwrap_err();
        assert!(error.to_string().contains("CPU 100000"), "{error}");
    }
}
