//! The cost of a switch from one thread or process to the next.
//!
//! The members of a ring pass a token. The member with the token reads its own working set and
//! passes the token on. In a second measurement, one member alone makes the same calls and reads
//! the same working set. The difference is the cost of a switch: to save and load a context, to
//! schedule, and to reload the cache lines that the other members displaced. Isa 2003, section
//! 4.3.2, measures 2 to 128 threads. McVoy and Staelin subtract the cost of passing in the same way
//! (lmbench, USENIX 1996).
//!
//! If all members run on one processor, each pass is a switch. Without pinning, the kernel may run
//! neighbours of the ring on different processors. A pass then wakes another processor, and few
//! passes cause a switch.

mod ring;

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::process;
use perpacket_linux::usage::Usage;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use serde::Serialize;

use crate::error::BenchError;
use crate::interval::{Limits, Median, Repetitions, median};
use crate::machine::{Machine, Pinned};
use ring::Ring;

/// Version of the report's layout.
const SCHEMA: u32 = 1;

/// How the cost of a switch is computed, printed with every report.
const METHOD: &str = "time of a pass of the token, less the time in which one member alone makes the \
                      same system calls and reads the same working set";

/// Maximum number of members of a ring.
pub const MAX_MEMBERS: usize = 4096;

/// Largest working set of a member, in bytes.
pub const LARGEST_BYTES: usize = 16 << 20;

/// Shortest timed stretch of rounds.
const SHORTEST: Duration = Duration::from_millis(1);

/// Bytes of a word of a working set.
const WORD_BYTES: usize = 8;

/// The kind of the members of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Threads of one process, which share its address space.
    Threads,
    /// Processes, each with an address space of its own.
    Processes,
}

impl Kind {
    /// Its name in files and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
        }
    }
}

/// The settings. The benchmark measures all combinations of them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kinds of members.
    pub kinds: Vec<Kind>,
    /// Sizes of rings, from 2 to [`MAX_MEMBERS`].
    pub members: Vec<usize>,
    /// Bytes that each member reads when it has the token, up to [`LARGEST_BYTES`].
    pub working_sets_bytes: Vec<usize>,
    /// Whether all members are pinned to one processor. If not, the kernel places them.
    pub pinned: Vec<bool>,
    /// Largest half width of an interval that counts as narrow enough, as a share of the median.
    pub precision: f64,
    /// Longest time for one point. It excludes the start of the members.
    pub point_limit: Duration,
    /// Processor of pinned members. `None` is the processor that starts the benchmark.
    pub cpu: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kinds: vec![Kind::Threads, Kind::Processes],
            members: vec![2, 4, 8, 16, 32, 64, 128],
            working_sets_bytes: vec![0, 4 << 10, 16 << 10, 64 << 10],
            pinned: vec![true, false],
            precision: 0.02,
            point_limit: Duration::from_millis(200),
            cpu: None,
        }
    }
}

/// The result of one combination.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SwitchRow {
    /// The kind of members.
    pub kind: Kind,
    /// Number of members.
    pub members: usize,
    /// Bytes that each member reads.
    pub working_set_bytes: usize,
    /// Whether all members were pinned to one processor.
    pub pinned: bool,
    /// Cost of a switch in nanoseconds; see `method`. It is negative if the noise is larger than
    /// the cost.
    pub ns_per_switch: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Repetitions.
    pub n: usize,
    /// Median time of a pass in nanoseconds.
    pub pass_ns: f64,
    /// Median time of a pass by one member alone, in nanoseconds. It is subtracted.
    pub passing_alone_ns: f64,
    /// Number of context switches of member 0 in each round of the token, voluntary or not. The
    /// number is at least 1 if each pass is a switch.
    pub departures_per_round: f64,
}

/// The result of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// Name of the benchmark.
    pub benchmark: &'static str,
    /// Whether all points were measured; false after an interruption.
    pub complete: bool,
    /// The machine that measured.
    pub machine: Machine,
    /// How the cost of a switch is computed.
    pub method: &'static str,
    /// Confidence of the intervals, as a fraction. With fewer than six repetitions the confidence
    /// is lower.
    pub confidence: f64,
    /// Largest half width of an interval that counts as narrow enough, as a share of the median.
    pub precision: f64,
    /// Points whose intervals are wider than that.
    pub imprecise_points: usize,
    /// Duration of the benchmark in seconds.
    pub duration_s: f64,
    /// All combinations.
    pub rows: Vec<SwitchRow>,
}

pub use crate::memory::Progress;

