//! Bandwidth as a surface over working set and stride, and the latency of dependent loads.
//!
//! This is the extended copy transfer characterization (Stricker and Gross, HPCA 1997) of Isa 2003,
//! section 4.3.1. The working set changes temporal locality, that is, how often data are reused
//! before they leave a cache. The stride changes spatial locality, that is, how much of each line
//! is used. Other tools measure stride 1.

mod chain;
mod edges;
mod kernels;
mod pattern;

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use clap::Args;
use perpacket_linux::memory::Words;
use perpacket_spec::{Size, SpecError, Time};
use schemars::JsonSchema;
use serde::Serialize;

pub use chain::{ChainRow, working_sets};
pub use edges::{Edge, edges};
pub use kernels::Operation;
pub use pattern::{STRIDES, WORD_BYTES, order};

use crate::error::BenchError;
use crate::interval::{Limits, Repetitions};
use crate::machine::{Machine, Pinned};
use crate::repeating::Repeating;
use chain::Chain;
use kernels::Parts;

/// Version of the report's layout.
const SCHEMA: u32 = 1;

/// How bytes are counted, printed with every report.
const COUNTING: &str = "bytes that the program reads or writes: a copied byte counts twice, and the \
                        triad counts all three arrays, as STREAM does; cache lines that a store \
                        reads do not count";

/// Largest working set in bytes if no cache is known.
const LARGEST_WITHOUT_CACHES: usize = 128 << 20;

/// Smallest working set, in bytes: eight lines.
pub const SMALLEST_BYTES: usize = 512;

/// Shortest timed walk, about a thousand times as long as a reading of the clock.
const SHORTEST_WALK: Duration = Duration::from_micros(50);

/// Bandwidth over working set and stride, latency of dependent loads, and the caches that this latency
/// shows.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// Operations on memory, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["load", "store", "copy"])]
    pub operations: Vec<Operation>,
    /// Words of 8 bytes from one access to the next, separated by commas: powers of two from 1 to 256.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', default_values_t = STRIDES)]
    pub strides: Vec<usize>,
    /// Smallest working set: the sum of an operation's parts.
    #[arg(long, value_name = "SIZE", default_value_t = Size(SMALLEST_BYTES as u64))]
    pub smallest: Size,
    /// Largest working set; without it, four times the last cache.
    #[arg(long, value_name = "SIZE")]
    pub largest: Option<Size>,
    /// Do not measure the latency of dependent loads.
    #[arg(long)]
    pub no_chain: bool,
    /// Longest time for a point.
    #[arg(long, value_name = "TIME", default_value = "40ms")]
    pub point_limit: Time,
    /// How often a point is repeated.
    #[command(flatten)]
    #[serde(flatten)]
    pub repeating: Repeating,
}

impl perpacket_spec::Spec for Spec {
    fn resolved(self) -> Result<Self, SpecError> {
        let refuse = |text: String| Err(SpecError::new(text));
        if let Some(stride) = self.strides.iter().find(|stride| !STRIDES.contains(stride)) {
            return refuse(format!(
                "--strides {stride}: expected powers of two from 1 to 256 words"
            ));
        }
        if self.smallest.as_usize() < SMALLEST_BYTES {
            return refuse(format!(
                "--smallest {}: expected at least 512 bytes",
                self.smallest
            ));
        }
        if let Some(largest) = self.largest.filter(|largest| *largest < self.smallest) {
            return refuse(format!(
                "--largest {largest}: expected at least the smallest working set, {}",
                self.smallest
            ));
        }
        self.repeating.check()?;
        Ok(self)
    }
}

/// One point of the surface.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SurfaceRow {
    pub operation: Operation,
    /// Bytes of all parts.
    pub working_set_bytes: usize,
    /// Words from one access to the next.
    pub stride_words: usize,
    /// Bandwidth in 10^6 bytes per second; see `counting`.
    pub mbytes_per_s: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Repetitions.
    pub n: usize,
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
    pub word_bytes: usize,
    /// How bytes are counted.
    pub counting: &'static str,
    /// Confidence of the intervals, as a fraction. With fewer than six repetitions the confidence
    /// is lower.
    pub confidence: f64,
    /// Largest half width of an interval that counts as narrow enough, as a share of the median.
    pub precision: f64,
    /// Points of the surface whose intervals are wider than that.
    pub imprecise_points: usize,
    /// Duration of the benchmark in seconds.
    pub duration_s: f64,
    /// Bandwidths, by operation, working set and stride.
    pub surface: Vec<SurfaceRow>,
    /// Pages of the chain's memory: `huge`, `some_huge` or `base`.
    pub chain_pages: Option<&'static str>,
    /// Latencies by working set.
    pub chain: Vec<ChainRow>,
    /// Working sets at which latency rises: the caches that the chain shows.
    pub edges: Vec<Edge>,
}

