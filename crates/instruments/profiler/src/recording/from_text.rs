//! Profiles from call chains as text, and from those of pprof. The functions have names and no
//! addresses, so each gets an address that is made up, and the chains take the way of a recording.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use perpacket_cost::{EventKind, KernelSymbols, Rules};

use super::text_stacks::{Form, Frame, TextStack, parse};
use super::{Recorded, Settings, Traffic, activity, from_pprof};
use crate::attribute::Attributor;
use crate::capture::{Backend, GroupCounts, Record, Sample};
use crate::collector::{Collector, Detail, Server};
use crate::error::ProfileError;
use crate::passes::{Context, PassResult, SECOND_NS};
use crate::profiler::rules_of;
use crate::summary;

/// The address of the first function, and the distance between two.
const FIRST: u64 = 0xffff_ffff_8000_0000;
const DISTANCE: u64 = 0x100;

/// The offset of an address within its function, as call chains print it.
const INSIDE: u64 = 0x10;

/// The time that a count without a unit is taken for.
const COUNT_NS: u64 = 1_000_000;

/// More counts than this are no samples but times or events.
const MOST_SAMPLES: f64 = 1e6;

/// The number of samples that such counts are scaled to.
const SCALED_TO: f64 = 1e4;

/// The processes that get numbers here begin at this one, above those of any machine.
const FIRST_PROCESS: u32 = 1 << 30;

/// Stacks with names, and where they are from.
struct Stacks {
    form: &'static str,
    stacks: Vec<TextStack>,
    /// Whether a count has a time.
    has_unit: bool,
    /// The length of the window, if the file states it.
    duration_s: Option<f64>,
}

/// Reads a text and charges its samples.
pub(super) fn analyse(settings: &Settings, text: &str) -> Result<Recorded, ProfileError> {
    let (form, stacks) = parse(text).map_err(wrong(settings))?;
    let found = Stacks {
        form: form.name(),
        stacks,
        has_unit: form == Form::Script,
        duration_s: None,
    };
    charged(settings, found)
}

/// Reads a profile of pprof and charges its samples.
pub(super) fn analyse_profile(settings: &Settings, bytes: &[u8]) -> Result<Recorded, ProfileError> {
    let found = from_pprof::parse(bytes).map_err(wrong(settings))?;
    let has_unit = found.stacks.iter().all(|stack| stack.period.is_some());
    let found = Stacks {
        form: "a profile of pprof",
        stacks: found.stacks,
        has_unit,
        duration_s: (has_unit && found.duration_s > 0.0).then_some(found.duration_s),
    };
    charged(settings, found)
}

fn wrong(settings: &Settings) -> impl Fn(String) -> ProfileError {
    move |reason| ProfileError::Recording {
        path: settings.file.clone(),
        reason,
    }
}

fn charged(settings: &Settings, found: Stacks) -> Result<Recorded, ProfileError> {
    let Stacks {
        form,
        mut stacks,
        has_unit,
        duration_s,
    } = found;
    let wrong = wrong(settings);
    let mut limits = vec![format!("read from {form}")];
    let has_times = duration_s.is_some() || stacks.iter().all(|stack| stack.time_s.is_some());
    if settings.traffic != Traffic::Unknown && !has_times {
        return Err(wrong(format!(
            "{form} have no times, so their cost cannot be divided by packets; expected the text of \
             `perf script`"
        )));
    }
    let kind = kind_of(&stacks, &mut limits).map_err(&wrong)?;
    let rules = rules_of(settings.rules.as_deref())?;
    mark_kernel(&mut stacks, &rules);
    if unnamed(&stacks) {
        return Err(wrong(
            "the kernel's functions have no names (kptr_restrict): run `perf script` or the tool as root \
             on the recorded machine"
                .to_owned(),
        ));
    }
    scale(&mut stacks, &mut limits);
    if stacks.iter().all(|stack| stack.count <= 0.0) {
        return Err(wrong("it has no samples".to_owned()));
    }
    let (symbols, addresses) = symbols(&stacks);
    let attributor = Attributor::new(symbols, rules, BTreeSet::new());
    let mut collector = Collector::new(attributor, None, Detail::Files);
    collector.set_recorded();
    collector.set_server(settings.pid.map(|original| Server {
        originals: vec![original],
    }));
    collector.begin(kind);
    charge(&stacks, &addresses, &mut collector);
    let mut activity = activity(&settings.traffic)?;
    activity.window.duration_s = duration_s.unwrap_or_else(|| span_s(&stacks));
    if !has_unit {
        limits.push(
            "a count is taken for 1 ms of processor time: only shares are measured".to_owned(),
        );
    }
    let results = [PassResult {
        tally: collector.end(&BTreeMap::new()),
        activity,
        group: GroupCounts::default(),
    }];
    Ok(recorded(settings, &stacks, results, collector, limits))
}

