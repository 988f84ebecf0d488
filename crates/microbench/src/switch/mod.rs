//! What it costs to hand the processor to the next thread or process.
//!
//! Members of a ring pass a token; who has it reads a working set of its own and passes it on. Time
//! for a pass less the time that the same calls and the same reading take one alone is the cost of
//! a switch: saving and loading a context, choosing who runs, and the cache lines that the working
//! sets of the others displaced. Isa 2003, section 4.3.2, has 2 to 128 threads; the way of taking
//! the passing off is that of McVoy and Staelin (lmbench, USENIX 1996).
//!
//! On one processor each pass is a switch. Without pinning the kernel may put neighbours on
//! different processors: then a pass wakes another processor instead, and little is switched.

mod ring;

use std::fs;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::process;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use serde::Serialize;

use crate::error::BenchError;
use crate::interval::{Median, Patience, Repetitions, median};
use crate::machine::{Machine, Pinned};
use ring::Ring;

/// Version of the report's layout.
const SCHEMA: u32 = 1;

/// What a pass is taken to cost, printed with every report.
const METHOD: &str = "time of a pass of the token less the time of the same system calls and the \
                      same reading done by one member alone";

/// Most members of a ring.
pub const MOST_MEMBERS: usize = 4096;

/// Largest working set of a member, in bytes.
pub const LARGEST_BYTES: usize = 16 << 20;

/// Shortest timed stretch of rounds.
const SHORTEST: Duration = Duration::from_millis(1);

/// Bytes of a word of a working set.
const WORD_BYTES: usize = 8;

/// What the members of a ring are.
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

/// What to measure: all combinations.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What members are.
    pub kinds: Vec<Kind>,
    /// Sizes of rings, from 2 to [`MOST_MEMBERS`].
    pub members: Vec<usize>,
    /// Bytes that each member reads when it has the token, up to [`LARGEST_BYTES`].
    pub working_sets_bytes: Vec<usize>,
    /// Whether all members are kept on one processor, or go where the kernel puts them.
    pub pinned: Vec<bool>,
    /// Half width of an interval that is narrow enough, as a share.
    pub precision: f64,
    /// Longest time for one point, not counting the start of its members.
    pub point_limit: Duration,
    /// Processor that pinned members run on; without it the one that begins.
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

/// One combination.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SwitchRow {
    /// What members are.
    pub kind: Kind,
    /// How many.
    pub members: usize,
    /// Bytes that each of them reads.
    pub working_set_bytes: usize,
    /// Whether all were kept on one processor.
    pub pinned: bool,
    /// Nanoseconds that a switch costs; see `method`. Below zero where noise is larger than it.
    pub ns_per_switch: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Repetitions.
    pub n: usize,
    /// Nanoseconds of a pass with everything, the median.
    pub pass_ns: f64,
    /// Nanoseconds of the passing and reading alone, the median: what was taken off.
    pub passing_alone_ns: f64,
    /// Times that member 0 left its processor for each round of the token, asleep or displaced by
    /// whom it woke: at least 1 where all passes switch.
    pub departures_per_round: f64,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// Which benchmark.
    pub benchmark: &'static str,
    /// Whether all points were measured; not so when it was interrupted.
    pub complete: bool,
    /// What measured.
    pub machine: Machine,
    /// How the cost of a switch is found.
    pub method: &'static str,
    /// Confidence the intervals aim at, a share; fewer than six repetitions reach less.
    pub confidence: f64,
    /// Half width of an interval that is narrow enough, as a share.
    pub precision: f64,
    /// Points whose intervals are wider than that.
    pub imprecise_points: usize,
    /// Time it all took, in seconds.
    pub duration_s: f64,
    /// All combinations.
    pub rows: Vec<SwitchRow>,
}

/// How far it has come.
pub use crate::memory::Progress;

