//! What `profile` is asked to do: every option once, with its default, range, help and needs.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use perpacket_spec::{CpuList, SpecError, Time, Whole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cgroup::Selector;
use crate::settings::{DEFAULT_DURATION, Events, Settings};

/// Samples a second on each processor. Above the highest number, sampling would be most of the load.
pub type Frequency = Whole<1, 20_000>;

/// Default number of samples a second on each processor. It is prime, so that samples do not align
/// with ticks or a periodic load. It is low, because a timer interrupt in a virtual machine can
/// cost more than 100 us. There, profiling at 499 samples a second reduced the throughput to 0.94
/// of the throughput without a profile. At 97 samples a second, the ratio was 1.00
/// (`benches/profiler_overhead.py`, whose README has the intervals).
pub const DEFAULT_FREQUENCY: Frequency = Frequency::of::<97>();

/// Length of the longest window: a day.
const LENGTH_LIMIT: Duration = Duration::from_secs(86_400);

/// The length of a profile or of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub Duration);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = text.parse::<Time>()?.0;
        match !length.is_zero() && length <= LENGTH_LIMIT {
            true => Ok(Self(length)),
            false => Err("expected more than 0 and at most 24h".to_owned()),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Time(self.0).fmt(formatter)
    }
}

perpacket_spec::text! {
    Length, "time", "10s";
}

/// A grouping of the samples. The table shows one; the JSON document has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// Processors and queues: time, layers, packets and interrupts.
    Cpu,
}

/// The events that are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
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

/// Report what a packet costs, layer by layer.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// Length of the profile [default: 10s; with a command or --every, it lasts until the command
    /// or a signal ends it].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Length>,
    /// CPUs to profile, such as `0-3,8` [default: all].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Process of the server: counts packets in its network namespace, and separates its user code.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "unit", "container"])]
    pub pid: Option<u32>,
    /// Another process whose user code counts as the server's, such as a second server of a trial.
    #[arg(long, value_name = "PID", conflicts_with_all = ["perf", "self_check"])]
    #[schemars(extend("x-needs" = "pid"))]
    pub beside: Vec<u32>,
    /// The control groups.
    #[command(flatten)]
    #[serde(flatten)]
    pub group: ControlGroups,
    /// Name of a running application of `perpacket application`; its programs are profiled as --pid.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "cgroup", "unit", "container", "perf", "self_check"])]
    pub application: Option<String>,
    /// Profile these machines over ssh, as web1,root@web2:2222, and print one table.
    #[arg(long, value_name = "LIST", conflicts_with_all = [
        "every", "folded", "pprof", "perf", "self_check", "command", "application",
    ])]
    pub hosts: Option<String>,
    /// Grouping that the table shows [default: layers].
    #[arg(long, value_enum)]
    pub taxonomy: Option<Taxonomy>,
    /// Also show the processors, with their shares of packets and softirqs, and the queues.
    #[arg(
        long,
        value_enum,
        value_name = "DIVISION",
        conflicts_with = "self_check"
    )]
    pub by: Option<Division>,
    /// Write folded stacks for flame graphs to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    #[schemars(extend("x-excludes" = "events=accounts: accounts have no functions"))]
    pub folded: Option<PathBuf>,
    /// Write the samples to this file for pprof: processor time, and time for each packet, with the
    /// labels layer, kind, process and cgroup.
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    #[schemars(extend("x-excludes" = "events=accounts: accounts have no functions"))]
    pub pprof: Option<PathBuf>,
    /// Samples a second on each CPU [default: 97].
    #[arg(long, value_name = "HZ")]
    #[schemars(extend("x-excludes" = "events=accounts: accounts have no samples"))]
    pub frequency: Option<Frequency>,
    /// URL of the number of answered requests: JSON with `requests`, or nginx's stub_status.
    #[arg(long, value_name = "URL")]
    pub requests: Option<String>,
    /// Print a profile each time this has passed, as a line of JSON, until the duration or a signal.
    #[arg(long, value_name = "TIME")]
    pub every: Option<Length>,
    /// TOML file of rules that override the built-in ones: tables `[[layers]]` with `layer` and
    /// `functions` or `modules`, `[[kinds]]` with `kind` and `functions`, `[boundaries]`, `[skid]`,
    /// `[[programs]]`. A name may end in `*`.
    #[arg(long, value_name = "FILE")]
    #[schemars(extend("x-excludes" = "events=accounts: accounts have no functions"))]
    pub rules: Option<PathBuf>,
    /// Events to sample [default: best].
    #[arg(long, value_enum)]
    pub events: Option<EventChoice>,
    /// TOML file of events that replaces the built-in sets: `name`, `what`, and `[[passes]]` with
    /// `sample`, `count` and `period`.
    #[arg(long, value_name = "FILE", conflicts_with = "events")]
    pub event_file: Option<PathBuf>,
    /// File to profile in place of this machine: of `perf record -a -g`, the text of `perf script` or
    /// `perf report`, folded stacks, the stacks of bcc or bpftrace, or of pprof; perf is not needed.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "duration", "cpus", "cgroup", "unit", "container", "frequency", "requests", "every", "events", "event_file",
        "command",
    ])]
    pub perf: Option<PathBuf>,
    /// Packets sent and received during the recording of --perf.
    #[arg(long, value_name = "N", conflicts_with = "links")]
    #[schemars(extend("x-needs" = "perf"))]
    pub packets: Option<u64>,
    /// Outputs of `ip -s -j link` before and after the recording of --perf: their difference is its
    /// packets.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    #[schemars(extend("x-needs" = "perf"))]
    pub links: Option<Vec<PathBuf>>,
    /// Copy of /proc/kallsyms of the machine that --perf was recorded on [default: this machine's, if
    /// it runs the same kernel].
    #[arg(long, value_name = "FILE")]
    #[schemars(extend("x-needs" = "perf"))]
    pub kallsyms: Option<PathBuf>,
    /// Check the profiler: add a known cost to a server and report whether the profile finds it,
    /// with exit status 1 if not. Takes about 20 s.
    #[arg(long, conflicts_with_all = [
        "duration", "cpus", "pid", "cgroup", "unit", "container", "folded", "pprof", "frequency", "requests", "every", "events", "event_file",
        "command", "taxonomy", "perf",
    ])]
    pub self_check: bool,
    /// Command to run and to profile until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// The control groups to profile.
