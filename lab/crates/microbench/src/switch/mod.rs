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

use clap::{Args, ValueEnum};
use perpacket_linux::process;
use perpacket_linux::usage::Usage;
use perpacket_spec::{Size, SpecError, Switch, Time, Whole};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::BenchError;
use crate::interval::{Limits, Median, Repetitions, median};
use crate::machine::{Machine, Pinned};
use crate::repeating::Repeating;
use ring::Ring;

/// Version of the report's layout.
const SCHEMA: u32 = 1;

/// How the cost of a switch is computed, printed with every report.
const METHOD: &str = "time of a pass of the token, less the time in which one member alone makes the \
                      same system calls and reads the same working set";

/// Maximum number of members of a ring.
const MAX_MEMBERS: u32 = 4096;

/// Largest working set of a member.
const LARGEST: Size = Size(16 << 20);

/// Shortest timed stretch of rounds.
const SHORTEST: Duration = Duration::from_millis(1);

/// Bytes of a word of a working set.
const WORD_BYTES: usize = 8;

/// The kind of the members of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Threads of one process, which share its address space.
    Threads,
    /// Processes, each with an address space of its own.
    Processes,
}

impl Kind {
    /// Its name in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
        }
    }
}

/// Cost of a context switch between threads and between processes.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// Kinds of members of the ring that passes a token, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["threads", "processes"])]
    pub kinds: Vec<Kind>,
    /// Numbers of members, separated by commas, each from 2 to 4096.
    #[arg(long, value_name = "N", value_delimiter = ',',
          default_values = ["2", "4", "8", "16", "32", "64", "128"])]
    pub members: Vec<Whole<2, MAX_MEMBERS>>,
    /// Bytes that each member reads when it has the token, separated by commas.
    #[arg(long, value_name = "SIZE", value_delimiter = ',',
          default_values = ["0", "4KiB", "16KiB", "64KiB"])]
    pub working_sets: Vec<Size>,
    /// Whether all members are pinned to one processor; `on,off` measures both.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["on", "off"])]
    pub pinned: Vec<Switch>,
    /// Longest time for a point, without the start of the members.
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub point_limit: Time,
    /// How often a point is repeated.
    #[command(flatten)]
    #[serde(flatten)]
    pub repeating: Repeating,
}

impl perpacket_spec::Spec for Spec {
    fn resolved(self) -> Result<Self, SpecError> {
        if let Some(size) = self.working_sets.iter().find(|size| **size > LARGEST) {
            return Err(SpecError::new(format!(
                "--working-sets {size}: expected at most {LARGEST} a member"
            )));
        }
        self.repeating.check()?;
        Ok(self)
    }
}

/// The result of one combination.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SwitchRow {
    /// The kind of members.
    pub kind: Kind,
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
    spec: &Spec,
    mut watch: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, BenchError> {
    let begin = Instant::now();
    let machine = Machine::here();
    let cpu = spec.repeating.cpu.unwrap_or(machine.cpu);
    let points = points(spec);
    let mut rows = Vec::with_capacity(points.len());
    let mut repetitions = Repetitions::default();
    let mut complete = true;
    for (index, point) in points.iter().enumerate() {
        let pinned = point.pinned.then(|| Pinned::to(cpu)).transpose()?;
        rows.extend(measure(point, spec, &mut repetitions)?);
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
        (row.high - row.low) / 2.0 > spec.repeating.precision.0 * row.ns_per_switch.abs()
    };
    Ok(Report {
        schema: SCHEMA,
        benchmark: "switch",
        complete,
        machine,
        method: METHOD,
        confidence: crate::interval::CONFIDENCE,
        precision: spec.repeating.precision.0,
        imprecise_points: rows.iter().filter(imprecise).count(),
        duration_s: begin.elapsed().as_secs_f64(),
        rows,
    })
}

/// One combination of spec.
struct Point {
    kind: Kind,
    members: usize,
    working_set_bytes: usize,
    pinned: bool,
}

fn points(spec: &Spec) -> Vec<Point> {
    let mut points = Vec::new();
    for &kind in &spec.kinds {
        for pinned in spec.pinned.iter().map(|&pinned| pinned == Switch::On) {
            for working_set_bytes in spec.working_sets.iter().map(|size| size.as_usize()) {
                points.extend(spec.members.iter().map(|members| Point {
                    kind,
                    members: members.count(),
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
    spec: &Spec,
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
            let row = time(point, &ring, working_set(0), spec, repetitions);
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
            let row = time(point, &ring, working_set(0), spec, repetitions);
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
    spec: &Spec,
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
        precision: spec.repeating.precision.0,
        time: spec.point_limit.0,
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
    use perpacket_spec::parse;

    fn quick(kinds: &str, members: &str) -> Spec {
        let line = format!("--kinds {kinds} --members {members}");
        parse(&format!("{line} --working-sets 0,4KiB --point-limit 0")).unwrap()
    }

    #[test]
    fn the_leader_switches_in_every_round_if_all_members_share_a_processor() {
        let spec = Spec {
            pinned: vec![Switch::On],
            ..quick("threads,processes", "2,5")
        };
        let report = run(&spec, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.rows.len(), 8);
        for row in &report.rows {
            assert!(row.departures_per_round > 0.9, "{row:?}");
            assert!(row.pass_ns > row.passing_alone_ns, "{row:?}");
        }
    }

    #[test]
    fn every_combination_has_a_row() {
        let spec = quick("processes", "2,3,4");
        let report = run(&spec, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.rows.len(), 3 * 2 * 2);
        assert!(report.complete);
    }

    #[test]
    fn a_stopped_benchmark_reports_what_it_has_measured() {
        let spec = quick("threads", "2,3");
        let report = run(&spec, |_| ControlFlow::Break(())).unwrap();
        assert!(!report.complete);
        assert_eq!(report.rows.len(), 1);
    }

    #[test]
    fn a_ring_with_one_member_is_an_error() {
        let error = parse::<Spec>("--members 1").unwrap_err().message;
        assert!(
            error.contains("expected a whole number from 2 to 4096"),
            "{error}"
        );
    }
}
