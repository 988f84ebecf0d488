//! Profiles from a file of `perf record`, of pprof, or from a text with call chains. The file may come
//! from another machine, and be compressed by gzip.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt` and
//! `include/uapi/linux/perf_event.h` of Linux.

mod fields;
mod file;
mod from_pprof;
mod from_text;
mod links;
mod report_text;
mod sample;
mod snapshots;
mod text_stacks;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use perpacket_cost::{Directions, EventKind, KernelSymbols};
use perpacket_linux::text;

use self::file::{Event, File, kernel_start, symbol_address};
use self::sample::Decoder;
use self::snapshots::Snapshots;
use crate::attribute::Attributor;
use crate::capture::events::kernel_event;
use crate::capture::{Backend, GroupCounts, Record};
use crate::collector::{Collector, Detail, Server};
use crate::count::Activity;
use crate::error::ProfileError;
use crate::kernel::network_drivers;
use crate::passes::{Context, PassResult, SECOND_NS};
use crate::profiler::rules_of;
use crate::report::{Bytes, Report};
use crate::{folded, pprof, summary};

/// The name of the recording program. Its work is the recording's overhead.
const RECORDER: &str = "perf";

/// The packets of a recording's window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// The number of packets is unknown.
    Unknown,
    /// The number of packets in both directions together.
    Packets(u64),
    /// Two files with the output of `ip -s -j link`, from the start and the end of the recorded
    /// command. Only the samples between the two are charged.
    Links(PathBuf, PathBuf),
}

/// The settings of an analysis.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file of `perf record`.
    pub file: PathBuf,
    /// The packets.
    pub traffic: Traffic,
    /// Symbols of the recorded kernel. `None` uses those of this machine, if it runs the same
    /// kernel.
    pub kallsyms: Option<PathBuf>,
    /// File of rules that have priority over the compiled-in rules.
    pub rules: Option<PathBuf>,
    /// The server's process.
    pub pid: Option<u32>,
    /// Whether offsets of user instructions are stored. Folded stacks need them.
    pub keeps_offsets: bool,
}

/// A recording after its analysis.
#[derive(Debug)]
pub struct Recorded {
    /// The costs.
    pub report: Report,
    pass: Option<PassResult>,
    collector: Collector,
    /// The folded stacks of a text. It has names of user code, and no files to find them in.
    lines: Option<BTreeMap<String, u64>>,
}

impl Recorded {
    /// Writes the samples of the first event as folded stacks.
    ///
    /// # Errors
    /// The writer fails.
    pub fn write_folded(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(lines) = &self.lines {
            let mut lines = lines.iter();
            return lines.try_for_each(|(line, count)| writeln!(out, "{line} {count}"));
        }
        match &self.pass {
            Some(pass) => folded::write(out, &pass.tally, &self.collector),
            None => Ok(()),
        }
    }

    /// Writes the samples of the first event as a compressed file for pprof.
    ///
    /// # Errors
    /// The writer fails.
    pub fn write_pprof(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match &self.pass {
            Some(pass) => pprof::write(out, pass, &mut self.collector),
            None => Ok(()),
        }
    }
}