/// Measures all combinations. After each, `watch` receives the progress and may stop the benchmark.
///
/// # Errors
/// A setting is out of range, or the machine allows no more threads, processes or memory.
pub fn run(
    settings: &Settings,
    mut watch: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, BenchError> {
    check(settings)?;
    let begin = Instant::now();
    let machine = Machine::here();
    let cpu = settings.cpu.unwrap_or(machine.cpu);
    let points = points(settings);
    let mut rows = Vec::with_capacity(points.len());
    let mut repetitions = Repetitions::default();
    let mut complete = true;
    for (index, point) in points.iter().enumerate() {
        let pinned = point.pinned.then(|| Pinned::to(cpu)).transpose()?;
        rows.extend(measure(point, settings, &mut repetitions)?);
        drop(pinned);
        let progress = Progress {
            done: index + 1,
            points: points.len(),
            elapsed: begin.elapsed(),
        };
        if watch(progress).is_break() {
            complete = index + 1 == points.len();
            break;
        }
    }
    let imprecise = |row: &&SwitchRow| {
        (row.high - row.low) / 2.0 > settings.precision * row.ns_per_switch.abs()
    };
    Ok(Report {
        schema: SCHEMA,
        benchmark: "switch",
        complete,
        machine,
        method: METHOD,
        confidence: crate::interval::CONFIDENCE,
        precision: settings.precision,
        imprecise_points: rows.iter().filter(imprecise).count(),
        duration_s: begin.elapsed().as_secs_f64(),
        rows,
    })
}

fn check(settings: &Settings) -> Result<(), BenchError> {
    let wrong = |name, value: usize, expected| {
        Err(BenchError::Setting {
            name,
            value: value.to_string(),
            expected,
        })
    };
    for &members in &settings.members {
        if !(2..=MAX_MEMBERS).contains(&members) {
            return wrong("members", members, "from 2 to 4096 members");
        }
    }
    for &bytes in &settings.working_sets_bytes {
        if bytes > LARGEST_BYTES {
            return wrong("working-sets", bytes, "at most 16 MiB a member");
        }
    }
    if !(settings.precision > 0.0 && settings.precision < 1.0) {
        return Err(BenchError::Setting {
            name: "precision",
            value: settings.precision.to_string(),
            expected: "a share between 0 and 1",
        });
    }
    Ok(())
}

/// One combination of settings.
struct Point {
    kind: Kind,
    members: usize,
    working_set_bytes: usize,
    pinned: bool,
}

fn points(settings: &Settings) -> Vec<Point> {
    let mut points = Vec::new();
    for &kind in &settings.kinds {
        for &pinned in &settings.pinned {
            for &working_set_bytes in &settings.working_sets_bytes {
                points.extend(settings.members.iter().map(|&members| Point {
                    kind,
                    members,
                    working_set_bytes,
                    pinned,
                }));
            }
        }
    }
    points
}

/// Starts the members of a point, times their passes and waits for their end.
fn measure(
    point: &Point,
    settings: &Settings,
    repetitions: &mut Repetitions,
) -> Result<Option<SwitchRow>, BenchError> {
    let words_each = point.working_set_bytes / WORD_BYTES;
    // An odd number of lines lies between the working sets, so that they map to different sets of
    // the caches.
    let distance = words_each + 72;
    let mut memory = crate::words(point.members * distance, false)?;
    // Before the first write, all pages map to the kernel's zero page.
    memory.fill(1);
    let working_set = |member: usize| &memory[member * distance..][..words_each];
    let ring = Ring::new(point.members, point.kind == Kind::Processes)
        .map_err(BenchError::memory(point.members * WORD_BYTES))?;
    let failed = |member, source| BenchError::Member {
        member: member + 1,
        members: point.members,
        source,
    };
    match point.kind {
        Kind::Threads => thread::scope(|scope| {
            // The scope waits for all members, so the ring must end on every return.
            let ends_ring = EndsRing(&ring);
            for member in 1..point.members {
                let ring = &ring;
                let set = working_set(member);
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn_scoped(scope, move || ring.follow(member, set))
                    .map_err(|source| failed(member, source))?;
            }
            let row = time(point, &ring, working_set(0), settings, repetitions);
            drop(ends_ring);
            row
        }),
        Kind::Processes => {
            let mut children = Vec::with_capacity(point.members);
            // This must drop before the children, because dropping a child waits for its end.
            let ends_ring = EndsRing(&ring);
            for member in 1..point.members {
                let set = working_set(member);
                let child = process::fork(|| {
                    // If the parent died, the token would never return.
                    let _ = set_parent_process_death_signal(Some(Signal::KILL));
                    ring.follow(member, set);
                    0
                });
                match child {
                    Ok(child) => children.push(Child(child)),
                    Err(source) => {
                        drop(ends_ring);
                        return Err(failed(member, source));
                    }
                }
            }
            let row = time(point, &ring, working_set(0), settings, repetitions);
            drop(ends_ring);
            row
        }
    }
}

/// A forked member. Dropping it waits for its end, so the ring must end first.
struct Child(Pid);

impl Drop for Child {
    fn drop(&mut self) {
        while matches!(
            waitpid(Some(self.0), WaitOptions::empty()),
            Err(Errno::INTR)
        ) {}
    }
}

/// Ends a ring when dropped.
struct EndsRing<'a>(&'a Ring);

