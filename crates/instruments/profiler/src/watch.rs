//! Profiles without an end. The sums of samples and packets never decrease.
//!
//! A [`Watch`] runs for months. Processors go offline and come back, modules are loaded, processes and
//! interfaces come and go, and a kernel may forbid perf while it runs. The sums continue through all
//! of this, and [`Totals::limits`] lists what the watch could not measure.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use perpacket_cost::{Directions, Kind, Layer, PerKind, PerLayer};
use perpacket_linux::clock::process_cpu_ns;
use perpacket_linux::cpus;
use perpacket_linux::text;

use crate::attribute::Attributor;
use crate::bounded::Bounded;
use crate::capture::accounts::Accounts;
use crate::capture::events::{EventSet, Pass};
use crate::capture::perf::{Kernel, period_ns};
use crate::capture::{Backend, EventProvider, EventSource};
use crate::cgroup::{self, Selector};
use crate::collector::{Collector, Detail};
use crate::count::{Activity, Counter, Drops, Interface};
use crate::error::ProfileError;
use crate::passes::SECOND_NS;
use crate::profiler::{attributor, member, rules_of};
use crate::spec::DEFAULT_FREQUENCY;
use crate::tally::{Group, Tally};

/// Time between two attempts to use a better source of samples than the current one, and between two
/// searches for a process of the chosen groups.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Time between two rounds of forgetting control groups and finding new kernel modules.
const ROUND: Duration = Duration::from_secs(60);

/// Maximum number of stacks that are stored from one step to the next: about 500 KB.
pub const STACK_LIMIT: usize = 1_000;

/// The kernel's list of loaded modules.
const MODULES: &str = "/proc/modules";

/// What to watch, and how.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// Processors; `None` means all that are online at the time.
    pub cpus: Option<Vec<usize>>,
    /// Number of samples a second on each processor.
    pub frequency_hz: u32,
    /// File of rules that precede the compiled-in ones. Those for programs have no effect, because
    /// processes are not stored.
    pub rules: Option<PathBuf>,
    /// File of the kernel's symbols.
    pub kallsyms: PathBuf,
    /// Control groups to watch. The work of other groups is in the layer `other`. Packets are those
    /// of the network namespace of one process of the groups. `None` means all groups.
    pub selector: Option<Selector>,
    /// Whether to divide the time by control group.
    pub by_cgroup: bool,
    /// Maximum number of names with sums of their own, for each kind of name.
    pub names: usize,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            cpus: None,
            frequency_hz: DEFAULT_FREQUENCY.get(),
            rules: None,
            kallsyms: PathBuf::from("/proc/kallsyms"),
            selector: None,
            by_cgroup: false,
            names: 20,
        }
    }
}

/// Something that the watch cannot measure now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// A short name.
    pub name: &'static str,
    /// What happened, and its effect on the sums.
    pub meaning: String,
}

/// Everything since the start. Numbers never decrease.
#[derive(Clone, Debug)]
pub struct Totals {
    /// How processor time is measured now.
    pub backend: Backend,
    /// Nanoseconds by layer and kind, idle time included.
    pub cpu_ns: PerLayer<PerKind<f64>>,
    /// Nanoseconds of kernel time that no rule claimed.
    pub unclaimed_ns: f64,
    /// Nanoseconds of processor time of the watching process.
    pub overhead_ns: u64,
    /// Samples, idle ones included.
    pub samples: u64,
    /// Samples that the timers of all processors should have delivered.
    pub expected_samples: f64,
    /// Records lost because a ring was full.
    pub lost: u64,
    /// Times the kernel stopped sampling.
    pub throttled: u64,
    /// Times the events were opened again.
    pub reopened: u64,
    /// Nanoseconds by control group and layer, if the watch divides them.
    pub cgroups: Bounded<PerLayer<f64>>,
    /// Nanoseconds of interrupts, softirqs and kernel threads by layer: work for any control group.
    pub shared: PerLayer<f64>,
    /// Frames and bytes by interface.
    pub interfaces: Bounded<Interface>,
    /// TCP segments as the protocol counts them: sent ones as links carry them, received ones after
    /// receive offload has merged them.
    pub segments: Directions,
    /// UDP datagrams.
    pub datagrams: Directions,
    /// TCP segments sent again.
    pub retransmitted: u64,
    /// Packets dropped.
    pub drops: Drops,
    /// Seconds that each processor ran: the time less its idle and stolen time.
    pub busy_s: BTreeMap<usize, f64>,
    /// Share of the expected samples that were missing in the last minute; `None` without samples.
    pub missing_share: Option<f64>,
    /// What the watch cannot measure now.
    pub limits: Vec<Limit>,
}