/// Decodes a recording and charges its samples.
///
/// # Errors
/// A file cannot be read, it is not a recording that this version can read, or the symbols are of
/// another kernel.
pub fn analyse(settings: &Settings) -> Result<Recorded, ProfileError> {
    let bytes =
        fs::read(&settings.file).map_err(ProfileError::option_file("perf", &settings.file))?;
    let wrong = |reason: String| ProfileError::Recording {
        path: settings.file.clone(),
        reason,
    };
    let bytes = from_pprof::decompressed(bytes).map_err(wrong)?;
    if let Some(text) = from_text::text_of(&bytes) {
        return from_text::analyse(settings, &text);
    }
    if from_pprof::is_profile(&bytes) {
        return from_text::analyse_profile(settings, &bytes);
    }
    let file = File::parse(&bytes).map_err(wrong)?;
    if let Some(reason) = file.part() {
        return Err(ProfileError::PartOfMachine {
            path: settings.file.clone(),
            reason,
        });
    }
    let activity = activity(&settings.traffic)?;
    let (text, is_here) = symbols(settings, &file)?;
    let drivers = if is_here {
        network_drivers(Path::new("/sys/class/net"))
    } else {
        BTreeSet::new()
    };
    let symbols = KernelSymbols::parse(&text);
    if let Some(path) = &settings.kallsyms
        && symbols.is_empty()
        && !symbols.are_hidden()
    {
        return Err(ProfileError::Symbols { path: path.clone() });
    }
    let attributor = Attributor::new(symbols, rules_of(settings.rules.as_deref())?, drivers);
    let mut collector = Collector::new(attributor, None, Detail::of_code(settings.keeps_offsets));
    collector.set_recorded();
    collector.set_server(settings.pid.map(|original| Server {
        originals: vec![original],
    }));

    let records = file.records().map_err(wrong)?;
    let shift = shift(&text, &records);
    let mut limits = limits(&file, shift);
    let snapshots = snapshots(settings, &file, &records)?;
    if let (Some(snapshots), Some(pid)) = (&snapshots, settings.pid)
        && !snapshots.has_namespaces
    {
        limits.push(format!(
            "recorded without --namespaces: whether the packets are those of the network namespace of \
             process {pid} is not known"
        ));
    }
    let mut results = Vec::new();
    let mut span = Span::default();
    for (kind, index) in events(&file, &mut limits) {
        let mut decoder = Decoder::new(&file.events, index, shift);
        collector.begin(kind);
        for record in &records {
            decoder.decode(record, &mut |record| {
                match record {
                    Record::Sample(sample)
                        if snapshots
                            .as_ref()
                            .is_some_and(|two| !two.contain(sample.time_ns)) =>
                    {
                        return;
                    }
                    Record::Sample(sample) => span.add(sample.time_ns, sample.cpu),
                    // Lost records belong to the whole recording, so count them only once.
                    Record::Lost { .. } | Record::Throttled if !results.is_empty() => return,
                    _ => {}
                }
                collector.add(record);
            });
        }
        results.push(PassResult {
            tally: collector.end(&BTreeMap::new()),
            activity: activity.clone(),
            group: GroupCounts::default(),
        });
    }
    if results.iter().all(|pass| pass.tally.samples == 0) {
        return Err(wrong(
            "no samples of an event that perpacket knows; expected cpu-clock, cycles, instructions \
             or cache misses"
                .to_owned(),
        ));
    }
    let window = snapshots.map_or(span.times, |two| Some(two.times_ns));
    for pass in &mut results {
        pass.activity.window.duration_s = seconds(window);
    }
    let report = report(&file, &results, &collector, settings, &span, limits);
    Ok(Recorded {
        report,
        pass: results.into_iter().next(),
        collector,
        lines: None,
    })
}

/// First and last time of the samples, and their processors.
#[derive(Debug, Default)]
struct Span {
    times: Option<(u64, u64)>,
    cpus: BTreeSet<usize>,
    last_cpu: Option<u32>,
}

impl Span {
    fn add(&mut self, time: u64, cpu: u32) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        if self.last_cpu != Some(cpu) {
            self.last_cpu = Some(cpu);
            self.cpus.insert(cpu as usize);
        }
    }
}

/// The length of a window of nanoseconds.
fn seconds(window: Option<(u64, u64)>) -> f64 {
    window.map_or(0.0, |(first, last)| (last - first) as f64 / SECOND_NS)
}

/// The snapshots of the recorded command, if the packets are counted by snapshots.
fn snapshots(
    settings: &Settings,
    file: &File<'_>,
    records: &[&[u8]],
) -> Result<Option<Snapshots>, ProfileError> {
    if !matches!(settings.traffic, Traffic::Links(..)) {
        return Ok(None);
    }
    Snapshots::new(records, &file.events, settings.pid)
        .map(Some)
        .map_err(|reason| ProfileError::Window {
            path: settings.file.clone(),
            reason,
        })
}

fn report(
    file: &File<'_>,
    results: &[PassResult],
    collector: &Collector,
    settings: &Settings,
    span: &Span,
    limits: Vec<String>,
) -> Report {
    let cpus: Vec<usize> = span.cpus.iter().copied().collect();
    let time = results
        .iter()
        .find(|pass| pass.tally.event == EventKind::CpuNs);
    let is_counted = results
        .iter()
        .any(|pass| pass.tally.event != EventKind::CpuNs);
    let context = Context {
        backend: if is_counted {
            Backend::Pmu
        } else {
            Backend::CpuClock
        },
        cpus: &cpus,
        all_cpus: file.online.is_none_or(|online| cpus.len() >= online),
        collector,
        own_cpu_s: time.map_or(0.0, |pass| recorder_s(pass, collector)),
        selector: None,
        server_pid: settings.pid,
        exit_status: None,
        planned_passes: results.len(),
        lacking: &[],
        names_parts: settings.keeps_offsets,
        samples_all: file.events.iter().all(Event::is_whole),
        frequency_hz: file
            .events
            .iter()
            .filter(|event| kind_of(event) == Some(EventKind::CpuNs))
            .find_map(Event::frequency_hz)
            .unwrap_or(0),
    };
    let mut report = summary::report(&context, results);
    report.recorded_on = Some(match (&file.host, &file.release) {
        (Some(host), Some(release)) => format!("{host}, Linux {release}"),
        _ => "an unnamed machine".to_owned(),
    });
    // All events share one window, so take its counts from the first event.
    let window = results.first().map(|pass| &pass.activity.window);
    if let Some(window) = window {
        report.window_s = window.duration_s;
        report.packets.sent = window.packets.sent;
        report.packets.received = window.packets.received;
        report.bytes = Bytes {
            sent: window.bytes.sent,
            received: window.bytes.received,
        };
        report.drops = window.drops;
    }
    if let Traffic::Packets(_) = settings.traffic {
        report.limits.push(
            "--packets is one number for both directions; the report shows it as packets received"
                .to_owned(),
        );
    }
    report.limits.extend(limits);
    report
}