impl Drop for EndsRing<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Times rounds of the token and passes of one member alone, alternately.
fn time(
    point: &Point,
    ring: &Ring,
    working_set: &[u64],
    settings: &Settings,
    repetitions: &mut Repetitions,
) -> Result<Option<SwitchRow>, BenchError> {
    let lost = || BenchError::Lost {
        members: point.members,
    };
    let lead = |rounds: usize| {
        let begin = Instant::now();
        let back = ring.lead(rounds, working_set);
        back.then(|| begin.elapsed()).ok_or_else(lost)
    };
    let mut rounds = 1;
    while lead(rounds)? < SHORTEST {
        rounds *= 2;
    }
    let passes = rounds * point.members;
    let mut passes_ns = Vec::with_capacity(crate::interval::MAX_REPETITIONS);
    let mut alone = Vec::with_capacity(crate::interval::MAX_REPETITIONS);
    let mut rounds_led = 0;
    let departures_before = Usage::of_thread().switches();
    let limits = Limits {
        precision: settings.precision,
        time: settings.point_limit,
    };
    let cost = repetitions.until_precise(limits, || {
        let pass_ns = lead(rounds)?.as_nanos() as f64 / passes as f64;
        rounds_led += rounds;
        let begin = Instant::now();
        ring.pass_alone(passes, working_set);
        let alone_ns = begin.elapsed().as_nanos() as f64 / passes as f64;
        passes_ns.push(pass_ns);
        alone.push(alone_ns);
        Ok(pass_ns - alone_ns)
    })?;
    let departures = Usage::of_thread().switches() - departures_before;
    let departures_per_round = departures as f64 / rounds_led as f64;
    let middle = |values: &mut [f64]| median(values).map_or(f64::NAN, |median| median.value);
    Ok(cost.map(
        |Median {
             value,
             low,
             high,
             n,
         }| SwitchRow {
            kind: point.kind,
            members: point.members,
            working_set_bytes: point.working_set_bytes,
            pinned: point.pinned,
            ns_per_switch: value,
            low,
            high,
            n,
            pass_ns: middle(&mut passes_ns),
            passing_alone_ns: middle(&mut alone),
            departures_per_round,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(kinds: &[Kind], members: &[usize]) -> Settings {
        Settings {
            kinds: kinds.to_vec(),
            members: members.to_vec(),
            working_sets_bytes: vec![0, 4096],
            point_limit: Duration::ZERO,
            ..Settings::default()
        }
    }

    #[test]
    fn the_leader_switches_in_every_round_if_all_members_share_a_processor() {
        let settings = Settings {
            pinned: vec![true],
            ..quick(&[Kind::Threads, Kind::Processes], &[2, 5])
        };
        let report = run(&settings, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.rows.len(), 8);
        for row in &report.rows {
            assert!(row.departures_per_round > 0.9, "{row:?}");
            assert!(row.pass_ns > row.passing_alone_ns, "{row:?}");
        }
    }

    #[test]
    fn every_combination_has_a_row() {
        let settings = quick(&[Kind::Processes], &[2, 3, 4]);
        let report = run(&settings, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.rows.len(), 3 * 2 * 2);
        assert!(report.complete);
    }

    #[test]
    fn a_stopped_benchmark_reports_what_it_has_measured() {
        let settings = quick(&[Kind::Threads], &[2, 3]);
        let report = run(&settings, |_| ControlFlow::Break(())).unwrap();
        assert!(!report.complete);
        assert_eq!(report.rows.len(), 1);
    }

    #[test]
    fn a_ring_with_one_member_is_an_error() {
        let error = run(
            &quick(&[Kind::Threads], &[1]),
            |_| ControlFlow::Continue(()),
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "members = 1: expected from 2 to 4096 members"
        );
    }
}
