//! `profile`: what each packet costs, layer by layer.

pub mod by_cpu;
mod self_check;
mod table;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use perpacket_profiler::recording::{self, Traffic};
use perpacket_profiler::settings::{
    DEFAULT_DURATION, DEFAULT_FREQUENCY_HZ, Events, checked_duration,
};
use perpacket_profiler::{End, Fault, ProfileError, Profiler, Report, Settings};
use serde::Serialize;

use crate::options::{ControlGroups, CpuList, Time, refuse_ignored};
use crate::output::{Format, Shared};
use crate::status::{Failure, Status};
use crate::stop;

const EXAMPLE: &str = "\
Examples:
  perpacket-agent profile --duration 10s --pid $(pidof -s nginx)
  perpacket-agent profile --requests http://127.0.0.1:8080/.perpacket/report
  perpacket-agent profile --folded stacks.txt -- wrk -d 5 http://127.0.0.1:8080/
  perpacket-agent profile --every 1s --format json
  perpacket-agent profile --perf perf.data --links before.json after.json
  perpacket-agent profile --self-check";

/// A grouping of the samples. The table shows one; the JSON document has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taxonomy {
    /// Layers of the stack and kinds of work.
    Layers,
    /// The seven regions of the technical report TR05-450 on FreeBSD's network stack.
    Regions,
    /// The kernel, its modules and the files of user code.
    Modules,
    /// The categories of the paper Communication Breakdown (ISPASS 2004), with the kernel divided;
    /// rows under 1 % are `misc`.
    Categories,
    /// Parts of the application that --pid names: interpreter, application server, database, TLS.
    Parts,
    /// The eight categories of the SIGCOMM 2021 study of host network stacks.
    HostStack,
}

/// A division of the whole that the table shows besides the taxonomy; the JSON document has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// Processors and queues: time, layers, packets and interrupts.
    Cpu,
}

/// The events that are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventChoice {
    /// Performance counters if they open, else the clock.
    Best,
    /// CPU time alone.
    Clock,
    /// Performance counters, or exit status 3.
    Counters,
    /// CPU time, and the misses that the machine counts: of instruction fetch, level-1 data,
    /// translation buffers and branches.
    Misses,
    /// The kernel's accounts, which need no permission: user, kernel and interrupt time, no layers.
    Accounts,
}

/// Options of `profile`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Length of the profile [default: 10s; with a command or --every, it lasts until the command
    /// or a signal ends it].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<Time>,
    /// CPUs to profile, such as `0-3,8` [default: all].
    #[arg(long, value_name = "LIST")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<CpuList>,
    /// Process of the server: counts packets in its network namespace, and separates its user code.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "unit", "container"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Another process whose user code counts as the server's, such as a second server of a trial.
    #[arg(long, value_name = "PID", requires = "pid")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beside: Vec<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    group: ControlGroups,
    /// Grouping that the table shows [default: layers].
    #[arg(long, value_enum)]
    taxonomy: Option<Taxonomy>,
    /// Also show the processors, with their shares of packets and softirqs, and the queues.
    #[arg(long, value_enum, value_name = "DIVISION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Division>,
    /// Write folded stacks for flame graphs to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    #[serde(skip_serializing_if = "Option::is_none")]
    folded: Option<PathBuf>,
    /// Write the samples to this file for pprof: processor time, and time for each packet, with the
    /// labels layer, kind, process and cgroup.
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pprof: Option<PathBuf>,
    /// Samples a second on each CPU [default: 97].
    #[arg(long, value_name = "HZ")]
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<u32>,
    /// URL of the number of answered requests: JSON with `requests`, or nginx's stub_status.
    #[arg(long, value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<String>,
    /// Print a profile each time this has passed, as a line of JSON, until the duration or a signal.
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<Time>,
    /// TOML file of rules that override the built-in ones: tables `[[layers]]` with `layer` and
    /// `functions` or `modules`, `[[kinds]]` with `kind` and `functions`, `[boundaries]`, `[skid]`,
    /// `[[programs]]`. A name may end in `*`.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<PathBuf>,
    /// Events to sample [default: best].
    #[arg(long, value_enum)]
    events: Option<EventChoice>,
    /// TOML file of events that replaces the built-in sets: `name`, `what`, and `[[passes]]` with
    /// `sample`, `count` and `period`.
    #[arg(long, value_name = "FILE", conflicts_with = "events")]
    #[serde(skip_serializing_if = "Option::is_none")]
    event_file: Option<PathBuf>,
    /// File of `perf record -a -g` to profile in place of this machine; perf is not needed.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "duration", "cpus", "beside", "cgroup", "unit", "container", "frequency", "requests", "every", "events", "event_file",
        "command",
    ])]
    #[serde(skip_serializing_if = "Option::is_none")]
    perf: Option<PathBuf>,
    /// Packets sent and received during the recording of --perf.
    #[arg(long, value_name = "N", requires = "perf", conflicts_with = "links")]
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    /// Outputs of `ip -s -j link` at the start and the end of the command that --perf recorded: their
    /// difference is the packets, and only the samples between them are charged.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], requires = "perf")]
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<Vec<PathBuf>>,
    /// Copy of /proc/kallsyms of the machine that --perf was recorded on [default: this machine's, if
    /// it runs the same kernel].
    #[arg(long, value_name = "FILE", requires = "perf")]
    #[serde(skip_serializing_if = "Option::is_none")]
    kallsyms: Option<PathBuf>,
    /// Check the profiler: add a known cost to a server and report whether the profile finds it,
    /// with exit status 1 if not. Takes about 20 s.
    #[arg(long, conflicts_with_all = [
        "duration", "cpus", "pid", "beside", "cgroup", "unit", "container", "folded", "pprof", "frequency", "requests", "every", "events", "event_file",
        "command", "taxonomy", "perf", "by",
    ])]
    self_check: bool,
    /// Command to run and to profile until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        let failure = match error.fault() {
            Fault::Usage => Self::usage(&error),
            Fault::Lacking => Self::lacking(&error),
            Fault::Failed => Self::failed(&error),
        };
        match error.next_step() {
            Some(step) => failure.with_hint(step),
            None => failure,
        }
    }
}