/// The progress of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Points measured.
    pub done: usize,
    pub points: usize,
    /// Time since the start.
    pub elapsed: Duration,
}

/// Measures all points. After each, `watch` receives the progress and may stop the benchmark.
///
/// # Errors
/// A setting is out of range, there is not enough memory, or the processor is not allowed.
pub fn run(
    spec: &Spec,
    mut watch: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, BenchError> {
    let begin = Instant::now();
    let cpu = spec
        .repeating
        .cpu
        .unwrap_or_else(rustix::thread::sched_getcpu);
    let _pinned = Pinned::to(cpu)?;
    let machine = Machine::here();
    let largest_bytes = spec.largest.map(Size::as_usize).unwrap_or_else(|| {
        machine
            .last_cache_bytes()
            .map_or(LARGEST_WITHOUT_CACHES, |bytes| bytes.saturating_mul(4))
    });
    let points = points(spec, largest_bytes);
    let sets = if !spec.no_chain {
        working_sets(
            spec.smallest.as_usize(),
            largest_bytes,
            machine.line_bytes(),
        )
    } else {
        Vec::new()
    };
    let total = points.len() + sets.len();
    let mut done = 0;
    let mut step = || {
        done += 1;
        watch(Progress {
            done,
            points: total,
            elapsed: begin.elapsed(),
        })
    };
    let limits = Limits {
        precision: spec.repeating.precision.0,
        time: spec.point_limit.0,
    };
    let mut repetitions = Repetitions::default();
    let mut surface = Vec::with_capacity(points.len());
    let mut buffer = buffer_for(&points)?;
    let mut flow = measure_surface(
        &points,
        &mut buffer,
        limits,
        &mut repetitions,
        &mut surface,
        &mut step,
    );
    drop(buffer);
    let mut latencies = Vec::with_capacity(sets.len());
    let mut chain_pages = None;
    if flow.is_continue() && !sets.is_empty() {
        let mut chain = Chain::new(largest_bytes, machine.line_bytes())?;
        for &bytes in &sets {
            latencies.extend(chain.measure(bytes, &mut repetitions, limits));
            flow = step();
            if flow.is_break() {
                break;
            }
        }
        chain_pages = Some(pages_of(largest_bytes));
    }
    let edges = edges(&latencies, &machine.caches);
    let imprecise = |row: &&SurfaceRow| {
        (row.high - row.low) / 2.0 > spec.repeating.precision.0 * row.mbytes_per_s
    };
    Ok(Report {
        schema: SCHEMA,
        benchmark: "memory",
        complete: flow.is_continue(),
        machine,
        word_bytes: WORD_BYTES,
        counting: COUNTING,
        confidence: crate::interval::CONFIDENCE,
        precision: spec.repeating.precision.0,
        imprecise_points: surface.iter().filter(imprecise).count(),
        duration_s: begin.elapsed().as_secs_f64(),
        surface,
        chain_pages,
        chain: latencies,
        edges,
    })
}

/// A point of the surface: operation, bytes, stride.
type Point = (Operation, usize, usize);

/// Points in the order of measurement: by operation, size and stride.
fn points(spec: &Spec, largest_bytes: usize) -> Vec<Point> {
    let sizes: Vec<usize> = std::iter::successors(Some(spec.smallest.as_usize()), |&bytes| {
        (bytes < largest_bytes).then(|| bytes.saturating_mul(2).min(largest_bytes))
    })
    .collect();
    let mut points = Vec::new();
    for &operation in &spec.operations {
        for &bytes in &sizes {
            let words = Parts::of(operation, bytes).words();
            let strides = spec.strides.iter().copied();
            points.extend(
                strides
                    .filter(|&stride| operation.has_stride(stride) && pattern::fits(words, stride))
                    .map(|stride| (operation, bytes, stride)),
            );
        }
    }
    points
}

fn measure_surface(
    points: &[Point],
    buffer: &mut [u64],
    limits: Limits,
    repetitions: &mut Repetitions,
    surface: &mut Vec<SurfaceRow>,
    step: &mut impl FnMut() -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut operation_before = None;
    for &(operation, bytes, stride) in points {
        if operation == Operation::Triad && operation_before != Some(operation) {
            buffer.fill(1.0_f64.to_bits());
        }
        operation_before = Some(operation);
        surface.extend(measure(
            buffer,
            (operation, bytes, stride),
            repetitions,
            limits,
        ));
        step()?;
    }
    ControlFlow::Continue(())
}

/// Memory for the largest point. It is mapped instead of allocated, so that it starts at a page.
/// Vectors that cross cache lines would be slower by an eighth.
fn buffer_for(points: &[Point]) -> Result<Words, BenchError> {
    let words = points
        .iter()
        .map(|&(operation, bytes, _)| Parts::of(operation, bytes).buffer_words())
        .max();
    let mut buffer = crate::words(words.unwrap_or(1), false)?;
    // The triad adds doubles, and denormal or infinite numbers can be slower than ones.
    buffer.fill(1.0_f64.to_bits());
    Ok(buffer)
}

/// The bandwidth of one point.
fn measure(
    buffer: &mut [u64],
    (operation, bytes, stride): Point,
    repetitions: &mut Repetitions,
    limits: Limits,
) -> Option<SurfaceRow> {
    let parts = Parts::of(operation, bytes);
    let all_groups = kernels::groups_of(stride);
    // An untimed walk loads the caches.
    kernels::run(operation, buffer, bytes, 1, 0..1);
    let mut group = 0;
    let mut walk = |groups: usize| {
        let begin = Instant::now();
        kernels::run(operation, buffer, bytes, stride, group..group + groups);
        let elapsed = begin.elapsed();
        group = (group + groups) % all_groups;
        elapsed
    };
    let mut groups = 1;
    while walk(groups) < SHORTEST_WALK {
        groups *= 2;
    }
    let bytes_a_group = (parts.words_moved() / all_groups * WORD_BYTES) as f64;
    let Ok(median) = repetitions.until_precise(limits, || {
        let elapsed = walk(groups);
        let bytes_moved = bytes_a_group * groups as f64;
        Ok::<_, Infallible>(bytes_moved / elapsed.as_secs_f64() / 1e6)
    });
    median.map(|median| SurfaceRow {
        operation,
        working_set_bytes: bytes,
        stride_words: stride,
        mbytes_per_s: median.value,
        low: median.low,
        high: median.high,
        n: median.n,
    })
}

/// Whether huge pages back a region of `bytes`, from the totals of the process
/// (Documentation/filesystems/proc.rst, `smaps_rollup`).
fn pages_of(bytes: usize) -> &'static str {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let huge_kib: usize = text
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0);
    match huge_kib {
        0 => "base",
        _ if huge_kib * 1024 * 10 >= bytes * 9 => "huge",
        _ => "some_huge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpacket_spec::parse;

    fn quick() -> Spec {
        parse("--operations load,store,copy,triad --largest 16KiB --point-limit 0").unwrap()
    }

    #[test]
    fn every_operation_size_and_stride_that_fits_has_a_row() {
        let report = run(&quick(), |_| ControlFlow::Continue(())).unwrap();
        assert!(report.complete);
        // There are six sizes of 64 to 2048 words. Strides go up to half the words of a part, with
        // nine at most.
        let rows = |operation| {
            let of = |row: &&SurfaceRow| row.operation == operation;
            report.surface.iter().filter(of).count()
        };
        assert_eq!(rows(Operation::Load), 6 + 7 + 8 + 9 + 9 + 9);
        assert_eq!(rows(Operation::Copy), 5 + 6 + 7 + 8 + 9 + 9);
        assert_eq!(rows(Operation::Triad), 6);
        assert!(report.surface.iter().all(|row| row.mbytes_per_s > 0.0));
        assert_eq!(report.chain.last().unwrap().working_set_bytes, 16 << 10);
    }

    #[test]
    fn a_stopped_benchmark_reports_what_it_has_measured() {
        let report = run(&quick(), |progress| {
            if progress.done == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let report = report.unwrap();
        assert!(!report.complete);
        assert_eq!(report.surface.len(), 3);
        assert!(report.chain.is_empty());
    }

    #[test]
    fn an_option_out_of_range_is_an_error_with_its_name() {
        let error = parse::<Spec>("--strides 3").unwrap_err();
        assert_eq!(
            error.message,
            "--strides 3: expected powers of two from 1 to 256 words"
        );
    }
}