impl Totals {
    fn new(names: usize) -> Self {
        Self {
            backend: Backend::CpuClock,
            cpu_ns: PerLayer::default(),
            unclaimed_ns: 0.0,
            overhead_ns: 0,
            samples: 0,
            expected_samples: 0.0,
            lost: 0,
            throttled: 0,
            reopened: 0,
            cgroups: Bounded::new(names),
            shared: PerLayer::default(),
            interfaces: Bounded::new(names),
            segments: Directions::default(),
            datagrams: Directions::default(),
            retransmitted: 0,
            drops: Drops::default(),
            busy_s: BTreeMap::new(),
            missing_share: None,
            limits: Vec::new(),
        }
    }

    fn add_samples(&mut self, tally: &Tally) {
        for layer in Layer::ALL {
            for kind in Kind::ALL {
                self.cpu_ns[layer][kind] += tally.sums.cells[layer][kind];
            }
        }
        self.unclaimed_ns += tally.unclaimed;
        self.samples += tally.samples;
        self.lost += tally.lost;
        self.throttled += tally.throttled;
    }

    fn add_groups(&mut self, tally: &Tally, collector: &mut Collector) {
        for (&group, layers) in &tally.groups {
            let work = layers.iter().map(|(_, ns)| ns).sum();
            let sums = match group {
                Group::Shared => &mut self.shared,
                group => self.cgroups.entry(&collector.group_name(group), work),
            };
            for (layer, ns) in layers.iter() {
                sums[layer] += ns;
            }
        }
    }

    fn add_counts(&mut self, activity: &Activity) {
        for (name, counts) in &activity.interfaces {
            let frames = counts.packets_sent + counts.packets_received;
            self.interfaces.entry(name, frames as f64).add(*counts);
        }
        let window = &activity.window;
        self.segments.sent += window.segments.sent;
        self.segments.received += window.segments.received;
        self.datagrams.sent += activity.datagrams.sent;
        self.datagrams.received += activity.datagrams.received;
        self.retransmitted += activity.retransmitted;
        self.drops.interfaces += activity.drops.interfaces;
        self.drops.backlog += activity.drops.backlog;
        self.drops.tcp += activity.drops.tcp;
        self.drops.udp += activity.drops.udp;
        for (&cpu, processor) in &activity.processors {
            *self.busy_s.entry(cpu).or_default() += processor.run_s();
        }
    }
}

/// The list of the processors that are online.
pub type Online = Box<dyn FnMut() -> io::Result<Vec<usize>> + Send>;

/// Sources of samples, best first.
pub type Providers = Vec<Box<dyn EventProvider + Send>>;

/// Samples all processors and counts packets, until it is dropped.
pub struct Watch {
    settings: WatchSettings,
    pass: Pass,
    providers: Providers,
    online: Online,
    /// The open source with the index of its provider.
    open: Option<(usize, Box<dyn EventSource>)>,
    cpus: Vec<usize>,
    tried: Option<Instant>,
    collector: Collector,
    modules: BTreeSet<String>,
    /// The process whose network namespace is counted, if control groups were chosen.
    member: Option<u32>,
    searched: Instant,
    counter: Counter,
    stepped: Instant,
    round: Instant,
    round_start: (u64, f64),
    cpu_at_start_ns: u64,
    failures: BTreeMap<&'static str, String>,
    totals: Totals,
}

impl Watch {
    /// Watches this machine: by perf, or by the kernel's accounts while perf is forbidden.
    ///
    /// # Errors
    /// A setting is wrong, or the kernel's counts cannot be read.
    pub fn new(settings: WatchSettings) -> Result<Self, ProfileError> {
        let providers: Providers = vec![
            Box::new(Kernel {
                counters: false,
                processes: false,
            }),
            Box::new(Accounts::default()),
        ];
        Self::with_providers(settings, providers, Box::new(cpus::online))
    }