fn recorded(
    settings: &Settings,
    stacks: &[TextStack],
    results: [PassResult; 1],
    collector: Collector,
    limits: Vec<String>,
) -> Recorded {
    let cpus: BTreeSet<usize> = stacks.iter().map(|stack| stack.cpu as usize).collect();
    let cpus: Vec<usize> = cpus.into_iter().collect();
    let context = Context {
        backend: Backend::CpuClock,
        cpus: &cpus,
        all_cpus: true,
        collector: &collector,
        own_cpu_s: 0.0,
        selector: None,
        server_pid: settings.pid,
        exit_status: None,
        planned_passes: 1,
        lacking: &[],
        names_parts: false,
        samples_all: false,
        frequency_hz: 0,
    };
    let mut report = summary::report(&context, &results);
    report.recorded_on = Some("an unnamed machine".to_owned());
    report.limits.extend(limits);
    let [pass] = results;
    Recorded {
        report,
        pass: Some(pass),
        collector,
        lines: Some(lines(stacks)),
    }
}

/// The event of the stacks. Only the first event of a text is read.
fn kind_of(stacks: &[TextStack], limits: &mut Vec<String>) -> Result<EventKind, String> {
    let events: BTreeSet<&str> = stacks
        .iter()
        .filter_map(|stack| stack.event.as_deref())
        .collect();
    if events.len() > 1 {
        let listed = events.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!(
            "several events ({listed}); expected one: perf record -e cpu-clock -a -g"
        ));
    }
    let Some(event) = events.first() else {
        return Ok(EventKind::CpuNs);
    };
    let name = event
        .split([':', '/'])
        .find(|part| !part.starts_with("cpu_") && *part != "cpu");
    match name.unwrap_or_default() {
        "cpu-clock" | "task-clock" => Ok(EventKind::CpuNs),
        name if name.starts_with("cycles") || name.contains("cpu-cycles") => Ok(EventKind::Cycles),
        name if name.starts_with("instructions") => Ok(EventKind::Instructions),
        name => {
            limits.push(format!(
                "each sample of {name} counts as one, whatever its amount"
            ));
            Ok(EventKind::CpuNs)
        }
    }
}

/// Decides which functions are the kernel's, where the text does not show it. In a chain the kernel
/// begins at the first function that the rules know.
fn mark_kernel(stacks: &mut [TextStack], rules: &Rules) {
    let mut known: HashMap<String, bool> = HashMap::new();
    let mut is_known = |frame: &Frame| {
        *known.entry(frame.name.clone()).or_insert_with(|| {
            let class = rules.function(&frame.name, None);
            class.owner.is_some() || class.interrupt_entry || class.dead_end
        })
    };
    for stack in stacks {
        let marked = stack.frames.iter().any(|frame| frame.kernel.is_some());
        let start = if marked {
            stack
                .frames
                .iter()
                .position(|frame| frame.kernel == Some(true))
        } else {
            stack.frames.iter().position(&mut is_known)
        };
        let start = start.unwrap_or(stack.frames.len());
        for (place, frame) in stack.frames.iter_mut().enumerate() {
            frame.kernel = Some(place >= start);
        }
    }
}

/// Whether most of the kernel's leaf functions have no names.
fn unnamed(stacks: &[TextStack]) -> bool {
    let leaves: Vec<&Frame> = stacks
        .iter()
        .filter_map(|stack| stack.frames.last())
        .collect();
    let hidden = |frame: &&&Frame| {
        frame.name.starts_with("0xffff")
            || (frame.kernel == Some(true) && frame.name == "[unknown]")
    };
    let kernel = |frame: &&&Frame| frame.kernel == Some(true) || hidden(frame);
    let count = leaves.iter().filter(kernel).count();
    count > 0 && 2 * leaves.iter().filter(hidden).count() > count
}

