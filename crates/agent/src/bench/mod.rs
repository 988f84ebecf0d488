//! `bench`: what memory and context switches cost on this machine.

mod tables;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Subcommand;
use perpacket_microbench::BenchError;
use perpacket_microbench::memory::{self, Operation, Progress};
use perpacket_microbench::switch::{self, Kind};
use serde::Serialize;

use crate::options::{Named, Size, Switch, Time, one_of};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::stop;
use tables::{memory_csv, memory_table, switch_csv, switch_table};

/// The verbs of `bench`.
#[derive(Subcommand)]
pub enum Verb {
    /// Bandwidth over working set and stride, latency of dependent loads, and the caches that this
    /// latency shows.
    Memory(MemoryArguments),
    /// Cost of a context switch between threads and between processes.
    Switch(SwitchArguments),
}

/// Shown after the options of `bench memory`.
const MEMORY_EXAMPLE: &str = "\
Example: copy at stride 1 up to 64 MiB, also as a file:

  perpacket-agent bench memory --operations copy --strides 1 --largest 64MiB --csv copy.csv

MB/s are 10^6 bytes a second.";

/// Shown after the options of `bench switch`.
const SWITCH_EXAMPLE: &str = "\
Example: threads on processor 1 without a working set:

  perpacket-agent bench switch --kinds threads --working-sets 0 --pinned on --cpu 1";

/// Options of `bench memory`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = MEMORY_EXAMPLE)]
pub struct MemoryArguments {
    /// Operations on memory, separated by commas.
    #[arg(long, value_parser = one_of(OPERATIONS), value_delimiter = ',',
          default_values = ["load", "store", "copy"])]
    operations: Vec<Operation>,
    /// Words of 8 bytes from one access to the next, separated by commas: powers of two from 1 to 256.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', default_values_t = memory::STRIDES)]
    strides: Vec<usize>,
    /// Smallest working set.
    #[arg(long, value_name = "SIZE", default_value_t = Size(memory::SMALLEST_BYTES as u64))]
    smallest: Size,
    /// Largest working set; without it, four times the last cache.
    #[arg(long, value_name = "SIZE")]
    largest: Option<Size>,
    /// Do not measure the latency of dependent loads.
    #[arg(long)]
    no_chain: bool,
    #[command(flatten)]
    #[serde(flatten)]
    repeating: Repeating,
}

/// Options of `bench switch`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = SWITCH_EXAMPLE)]
pub struct SwitchArguments {
    /// Kinds of members of the ring that passes a token, separated by commas.
    #[arg(long, value_parser = one_of(KINDS), value_delimiter = ',',
          default_values = ["threads", "processes"])]
    kinds: Vec<Kind>,
    /// Numbers of members, separated by commas, each from 2 to 4096.
    #[arg(long, value_name = "N", value_delimiter = ',',
          default_values_t = [2, 4, 8, 16, 32, 64, 128])]
    members: Vec<usize>,
    /// Bytes that each member reads when it has the token, separated by commas.
    #[arg(long, value_name = "SIZE", value_delimiter = ',',
          default_values_t = [0, 4 << 10, 16 << 10, 64 << 10].map(Size))]
    working_sets: Vec<Size>,
    /// Whether all members are pinned to one processor; `on,off` measures both.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["on", "off"])]
    pinned: Vec<Switch>,
    #[command(flatten)]
    #[serde(flatten)]
    repeating: Repeating,
}