    /// Watches samples and processors from elsewhere.
    ///
    /// # Errors
    /// A setting is wrong, or the kernel's counts cannot be read.
    pub fn with_providers(
        settings: WatchSettings,
        providers: Providers,
        online: Online,
    ) -> Result<Self, ProfileError> {
        let rules = rules_of(settings.rules.as_deref())?;
        let mut events = EventSet::clock(settings.frequency_hz)?;
        let attributor = attributor(&settings.kallsyms, rules);
        let member = settings.selector.as_ref().map(member).transpose()?;
        let counter = Counter::new(member)?;
        let now = Instant::now();
        let pass = events.passes.remove(0);
        let mut watch = Self {
            totals: Totals::new(settings.names),
            collector: collector(attributor, &settings, &pass),
            pass,
            providers,
            online,
            open: None,
            cpus: Vec::new(),
            tried: None,
            modules: loaded_modules(),
            member,
            searched: now,
            counter,
            stepped: now,
            round: now,
            round_start: (0, 0.0),
            cpu_at_start_ns: process_cpu_ns(),
            failures: BTreeMap::new(),
            settings,
        };
        watch.follow_processors();
        Ok(watch)
    }

    /// Adds everything since the last call to the totals and returns them. All totals include the
    /// work up to this call.
    pub fn step(&mut self) -> &Totals {
        self.drain();
        match self.counter.advance(&self.cpus) {
            Ok(activity) => {
                self.charge(&activity);
                self.totals.add_counts(&activity);
                self.failures.remove("counts");
            }
            // The samples and the counts stay for the next step.
            Err(error) => drop(self.failures.insert("counts", error.to_string())),
        }
        if let Err(error) = self.follow_group() {
            self.failures.insert("group", error.to_string());
        }
        self.totals.overhead_ns = process_cpu_ns().saturating_sub(self.cpu_at_start_ns);
        self.follow_processors();
        if self.round.elapsed() >= ROUND {
            self.end_round();
        }
        self.totals.limits = self.limits();
        &self.totals
    }

    /// The number of stacks, processes and files that are stored.
    #[must_use]
    pub fn stored(&self) -> [usize; 3] {
        self.collector.stored()
    }

    fn drain(&mut self) {
        let elapsed_s = self.stepped.elapsed().as_secs_f64();
        self.stepped = Instant::now();
        let Some((_, source)) = &mut self.open else {
            return;
        };
        let collector = &mut self.collector;
        let drained = source.drain(&mut |record| collector.add(record));
        if self.totals.backend != Backend::Accounts {
            let cpus = self.cpus.iter();
            let per_s: f64 = cpus
                .map(|&cpu| SECOND_NS / period_ns(self.settings.frequency_hz, cpu) as f64)
                .sum();
            self.totals.expected_samples += elapsed_s * per_s;
        }
        if let Err(error) = drained {
            self.failures.insert("samples", error.to_string());
            self.open = None;
        }
    }

    /// Adds the samples of a step, which its run times calibrate.
    fn charge(&mut self, activity: &Activity) {
        let tally = self.collector.end(&activity.processors);
        self.totals.add_samples(&tally);
        if self.settings.by_cgroup {
            self.totals.add_groups(&tally, &mut self.collector);
        }
        self.collector.limit_stacks(STACK_LIMIT);
    }

    /// Counts the namespace of another process of the chosen groups, if the present one has ended.
    fn follow_group(&mut self) -> Result<(), ProfileError> {
        let (Some(selector), Some(pid)) = (&self.settings.selector, self.member) else {
            return Ok(());
        };
        let is_member = cgroup::of_process(pid).is_some_and(|path| selector.accepts(&path));
        if is_member || self.searched.elapsed() < RETRY_INTERVAL {
            return Ok(());
        }
        self.searched = Instant::now();
        let pid = member(selector)?;
        self.counter.follow(pid, &self.cpus)?;
        self.member = Some(pid);
        self.failures.remove("group");
        Ok(())
    }

    /// Opens the events again if the processors changed or a better source may open.
    fn follow_processors(&mut self) {
        let online = match (self.online)() {
            Ok(online) => online,
            Err(error) => {
                let text = format!("the CPUs that are online cannot be listed: {error}");
                self.failures.insert("cpus", text);
                return;
            }
        };
        self.failures.remove("cpus");
        let wanted: Vec<usize> = match &self.settings.cpus {
            Some(chosen) => online
                .into_iter()
                .filter(|cpu| chosen.contains(cpu))
                .collect(),
            None => online,
        };
        let is_best = matches!(self.open, Some((0, _)));
        let may_retry = self
            .tried
            .is_none_or(|tried| tried.elapsed() >= RETRY_INTERVAL);
        if wanted != self.cpus || self.open.is_none() || (!is_best && may_retry) {
            self.open_best(wanted);
        }
    }