fn scale(stacks: &mut [TextStack], limits: &mut Vec<String>) {
    let total: f64 = stacks.iter().map(|stack| stack.count).sum();
    if total <= MOST_SAMPLES {
        return;
    }
    limits.push(format!(
        "the counts add up to {total:.0}, so they are times or events and no samples: shares have no interval"
    ));
    for stack in stacks {
        stack.count = (stack.count * SCALED_TO / total).ceil();
    }
}

type Key = (String, Option<String>);

/// Symbols with made-up addresses for the kernel's functions, and these addresses.
fn symbols(stacks: &[TextStack]) -> (KernelSymbols, HashMap<Key, u64>) {
    let mut addresses: HashMap<Key, u64> = HashMap::new();
    let mut text = String::new();
    for frame in stacks.iter().flat_map(|stack| &stack.frames) {
        if frame.kernel != Some(true) || frame.name.contains(char::is_whitespace) {
            continue;
        }
        let address = FIRST + DISTANCE * addresses.len() as u64;
        let key = (frame.name.clone(), frame.module.clone());
        if let std::collections::hash_map::Entry::Vacant(entry) = addresses.entry(key) {
            let module = frame.module.as_ref().map(|name| format!("\t[{name}]"));
            text.push_str(&format!(
                "{address:016x} t {}{}\n",
                frame.name,
                module.unwrap_or_default()
            ));
            entry.insert(address + INSIDE);
        }
    }
    (KernelSymbols::parse(&text), addresses)
}

fn charge(stacks: &[TextStack], addresses: &HashMap<Key, u64>, collector: &mut Collector) {
    let mut processes: HashMap<&str, u32> = HashMap::new();
    for stack in stacks {
        let next = FIRST_PROCESS + processes.len() as u32;
        let idle = stack.command.starts_with("swapper");
        let pid = stack.pid.unwrap_or_else(|| {
            if idle {
                0
            } else {
                *processes.entry(&stack.command).or_insert(next)
            }
        });
        collector.add(&Record::Command {
            pid,
            leader: true,
            name: stack.command.clone(),
            executed: false,
        });
        let chain: Vec<u64> = stack
            .frames
            .iter()
            .rev()
            .filter(|frame| frame.kernel == Some(true))
            .filter_map(|frame| {
                addresses
                    .get(&(frame.name.clone(), frame.module.clone()))
                    .copied()
            })
            .collect();
        let time_ns = stack
            .time_s
            .map_or(0, |seconds| (seconds * SECOND_NS) as u64);
        let sample = Sample {
            time_ns,
            cpu: stack.cpu,
            pid,
            tid: pid,
            weight: stack.period.unwrap_or(COUNT_NS),
            cgroup: None,
            user: chain.is_empty(),
            address: chain.first().copied().unwrap_or_default(),
            chain: &chain,
        };
        for _ in 0..stack.count.round() as u64 {
            collector.add(&Record::Sample(sample));
        }
    }
}

/// The time from the first sample to the last; 0 without times.
fn span_s(stacks: &[TextStack]) -> f64 {
    let times = || stacks.iter().filter_map(|stack| stack.time_s);
    let first = times().fold(f64::INFINITY, f64::min);
    let last = times().fold(0.0, f64::max);
    (last - first).max(0.0)
}

/// The stacks as folded lines. User code keeps the names that the text has.
fn lines(stacks: &[TextStack]) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    for stack in stacks {
        let names = stack.frames.iter().map(|frame| frame.name.as_str());
        let line: Vec<String> = std::iter::once(stack.command.as_str())
            .chain(names)
            .map(|name| name.replace([';', '\n'], ":"))
            .collect();
        *lines.entry(line.join(";")).or_default() += stack.count.round() as u64;
    }
    lines
}

/// The text of a file that is no recording.
pub(super) fn text_of(bytes: &[u8]) -> Option<String> {
    let start = &bytes[..bytes.len().min(4096)];
    let is_binary = [super::file::MAGIC, super::file::SWAPPED]
        .iter()
        .any(|magic| start.starts_with(*magic));
    let is_text = !is_binary && !start.contains(&0);
    is_text.then(|| String::from_utf8_lossy(bytes).into_owned())
}
