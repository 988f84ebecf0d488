//! `bench`: what memory and context switches cost on this machine.

mod tables;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;

use perpacket_agent::output::Output;
use perpacket_agent::status::{Failure, Status};
use perpacket_agent::stop;
use perpacket_agent::verb::Verb;
use perpacket_microbench::BenchError;
use perpacket_microbench::memory::{self, Progress};
use perpacket_microbench::switch;
use serde::Serialize;

use tables::{memory_csv, memory_table, switch_csv, switch_table};

pub fn verbs() -> Vec<Verb> {
    vec![
        Verb::new(
            "bench memory",
            MEMORY_EXAMPLE,
            |spec: memory::Spec, output| {
                let report = measured(output, |watch| memory::run(&spec, watch))?;
                let csv = spec.repeating.csv.as_deref();
                print(output, &report, csv, memory_csv, memory_table)?;
                Ok(status(report.complete))
            },
        ),
        Verb::new(
            "bench switch",
            SWITCH_EXAMPLE,
            |spec: switch::Spec, output| {
                let report = measured(output, |watch| switch::run(&spec, watch))?;
                let csv = spec.repeating.csv.as_deref();
                print(output, &report, csv, switch_csv, switch_table)?;
                Ok(status(report.complete))
            },
        ),
    ]
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

/// A function that receives a benchmark's progress and decides whether to go on.
type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// The report of a benchmark.
fn measured<R>(
    output: &Output,
    benchmark: impl FnOnce(Watch<'_>) -> Result<R, BenchError>,
) -> Result<R, Failure> {
    let report = benchmark(&mut watch(output)?).map_err(failure)?;
    if output.shows_progress() {
        eprintln!();
    }
    Ok(report)
}

fn print<R: Serialize>(
    output: &Output,
    report: &R,
    csv: Option<&Path>,
    rows: impl FnOnce(&R) -> String,
    table: impl FnOnce(&R) -> String,
) -> Result<(), Failure> {
    if let Some(file) = csv {
        write_csv(file, &rows(report))?;
    }
    output.print(report, table)
}

fn status(is_complete: bool) -> Status {
    match is_complete {
        true => Status::Done,
        false => Status::Interrupted,
    }
}

/// Prints progress on a terminal, and stops the benchmark at a signal.
fn watch(output: &Output) -> Result<impl FnMut(Progress) -> ControlFlow<()>, Failure> {
    let stop = stop::on_signals()?;
    let shows = output.shows_progress();
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