    fn open_best(&mut self, cpus: Vec<usize>) {
        self.tried = Some(Instant::now());
        let current = self.open.as_ref().map(|(index, _)| *index);
        let is_same = cpus == self.cpus;
        for (index, provider) in self.providers.iter().enumerate() {
            if is_same && current == Some(index) {
                return;
            }
            let opened = provider.open(&self.pass, &cpus).and_then(|mut source| {
                source.start()?;
                Ok(source)
            });
            match opened {
                Ok(source) => {
                    let is_first = self.cpus.is_empty() && self.totals.samples == 0;
                    self.totals.reopened += u64::from(!is_first);
                    self.totals.backend = provider.backend();
                    if index == 0 {
                        self.failures.remove("perf");
                        self.failures.remove("samples");
                    }
                    self.open = Some((index, source));
                    self.cpus = cpus;
                    self.stepped = Instant::now();
                    return;
                }
                Err(error) if index == 0 => {
                    drop(self.failures.insert("perf", error.to_string()));
                }
                Err(error) => drop(self.failures.insert("samples", error.to_string())),
            }
        }
        // The next step tries again.
        self.open = None;
    }

    /// Forgets what no longer exists, finds what is new, and ranks the names.
    fn end_round(&mut self) {
        self.round = Instant::now();
        let (samples, expected) = self.round_start;
        let found = (self.totals.samples + self.totals.lost).saturating_sub(samples) as f64;
        let expected = self.totals.expected_samples - expected;
        self.totals.missing_share = (expected > 0.0).then(|| (1.0 - found / expected).max(0.0));
        self.round_start = (
            self.totals.samples + self.totals.lost,
            self.totals.expected_samples,
        );
        self.totals.interfaces.end_round();
        self.totals.cgroups.end_round();
        self.collector.forget_groups();
        let modules = loaded_modules();
        if modules != self.modules {
            self.modules = modules;
            let rules = self.collector.attributor().rules().clone();
            let attributor = attributor(&self.settings.kallsyms, rules);
            self.collector = collector(attributor, &self.settings, &self.pass);
        }
    }

    fn limits(&self) -> Vec<Limit> {
        let timer = if self.totals.backend == Backend::Accounts {
            ""
        } else {
            "time is sampled by a timer; "
        };
        let mut limits = vec![Limit {
            name: "no_counters",
            meaning: format!("{timer}cycles and cache misses are not measured"),
        }];
        let mut add = |name, meaning| limits.push(Limit { name, meaning });
        if self.totals.backend == Backend::Accounts {
            let why = self.failures.get("perf").map_or("", String::as_str);
            add(
                "no_perf",
                format!(
                    "{why}; user, kernel and interrupt time are the kernel's accounts, without layers"
                ),
            );
        } else if self.collector.attributor().symbols().is_empty() {
            add(
                "no_symbols",
                "the kernel hides its symbols: all kernel time is in the layer `other`".to_owned(),
            );
        }
        let chosen = self.settings.cpus.iter().flatten();
        let absent: Vec<usize> = chosen
            .copied()
            .filter(|cpu| !self.cpus.contains(cpu))
            .collect();
        if !absent.is_empty() {
            let absent = cpus::format(&absent);
            add(
                "offline",
                format!("processors {absent} are not online: they are in no sum"),
            );
        }
        for (name, meaning) in &self.failures {
            match *name {
                "perf" => {}
                name => add(name, meaning.clone()),
            }
        }
        limits
    }
}

/// A collector of sums.
fn collector(attributor: Attributor, settings: &WatchSettings, pass: &Pass) -> Collector {
    let mut collector = Collector::new(attributor, Some(std::process::id()), Detail::Sums);
    collector.set_selector(settings.selector.clone());
    collector.begin(pass.sample);
    collector
}

/// The names of the loaded modules.
fn loaded_modules() -> BTreeSet<String> {
    let text = text::read(MODULES).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_ascii_whitespace().next().map(str::to_owned))
        .collect()
}