impl Arguments {
    /// Refuses options without effect.
    fn refuse_ignored(&self) -> Result<(), Failure> {
        let has_accounts = self.events == Some(EventChoice::Accounts);
        let why = "with --events accounts, which have no functions";
        refuse_ignored(&[
            (self.rules.is_some() && has_accounts, "rules", why),
            (self.folded.is_some() && has_accounts, "folded", why),
            (self.pprof.is_some() && has_accounts, "pprof", why),
            (
                self.frequency.is_some() && has_accounts,
                "frequency",
                "with --events accounts, which have no samples",
            ),
        ])
    }

    /// The same options with all defaults.
    fn resolved(&self) -> Result<Self, Failure> {
        let mut all = self.clone();
        if self.self_check {
            return Ok(all);
        }
        if self.perf.is_some() {
            all.taxonomy = Some(self.taxonomy.unwrap_or(Taxonomy::Layers));
            return Ok(all);
        }
        let settings = self.settings()?;
        all.duration = settings.duration.map(Time);
        let has_samples = self.events != Some(EventChoice::Accounts);
        all.frequency = has_samples.then_some(settings.frequency_hz);
        all.taxonomy = Some(self.taxonomy.unwrap_or(Taxonomy::Layers));
        if self.event_file.is_none() {
            all.events = Some(self.events.unwrap_or(EventChoice::Best));
        }
        Ok(all)
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let length = self
            .duration
            .map(|time| checked_duration("duration", time.0));
        let is_bounded = !self.command.is_empty() || self.every.is_some();
        let default = (!is_bounded).then_some(DEFAULT_DURATION);
        let events = match (&self.event_file, self.events) {
            (Some(file), _) => Events::File(file.clone()),
            (None, Some(EventChoice::Best) | None) => Events::Best,
            (None, Some(EventChoice::Clock)) => Events::Clock,
            (None, Some(EventChoice::Counters)) => Events::Counters,
            (None, Some(EventChoice::Misses)) => Events::Misses,
            (None, Some(EventChoice::Accounts)) => Events::Accounts,
        };
        Ok(Settings {
            duration: length.transpose()?.or(default),
            cpus: self.cpus.clone().map(|list| list.0),
            pid: self.pid,
            beside: self.beside.clone(),
            selector: self.group.selector(),
            command: self.command.clone(),
            frequency_hz: self.frequency.unwrap_or(DEFAULT_FREQUENCY_HZ),
            requests: self.requests.clone(),
            rules: self.rules.clone(),
            events,
            keeps_offsets: self.folded.is_some()
                || self.pprof.is_some()
                || self.every.is_none() && (self.pid.is_some() || !self.command.is_empty()),
            ..Settings::default()
        })
    }
}