#[derive(Args, Clone, Debug, Default, Serialize, JsonSchema)]
#[group(multiple = false)]
pub struct ControlGroups {
    /// Control group to profile, and everything below it, by its path from the root of its
    /// hierarchy. Counts packets in its network namespace, and separates its work.
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    /// systemd unit to profile, such as `nginx.service`.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// Container of Docker, Podman, containerd or CRI-O to profile, by the beginning of its
    /// identifier.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
}

impl ControlGroups {
    /// The choice, if one was made.
    #[must_use]
    pub fn selector(&self) -> Option<Selector> {
        let path = self.cgroup.clone().map(Selector::Path);
        path.or_else(|| self.unit.clone().map(Selector::Unit))
            .or_else(|| self.container.clone().map(Selector::Container))
    }
}

impl perpacket_spec::Spec for Spec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        if self.hosts.is_some() || self.application.is_some() {
            return Err(SpecError::new(
                "--hosts and --application: the agent profiles this machine alone",
            )
            .with_hint("run `perpacket profile`, which knows applications and other machines"));
        }
        if self.self_check {
            return Ok(self);
        }
        self.taxonomy.get_or_insert(Taxonomy::Layers);
        if self.perf.is_some() {
            return Ok(self);
        }
        if self.command.is_empty() && self.every.is_none() {
            self.duration.get_or_insert(Length(DEFAULT_DURATION));
        }
        if self.events != Some(EventChoice::Accounts) {
            self.frequency.get_or_insert(DEFAULT_FREQUENCY);
        }
        if self.event_file.is_none() {
            self.events.get_or_insert(EventChoice::Best);
        }
        Ok(self)
    }
}

impl Spec {
    /// What the profiler measures.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let events = match (&self.event_file, self.events) {
            (Some(file), _) => Events::File(file.clone()),
            (None, Some(EventChoice::Best) | None) => Events::Best,
            (None, Some(EventChoice::Clock)) => Events::Clock,
            (None, Some(EventChoice::Counters)) => Events::Counters,
            (None, Some(EventChoice::Misses)) => Events::Misses,
            (None, Some(EventChoice::Accounts)) => Events::Accounts,
        };
        Settings {
            duration: self.duration.map(|length| length.0),
            cpus: self.cpus.clone().map(|list| list.0),
            pid: self.pid,
            beside: self.beside.clone(),
            selector: self.group.selector(),
            command: self.command.clone(),
            frequency_hz: self.frequency.unwrap_or(DEFAULT_FREQUENCY).get(),
            requests: self.requests.clone(),
            rules: self.rules.clone(),
            events,
            keeps_offsets: self.folded.is_some()
                || self.pprof.is_some()
                || self.every.is_none() && (self.pid.is_some() || !self.command.is_empty()),
            ..Settings::default()
        }
    }
}