/// Options of both verbs.
#[derive(Debug, clap::Args, Serialize)]
struct Repeating {
    /// Repeat each point until half the width of its confidence interval is this share of its
    /// median, or time is up.
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    precision: f64,
    /// Longest time for a point [default: 40ms for memory, 200ms for switches].
    #[arg(long, value_name = "TIME")]
    point_limit: Option<Time>,
    /// Processor to run on; by default the one that starts the benchmark.
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Write the rows to this file, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

const OPERATIONS: &[Named<Operation>] = &[
    ("load", Operation::Load, ""),
    ("store", Operation::Store, ""),
    ("copy", Operation::Copy, ""),
    ("triad", Operation::Triad, ""),
];

const KINDS: &[Named<Kind>] = &[
    ("threads", Kind::Threads, ""),
    ("processes", Kind::Processes, ""),
];

/// Runs a verb.
pub fn run(verb: Verb) -> Result<Status, Failure> {
    match verb {
        Verb::Memory(arguments) => run_memory(&arguments),
        Verb::Switch(arguments) => run_switch(&arguments),
    }
}

fn run_memory(arguments: &MemoryArguments) -> Result<Status, Failure> {
    let defaults = memory::Settings::default();
    let settings = memory::Settings {
        operations: arguments.operations.clone(),
        strides: arguments.strides.clone(),
        smallest_bytes: arguments.smallest.as_usize(),
        largest_bytes: arguments.largest.map(Size::as_usize),
        precision: arguments.repeating.precision,
        point_limit: arguments.repeating.limit(defaults.point_limit),
        chain: !arguments.no_chain,
        cpu: arguments.repeating.cpu,
    };
    arguments.repeating.measure(
        arguments,
        |watch| memory::run(&settings, watch),
        memory_csv,
        memory_table,
        |report| report.complete,
    )
}

fn run_switch(arguments: &SwitchArguments) -> Result<Status, Failure> {
    let defaults = switch::Settings::default();
    let settings = switch::Settings {
        kinds: arguments.kinds.clone(),
        members: arguments.members.clone(),
        working_sets_bytes: arguments
            .working_sets
            .iter()
            .map(|size| size.as_usize())
            .collect(),
        pinned: arguments
            .pinned
            .iter()
            .map(|&pinned| pinned == Switch::On)
            .collect(),
        precision: arguments.repeating.precision,
        point_limit: arguments.repeating.limit(defaults.point_limit),
        cpu: arguments.repeating.cpu,
    };
    arguments.repeating.measure(
        arguments,
        |watch| switch::run(&settings, watch),
        switch_csv,
        switch_table,
        |report| report.complete,
    )
}

/// A function that receives a benchmark's progress and decides whether to go on.
type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

impl Repeating {
    fn limit(&self, default: Duration) -> Duration {
        self.point_limit.map_or(default, |time| time.0)
    }

    /// Prints the configuration if `--show-config` requests it. Otherwise measures and prints.
    fn measure<A: Serialize, R: Serialize>(
        &self,
        arguments: &A,
        benchmark: impl FnOnce(Watch<'_>) -> Result<R, BenchError>,
        csv: impl FnOnce(&R) -> String,
        table: impl FnOnce(&R) -> String,
        is_complete: impl FnOnce(&R) -> bool,
    ) -> Result<Status, Failure> {
        if self.shared.shows_config(arguments)? {
            return Ok(Status::Done);
        }
        let report = benchmark(&mut watch(&self.shared)?).map_err(failure)?;
        if self.shared.shows_progress() {
            eprintln!();
        }
        if let Some(file) = &self.csv {
            write_csv(file, &csv(&report))?;
        }
        self.shared.print(&report, table)?;
        Ok(if is_complete(&report) {
            Status::Done
        } else {
            Status::Interrupted
        })
    }
}

/// Prints progress on a terminal, and stops the benchmark at a signal.
fn watch(shared: &Shared) -> Result<impl FnMut(Progress) -> ControlFlow<()>, Failure> {
    let stop = stop::on_signals()?;
    let shows = shared.shows_progress();
    Ok(move |progress: Progress| {
        if shows {
            let elapsed_s = progress.elapsed.as_secs_f64();
            let left = (progress.points - progress.done) as f64 / progress.done as f64;
            eprint!(
                "\r{} of {} points, about {:.0} s to go ",
                progress.done,
                progress.points,
                elapsed_s * left
            );
        }
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Setting { .. } => Failure::usage(error),
        BenchError::Pin { .. } => Failure::usage(error)
            .with_hint("`taskset -pc $$` lists the processors that may be used"),
        BenchError::Memory { .. } | BenchError::Member { .. } => Failure::lacking(error)
            .with_hint("ask for less: smaller --largest, fewer --members or --working-sets"),
        BenchError::Lost { .. } => Failure::failed(error),
    }
}

fn write_csv(file: &Path, rows: &str) -> Result<(), Failure> {
    fs::write(file, rows)
        .map_err(|error| Failure::failed(format!("--csv {}: {error}", file.display())))
}