/// Measures a profile and prints it.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    arguments.refuse_ignored()?;
    if arguments.shared.shows_config(&arguments.resolved()?)? {
        return Ok(Status::Done);
    }
    if let Some(file) = &arguments.perf {
        return recorded(arguments, file);
    }
    let every = arguments
        .every
        .map(|time| checked_duration("every", time.0));
    let every = every.transpose()?;
    let stop = stop::on_signals()?;
    if arguments.self_check {
        return self_check::run(arguments, &stop);
    }
    let mut profiler = Profiler::new(arguments.settings()?)?;
    let end = match every {
        Some(every) => profiler.run_every(every, &stop, print_line)?,
        None => once(arguments, &mut profiler, &stop)?,
    };
    match end {
        End::Stopped if every.is_none() || arguments.duration.is_some() => Ok(Status::Interrupted),
        End::Command(0) | End::Duration | End::Process | End::Stopped => Ok(Status::Done),
        End::Command(status) => Err(Failure::failed(format!(
            "{}: the command ended with exit status {status}; the profile above covers its run",
            arguments.command.join(" ")
        ))),
    }
}

fn once(
    arguments: &Arguments,
    profiler: &mut Profiler,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<End, Failure> {
    // Create the file before the run, so that a wrong name fails at once.
    let folded = StackFile::create("folded", arguments.folded.as_deref())?;
    let pprof = StackFile::create("pprof", arguments.pprof.as_deref())?;
    if arguments.shared.shows_progress() && arguments.command.is_empty() {
        let length = arguments.duration.map_or(DEFAULT_DURATION, |time| time.0);
        message!(
            "profiling for {:.0} s; Ctrl-C ends it earlier",
            length.as_secs_f64()
        );
    }
    let (report, end) = profiler.run(stop)?;
    // Print the report first, so that a full disk does not lose it.
    print_report(arguments, &report)?;
    if let Some(file) = folded {
        file.write(|out| profiler.write_folded(out))?;
    }
    if let Some(file) = pprof {
        file.write(|out| profiler.write_pprof(out))?;
    }
    Ok(end)
}

/// Prints the profile of a file of `perf record`.
fn recorded(arguments: &Arguments, file: &Path) -> Result<Status, Failure> {
    let folded = StackFile::create("folded", arguments.folded.as_deref())?;
    let pprof = StackFile::create("pprof", arguments.pprof.as_deref())?;
    let traffic = match (arguments.packets, arguments.links.as_deref()) {
        (Some(packets), _) => Traffic::Packets(packets),
        (None, Some([before, after])) => Traffic::Links(before.clone(), after.clone()),
        (None, _) => Traffic::Unknown,
    };
    let mut recorded = recording::analyse(&recording::Settings {
        file: file.to_owned(),
        traffic,
        kallsyms: arguments.kallsyms.clone(),
        rules: arguments.rules.clone(),
        pid: arguments.pid,
        keeps_offsets: folded.is_some() || pprof.is_some(),
    })?;
    print_report(arguments, &recorded.report)?;
    if let Some(file) = folded {
        file.write(|out| recorded.write_folded(out))?;
    }
    if let Some(file) = pprof {
        file.write(|out| recorded.write_pprof(out))?;
    }
    Ok(Status::Done)
}

fn print_report(arguments: &Arguments, report: &Report) -> Result<(), Failure> {
    let taxonomy = arguments.taxonomy.unwrap_or(Taxonomy::Layers);
    arguments.shared.print(report, |report| {
        table::render(report, taxonomy, arguments.by == Some(Division::Cpu))
    })?;
    if arguments.shared.format == Format::Json && !arguments.shared.quiet {
        for limit in &report.limits {
            message!("note: {limit}");
        }
    }
    Ok(())
}

/// A file of stacks that an option names.
struct StackFile {
    option: &'static str,
    path: PathBuf,
    file: File,
}

impl StackFile {
    /// Creates the file, if the option has one.
    fn create(option: &'static str, path: Option<&Path>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let path = path.to_owned();
        match File::create(&path) {
            Ok(file) => Ok(Some(Self { option, path, file })),
            Err(error) => Err(Failure::usage(unwritable(option, &path, &error))
                .with_hint("name a file in a folder that you may write to")),
        }
    }

    fn write(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let mut out = BufWriter::new(self.file);
        write(&mut out).and_then(|()| out.flush()).map_err(|error| {
            Failure::failed(unwritable(self.option, &self.path, &error))
                .with_hint("name a file on a disk with free space; the report is complete")
        })
    }
}

fn unwritable(option: &str, path: &Path, error: &io::Error) -> String {
    format!("--{option} {}: {error}", path.display())
}

/// Prints a report as one line and flushes it.
fn print_line(report: &Report) -> Result<(), Failure> {
    let mut line = serde_json::to_string(report).map_err(Failure::failed)?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::failed(format!("standard output: {error}")))
}