/// Processor time of the program that recorded.
fn recorder_s(pass: &PassResult, collector: &Collector) -> f64 {
    let is_recorder = |pid: u32| {
        let process = collector.processes().get(pid);
        process.is_some_and(|process| process.command == RECORDER)
    };
    let codes = pass.tally.codes.iter();
    codes
        .filter(|((pid, _), _)| is_recorder(*pid))
        .fold(0.0, |sum, (_, weight)| sum + weight.weight / SECOND_NS)
}

fn activity(traffic: &Traffic) -> Result<Activity, ProfileError> {
    match traffic {
        Traffic::Unknown => Ok(Activity::default()),
        Traffic::Packets(packets) => {
            let mut activity = Activity::default();
            activity.window.packets = Directions {
                sent: 0,
                received: *packets,
            };
            Ok(activity)
        }
        Traffic::Links(before, after) => links::traffic(before, after),
    }
}

/// The text of the kernel's symbols, and whether the recording is of this machine's kernel.
fn symbols(settings: &Settings, file: &File<'_>) -> Result<(String, bool), ProfileError> {
    let read = |path: &Path| fs::read(path).map_err(ProfileError::option_file("kallsyms", path));
    let own = text::read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let is_here = file
        .release
        .as_deref()
        .is_none_or(|release| release == own.trim());
    let path = match &settings.kallsyms {
        Some(path) => path.as_path(),
        None if is_here => Path::new("/proc/kallsyms"),
        None => {
            return Err(ProfileError::RecordedKernel {
                path: settings.file.clone(),
                recorded: file.release.clone().unwrap_or_default(),
                own: own.trim().to_owned(),
            });
        }
    };
    let bytes = read(path)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), is_here))
}

/// The distance from the addresses of the symbols to those of the recorded kernel. The boot loader
/// may have moved the kernel. The distance is added to each address in the kernel's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shift {
    start: u64,
    length: u64,
    by: u64,
}

impl Shift {
    fn apply(self, address: u64) -> u64 {
        if address.wrapping_sub(self.start) < self.length {
            address.wrapping_add(self.by)
        } else {
            address
        }
    }
}

fn shift(symbols: &str, records: &[&[u8]]) -> Shift {
    let Some(start) = records.iter().find_map(|record| kernel_start(record)) else {
        return Shift::default();
    };
    let Some(address) = symbol_address(symbols, &start.symbol) else {
        return Shift::default();
    };
    Shift {
        start: start.start,
        length: start.length,
        by: address.wrapping_sub(start.address),
    }
}

/// The known events with their indices. For each other event, a note is added.
fn events(file: &File<'_>, limits: &mut Vec<String>) -> Vec<(EventKind, usize)> {
    let mut found = Vec::new();
    let mut known = HashMap::new();
    for (index, event) in file.events.iter().enumerate() {
        match kind_of(event) {
            Some(kind) if known.insert(kind, index).is_none() => found.push((kind, index)),
            Some(kind) => limits.push(format!(
                "the file has several events of {}; only the first is reported",
                kind.name()
            )),
            // The event `dummy` has no samples.
            None if event.is_dummy() => {}
            None => limits.push(format!(
                "event type {} number {:#x} of the recording is unknown and is not reported",
                event.kind, event.config
            )),
        }
    }
    // Put time first, as in profiles of this machine.
    found.sort_by_key(|(kind, _)| *kind != EventKind::CpuNs);
    found
}

fn kind_of(event: &Event) -> Option<EventKind> {
    let number = event.generic_number();
    if event.is_task_clock() {
        return Some(EventKind::CpuNs);
    }
    EventKind::ALL
        .into_iter()
        .find(|&kind| kernel_event(kind) == Some(number))
}

fn limits(file: &File<'_>, shift: Shift) -> Vec<String> {
    let mut limits = Vec::new();
    if shift.by != 0 {
        limits.push(
            "the symbols are of another boot: addresses of the kernel were moved to match; functions of modules \
             may have wrong names"
                .to_owned(),
        );
    }
    if !file.events.iter().any(Event::has_chains) {
        limits.push(
            "recorded without call chains (-g): kernel time is charged by its leaf functions alone"
                .to_owned(),
        );
    }
    if file.events.iter().any(Event::excludes_kernel) {
        limits.push("the recording excludes the kernel for some events".to_owned());
    }
    if file.events.iter().any(Event::excludes_user) {
        limits.push("the recording excludes user code for some events".to_owned());
    }
    limits
}