/// Measures all combinations, telling `watch` after every one, which may break it off.
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
        if !(2..=MOST_MEMBERS).contains(&members) {
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

/// Starts the members of a point, times them, and sees them end.
fn measure(
    point: &Point,
    settings: &Settings,
    repetitions: &mut Repetitions,
) -> Result<Option<SwitchRow>, BenchError> {
    let words_each = point.working_set_bytes / WORD_BYTES;
    // An odd number of lines apart, so that the sets of members do not fall on the same places.
    let apart = words_each + 72;
    let mut memory = crate::words(point.members * apart, false)?;
    // Pages never written to are all the same page of zeros.
    memory.fill(1);
    let working_set = |member: usize| &memory[member * apart..][..words_each];
    let ring = Ring::new(point.members, point.kind == Kind::Processes)
        .map_err(BenchError::memory(point.members * WORD_BYTES))?;
    let failed = |member, source| BenchError::Member {
        member: member + 1,
        members: point.members,
        source,
    };
    match point.kind {
        Kind::Threads => thread::scope(|scope| {
            // Opened on the way out, whatever happens, since the scope waits for all members.
            let over = EndsRing(&ring);
            for member in 1..point.members {
                let ring = &ring;
                let set = working_set(member);
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn_scoped(scope, move || ring.follow(member, set))
                    .map_err(|source| failed(member, source))?;
            }
            let row = time(point, &ring, working_set(0), settings, repetitions);
            drop(over);
            row
        }),
        Kind::Processes => {
            let mut children = Vec::with_capacity(point.members);
            // Dropped before the children, which are waited for.
            let over = EndsRing(&ring);
            for member in 1..point.members {
                let set = working_set(member);
                let child = process::fork(|| {
                    // Without a parent nobody would open this child's lock again.
                    let _ = set_parent_process_death_signal(Some(Signal::KILL));
                    ring.follow(member, set);
                    0
                });
                match child {
                    Ok(child) => children.push(Child(child)),
                    Err(source) => {
                        drop(over);
                        return Err(failed(member, source));
                    }
                }
            }
            let row = time(point, &ring, working_set(0), settings, repetitions);
            drop(over);
            row
        }
    }
}

/// A forked member, which is waited for when dropped: the ring has ended by then.
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

/// Times rounds of the token and passing alone in turn.
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
    let mut with_all = Vec::with_capacity(crate::interval::MOST_REPETITIONS);
    let mut alone = Vec::with_capacity(crate::interval::MOST_REPETITIONS);
    let mut rounds_led = 0;
    let departures_before = departures();
    let patience = Patience {
        precision: settings.precision,
        limit: settings.point_limit,
    };
    let known = repetitions.until_known(patience, || {
        let pass_ns = lead(rounds)?.as_nanos() as f64 / passes as f64;
        rounds_led += rounds;
        let begin = Instant::now();
        ring.pass_alone(passes, working_set);
        let alone_ns = begin.elapsed().as_nanos() as f64 / passes as f64;
        with_all.push(pass_ns);
        alone.push(alone_ns);
        Ok(pass_ns - alone_ns)
    })?;
    let departures_per_round = (departures() - departures_before) as f64 / rounds_led as f64;
    let middle = |values: &mut [f64]| median(values).map_or(f64::NAN, |median| median.value);
    Ok(known.map(
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
            pass_ns: middle(&mut with_all),
            passing_alone_ns: middle(&mut alone),
            departures_per_round,
        },
    ))
}

/// Times that this thread left its processor so far (proc(5), `voluntary_ctxt_switches` and
/// `nonvoluntary_ctxt_switches`).
fn departures() -> u64 {
    fs::read_to_string("/proc/thread-self/status")
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once("voluntary_ctxt_switches:"))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
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
    fn on_one_processor_the_leader_leaves_it_every_round_threads_and_processes_alike() {
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
    fn every_combination_has_its_row_and_no_process_is_left() {
        let settings = quick(&[Kind::Processes], &[2, 3, 4]);
        let report = run(&settings, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.rows.len(), 3 * 2 * 2);
        assert!(report.complete);
    }

    #[test]
    fn broken_off_it_gives_what_it_has() {
        let settings = quick(&[Kind::Threads], &[2, 3]);
        let report = run(&settings, |_| ControlFlow::Break(())).unwrap();
        assert!(!report.complete);
        assert_eq!(report.rows.len(), 1);
    }

    #[test]
    fn a_ring_of_one_is_refused() {
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
