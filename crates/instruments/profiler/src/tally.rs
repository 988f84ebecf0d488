//! Sums of samples by layer, kind and category, by slice of the window, and by process and stack.
//!
//! Memory grows with the number of different stacks and processes, not with the length of the window.

use std::collections::{BTreeMap, HashMap};

use perpacket_cost::{Category, Charge, Clue, EventKind, Kind, Layer, PerKind, PerLayer};

use crate::attribute::{Attributor, ResolvedStack};
use crate::calibration::Calibration;
use crate::capture::{Record, Sample};
use crate::cgroup::{self, ControlGroups, Selector};
use crate::count::ProcessorActivity;
use crate::process::{GENERATED, ObjectId, Processes, file_name};

/// Length of the slices of the window. Confidence intervals are computed from the slices.
const SLICE_NS: u64 = 100_000_000;

/// Maximum number of stacks that are stored from one window to the next.
const STACK_LIMIT: usize = 200_000;

/// Maximum number of new processes before those that have ended are forgotten.
const ENDED_LIMIT: usize = 300;

/// Sums by layer, kind and category.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Sums by layer and kind.
    pub cells: PerLayer<PerKind<f64>>,
    /// Sums by category, in the order of `Category::ALL`.
    pub categories: [f64; Category::ALL.len()],
    /// User code of the server's processes, if there is a server.
    pub server_user: f64,
    /// Work of the chosen control groups, if some were chosen.
    pub chosen: f64,
    /// Work in interrupts, softirqs and kernel threads. It may be for any control group.
    pub shared: f64,
    /// Work in softirqs.
    pub softirq: f64,
}

impl Sums {
    pub(crate) fn add(&mut self, charge: Charge, weight: f64) {
        self.cells[charge.layer][charge.kind] += weight;
        self.categories[charge.category as usize] += weight;
    }

    /// Adds other sums.
    fn absorb(&mut self, other: &Self) {
        for (layer, kinds) in other.cells.iter() {
            for (kind, weight) in kinds.iter() {
                self.cells[layer][kind] += weight;
            }
        }
        for (own, more) in self.categories.iter_mut().zip(&other.categories) {
            *own += more;
        }
        self.server_user += other.server_user;
        self.chosen += other.chosen;
        self.shared += other.shared;
        self.softirq += other.softirq;
    }

    /// Multiplies the sums of the layers that `accepts` accepts.
    fn scale(&mut self, factor: f64, accepts: impl Fn(Layer) -> bool) {
        for layer in Layer::ALL.into_iter().filter(|&layer| accepts(layer)) {
            for kind in Kind::ALL {
                self.cells[layer][kind] *= factor;
            }
        }
        let is_idle = |category: &Category| *category == Category::Idle;
        for category in Category::ALL {
            if accepts(Layer::Idle) == is_idle(&category) {
                self.categories[category as usize] *= factor;
            }
        }
        if !accepts(Layer::Idle) {
            for sum in [
                &mut self.server_user,
                &mut self.chosen,
                &mut self.shared,
                &mut self.softirq,
            ] {
                *sum *= factor;
            }
        }
    }
}

/// The code that ran: a kernel stack, or an instruction of a program's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// A stack, by its index in the collector's table.
    Kernel(usize),
    /// An instruction, by its file and its offset in the file. `None` if no file is mapped at its
    /// address.
    User(Option<(ObjectId, u64)>),
}

/// The control group to which the work of a sample belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Work in interrupts, softirqs and kernel threads. It may be for any control group.
    Shared,
    /// A control group by its number.
    Number(u64),
    /// The control group of a process. It is used on kernels that do not report numbers.
    OfProcess(u32),
}

/// The number and the weight of the samples of one code.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    /// The layer and kind of work to which the samples are charged.
    pub charge: Charge,
    /// The control group of the first sample.
    pub group: Group,
    /// Number of samples.
    pub samples: u64,
    /// Amount of the event that the samples represent.
    pub weight: f64,
}

/// The sums of one pass over one window.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The sampled event.
    pub event: EventKind,
    /// Number of samples, idle ones included.
    pub samples: u64,
    /// Records lost because a ring was full.
    pub lost: u64,
    /// How many times the kernel stopped sampling.
    pub throttled: u64,
    /// Sums over the whole window.
    pub sums: Sums,
    /// Sums by slice of the window.
    pub slices: BTreeMap<u64, Sums>,
    /// Amounts by control group and layer, without idle time.
    pub groups: HashMap<Group, PerLayer<f64>>,
    /// Weights by process and code.
    pub codes: HashMap<(u32, Code), Weight>,
    /// The user code of threads whose names show a part of an application. The key is process, code
    /// and part.
    pub threads: HashMap<(u32, Code, String), f64>,
    /// Kernel samples without the idle loop.
    pub kernel: f64,
    /// Kernel samples that no rule claimed.
    pub unclaimed: f64,
    /// Kernel samples whose leaf only marks where interrupts were enabled again.
    pub skid: f64,
    /// Samples of the measuring process.
    pub own: f64,
    /// Number of samples outside the idle loop.
    pub busy_samples: u64,
    /// Sums of each processor, and the calibration of its samples.
    pub processors: BTreeMap<usize, (Sums, Calibration)>,
}

impl Tally {
    /// Zero sums.
    #[must_use]
    pub fn new(event: EventKind) -> Self {
        Self {
            event,
            samples: 0,
            lost: 0,
            throttled: 0,
            sums: Sums::default(),
            slices: BTreeMap::new(),
            groups: HashMap::new(),
            codes: HashMap::new(),
            threads: HashMap::new(),
            kernel: 0.0,
            unclaimed: 0.0,
            skid: 0.0,
            own: 0.0,
            busy_samples: 0,
            processors: BTreeMap::new(),
        }
    }

    /// Time in the idle loop, or another event there.
    #[must_use]
    pub fn idle(&self) -> f64 {
        let kinds = self.sums.cells[Layer::Idle].iter();
        kinds.map(|(_, &weight)| weight).sum()
    }

    /// Multiplies the weights of the layers that `accepts` accepts: the idle loop or all others.
    pub(crate) fn scale(&mut self, factor: f64, accepts: impl Fn(Layer) -> bool) {
        self.sums.scale(factor, &accepts);
        for sums in self.slices.values_mut() {
            sums.scale(factor, &accepts);
        }
        for weight in self.codes.values_mut() {
            if accepts(weight.charge.layer) {
                weight.weight *= factor;
            }
        }
        if accepts(Layer::Idle) {
            return;
        }
        for layers in self.groups.values_mut() {
            for layer in Layer::ALL {
                layers[layer] *= factor;
            }
        }
        for weight in self.threads.values_mut() {
            *weight *= factor;
        }
        for sum in [
            &mut self.kernel,
            &mut self.unclaimed,
            &mut self.skid,
            &mut self.own,
        ] {
            *sum *= factor;
        }
    }

    /// Adds the sums of one processor.
    fn absorb(&mut self, other: Self) {
        self.samples += other.samples;
        self.busy_samples += other.busy_samples;
        self.sums.absorb(&other.sums);
        for (slice, sums) in &other.slices {
            self.slices.entry(*slice).or_default().absorb(sums);
        }
        for (group, layers) in &other.groups {
            let own = self.groups.entry(*group).or_default();
            for (layer, weight) in layers.iter() {
                own[layer] += weight;
            }
        }
        for (code, weight) in other.codes {
            let own = self.codes.entry(code).or_insert(Weight {
                samples: 0,
                weight: 0.0,
                ..weight
            });
            own.samples += weight.samples;
            own.weight += weight.weight;
        }
        for (thread, weight) in other.threads {
            *self.threads.entry(thread).or_default() += weight;
        }
        self.kernel += other.kernel;
        self.unclaimed += other.unclaimed;
        self.skid += other.skid;
        self.own += other.own;
    }

    /// Everything except the idle loop.
    #[must_use]
    pub fn busy(&self) -> f64 {
        busy(&self.sums)
    }
}

/// Everything except the idle loop.
#[must_use]
pub fn busy(sums: &Sums) -> f64 {
    let layers = sums.cells.iter().filter(|(layer, _)| *layer != Layer::Idle);
    layers
        .flat_map(|(_, kinds)| kinds.iter().map(|(_, &weight)| weight))
        .sum()
}

/// The server under test.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// The processes that were started as the server. Their descendants belong to the server. Other
    /// processes of the same executable do not, because the executable may also be a load
    /// generator.
    pub originals: Vec<u32>,
}

/// What is stored besides the sums by layer, kind, category and control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing. All user code counts as a server's program.
    Sums,
    /// Processes, stacks and files.
    Files,
    /// Offsets in files too, to find their functions later.
    Offsets,
}

impl Detail {
    /// Files, and offsets in them on demand.
    #[must_use]
    pub const fn of_code(keeps_offsets: bool) -> Self {
        if keeps_offsets {
            Self::Offsets
        } else {
            Self::Files
        }
    }
}

/// Charges records and sums them.
#[derive(Debug)]
pub struct Collector {
    attributor: Attributor,
    processes: Processes,
    cgroups: ControlGroups,
    stacks: Vec<ResolvedStack>,
    numbers: HashMap<Box<[u64]>, usize>,
    /// The measuring process. Its work has a separate sum.
    own_pid: Option<u32>,
    /// The server, if one was named.
    server: Option<Server>,
    /// The chosen control groups.
    selector: Option<Selector>,
    /// Whether each group is chosen.
    is_chosen: HashMap<Group, bool>,
    /// The part of each thread of the server, if its name shows one.
    threads: HashMap<u32, Option<String>>,
    detail: Detail,
    /// Records without a processor.
    tally: Tally,
    /// Samples of each processor.
    by_cpu: BTreeMap<u32, Tally>,
}

impl Collector {
    /// A collector of one event.
    #[must_use]
    pub fn new(attributor: Attributor, own_pid: Option<u32>, detail: Detail) -> Self {
        Self {
            attributor,
            processes: Processes::default(),
            cgroups: ControlGroups::default(),
            stacks: Vec::new(),
            numbers: HashMap::new(),
            own_pid,
            server: None,
            selector: None,
            is_chosen: HashMap::new(),
            threads: HashMap::new(),
            detail,
            tally: Tally::new(EventKind::CpuNs),
            by_cpu: BTreeMap::new(),
        }
    }

    /// Uses only the records, because processes and control groups are those of another time or
    /// machine.
    pub fn set_recorded(&mut self) {
        self.processes = Processes::recorded();
        self.cgroups = ControlGroups::at(None);
    }

    /// Sets the server. Its user code has a separate sum.
    pub fn set_server(&mut self, server: Option<Server>) {
        self.server = server;
    }

    /// Replaces the symbols and rules. Forgets the stacks, because they were charged by the old
    /// symbols and rules.
    pub fn set_attributor(&mut self, attributor: Attributor) {
        self.attributor = attributor;
        self.forget_stacks();
    }

    /// Forgets the control groups, so that those that still exist are read again.
    pub fn forget_groups(&mut self) {
        self.cgroups.forget();
        self.is_chosen.clear();
    }

    /// Forgets all stacks if there are more than `limit`. Do not read earlier tallies after this
    /// call.
    pub fn limit_stacks(&mut self, limit: usize) {
        if self.stacks.len() > limit {
            self.forget_stacks();
        }
    }

    /// Forgets all stacks if there are more than `STACK_LIMIT`. Forgets the processes that have
    /// ended if more than `ENDED_LIMIT` processes are new. Do not read earlier tallies after this
    /// call: their codes are numbers of stacks and files.
    pub fn forget_old(&mut self) {
        self.limit_stacks(STACK_LIMIT);
        if self.processes.added() > ENDED_LIMIT {
            self.processes.forget_ended();
            self.threads.clear();
        }
    }

    fn forget_stacks(&mut self) {
        self.stacks.clear();
        self.numbers.clear();
        // The codes of the tally are numbers of stacks.
        for tally in self.by_cpu.values_mut() {
            tally.codes.clear();
            tally.threads.clear();
        }
    }

    /// The number of stacks, processes and files that are stored.
    #[must_use]
    pub fn stored(&self) -> [usize; 3] {
        let (processes, files) = self.processes.stored();
        [self.stacks.len(), processes, files]
    }

    /// Chooses control groups. Work of others is not a cost of packets.
    pub fn set_selector(&mut self, selector: Option<Selector>) {
        self.selector = selector;
    }

    /// Whether a group is chosen. If no choice was made, all groups are.
    fn accepts(&mut self, group: Group) -> bool {
        let Some(selector) = &self.selector else {
            return true;
        };
        if let Some(&known) = self.is_chosen.get(&group) {
            return known;
        }
        let path = match group {
            Group::Shared => None,
            Group::Number(number) => self.cgroups.path(number).map(str::to_owned),
            Group::OfProcess(pid) => cgroup::of_process(pid),
        };
        let accepted = path.is_some_and(|path| selector.accepts(&path));
        self.is_chosen.insert(group, accepted);
        accepted
    }

    /// The symbols and rules.
    #[must_use]
    pub const fn attributor(&self) -> &Attributor {
        &self.attributor
    }

    /// The processes seen so far.
    #[must_use]
    pub const fn processes(&self) -> &Processes {
        &self.processes
    }

    /// A stack by its number.
    #[must_use]
    pub fn stack(&self, number: usize) -> &ResolvedStack {
        &self.stacks[number]
    }

    /// Starts new sums of an event and discards the old ones.
    pub fn begin(&mut self, event: EventKind) {
        self.tally = Tally::new(event);
        self.by_cpu.clear();
    }

    /// Ends the sums and returns them. If the event is processor time, the samples of each processor
    /// are calibrated by its `activity`.
    pub fn end(&mut self, activity: &BTreeMap<usize, ProcessorActivity>) -> Tally {
        let event = self.tally.event;
        let mut all = std::mem::replace(&mut self.tally, Tally::new(event));
        // The kernel's accounts are no samples of a processor.
        let is_sampled = event == EventKind::CpuNs && !self.by_cpu.is_empty();
        // A processor without samples still has its idle time.
        for &cpu in activity.keys() {
            self.by_cpu
                .entry(cpu as u32)
                .or_insert_with(|| Tally::new(event));
        }
        for (cpu, mut tally) in std::mem::take(&mut self.by_cpu) {
            let cpu = cpu as usize;
            let activity = activity.get(&cpu).copied().filter(|_| is_sampled);
            let calibration = Calibration::apply(&mut tally, activity);
            all.processors.insert(cpu, (tally.sums, calibration));
            all.absorb(tally);
        }
        all
    }

    /// Charges a record and adds it to the sums.
    pub fn add(&mut self, record: &Record<'_>) {
        let keeps_code = self.detail != Detail::Sums;
        match record {
            Record::Sample(sample) => self.sample(sample),
            Record::Account {
                time_ns,
                layer,
                weight,
            } => self.account(*time_ns, Charge::account(*layer), *weight as f64),
            Record::Lost { records } => self.tally.lost += records,
            Record::Throttled => self.tally.throttled += 1,
            Record::Command {
                pid,
                leader,
                name,
                executed,
            } if keeps_code => self
                .processes
                .record_command(*pid, *leader, name, *executed),
            Record::Mapped {
                pid,
                start,
                length,
                offset,
                path,
            } if keeps_code => self
                .processes
                .record_map(*pid, *start, *length, *offset, path),
            Record::ControlGroup { number, path } => self.cgroups.record(*number, path),
            Record::Forked { pid, parent } if keeps_code => {
                self.processes.record_fork(*pid, *parent);
            }
            Record::Command { .. } | Record::Mapped { .. } | Record::Forked { .. } => {}
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let keeps_code = self.detail != Detail::Sums;
        if keeps_code && sample.pid != 0 {
            self.processes.ensure_known(sample.pid);
        }
        let weight = sample.weight as f64;
        let (code, mut charge) = if sample.user {
            self.user(sample)
        } else {
            self.kernel(sample)
        };
        // A skid is a property of the timer, so it also counts in the work of other groups.
        let is_skid = charge.skid;
        let group = self.group(sample, code);
        let is_chosen = group != Group::Shared && self.accepts(group);
        if group != Group::Shared && !is_chosen && charge.layer != Layer::Idle {
            charge = Charge::other_program();
        }
        let is_own = self.own_pid == Some(sample.pid) && !belongs_to_the_network(charge.layer);
        if is_own {
            charge = Charge::other_program();
        }
        let is_idle = charge.layer == Layer::Idle;
        // If there is a server, all other user code is charged to `other`.
        let has_server = self.server.is_some() || self.selector.is_some();
        let is_server = has_server && charge.layer == Layer::User;
        let part = is_server.then(|| self.part_of(sample)).flatten();
        let is_softirq = matches!(code, Code::Kernel(number) if self.stacks[number].softirq);
        let event = self.tally.event;
        let tally = self
            .by_cpu
            .entry(sample.cpu)
            .or_insert_with(|| Tally::new(event));
        tally.samples += 1;
        let slice = tally.slices.entry(sample.time_ns / SLICE_NS).or_default();
        let weight_if = |is_counted: bool| if is_counted { weight } else { 0.0 };
        for sums in [slice, &mut tally.sums] {
            sums.add(charge, weight);
            sums.chosen += weight_if(is_chosen && !is_idle);
            sums.shared += weight_if(group == Group::Shared && !is_idle);
            sums.softirq += weight_if(is_softirq && !is_idle);
            sums.server_user += weight_if(is_server);
        }
        tally.own += weight_if(is_own);
        if !is_idle {
            tally.busy_samples += 1;
            tally.groups.entry(group).or_default()[charge.layer] += weight;
        }
        if !sample.user && !is_idle {
            tally.kernel += weight;
            tally.unclaimed += weight_if(!charge.claimed);
            tally.skid += weight_if(is_skid);
        }
        if !keeps_code {
            return;
        }
        if let Some(part) = part {
            *tally.threads.entry((sample.pid, code, part)).or_default() += weight;
        }
        let entry = tally.codes.entry((sample.pid, code)).or_insert(Weight {
            charge,
            group,
            samples: 0,
            weight: 0.0,
        });
        entry.samples += 1;
        entry.weight += weight;
    }

    /// The part of the application to which the name of a sample's thread assigns it.
    fn part_of(&mut self, sample: &Sample<'_>) -> Option<String> {
        if self.detail != Detail::Offsets {
            return None;
        }
        let rules = self.attributor.rules();
        let part = self.threads.entry(sample.tid).or_insert_with(|| {
            let (pid, tid) = (sample.pid, sample.tid);
            let name = perpacket_linux::text::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
            rules.part(Clue::Thread(name.trim_end())).map(str::to_owned)
        });
        part.clone()
    }

    fn account(&mut self, time_ns: u64, charge: Charge, weight: f64) {
        if !matches!(charge.layer, Layer::User | Layer::Idle) {
            self.tally.kernel += weight;
            self.tally.unclaimed += if charge.claimed { 0.0 } else { weight };
        }
        let slice = self.tally.slices.entry(time_ns / SLICE_NS).or_default();
        slice.add(charge, weight);
        self.tally.sums.add(charge, weight);
        self.tally.samples += 1;
    }

    fn kernel(&mut self, sample: &Sample<'_>) -> (Code, Charge) {
        let number = match self.numbers.get(sample.chain) {
            Some(&number) => number,
            None => {
                let mut stack = self.attributor.charge(sample.chain);
                if self.detail == Detail::Sums {
                    stack.frames = Vec::new();
                }
                self.stacks.push(stack);
                self.numbers
                    .insert(sample.chain.into(), self.stacks.len() - 1);
                self.stacks.len() - 1
            }
        };
        // Without symbols, the only sign of the idle loop is process 0.
        let is_idle = sample.pid == 0 && self.attributor.symbols().is_empty();
        let charge = if is_idle {
            Charge::idle()
        } else {
            self.stacks[number].charge
        };
        (Code::Kernel(number), charge)
    }

    fn group(&self, sample: &Sample<'_>, code: Code) -> Group {
        match (code, sample.cgroup) {
            (Code::Kernel(number), _) if self.stacks[number].shared => Group::Shared,
            (_, Some(number)) => Group::Number(number),
            (_, None) => Group::OfProcess(sample.pid),
        }
    }

    /// The name of a group. It is a container, a unit, a path, `shared`, or `unknown` if the group
    /// has ended.
    pub fn group_name(&mut self, group: Group) -> String {
        let path = match group {
            Group::Shared => return "shared".to_owned(),
            Group::Number(number) => self.cgroups.path(number).map(str::to_owned),
            // The processes of a recording are those of another time or machine.
            Group::OfProcess(_) if !self.cgroups.are_mounted() => None,
            Group::OfProcess(pid) => cgroup::of_process(pid),
        };
        path.map_or_else(|| "unknown".to_owned(), |path| cgroup::name(&path))
    }

    fn user(&mut self, sample: &Sample<'_>) -> (Code, Charge) {
        if self.detail == Detail::Sums {
            return (Code::User(None), Charge::user(Category::ServerProgram));
        }
        let keeps_offsets = self.detail == Detail::Offsets;
        let found = self.processes.find(sample.pid, sample.address);
        let category = self.category(sample.pid, found.map(|(object, _)| object));
        let kept = found.map(|(object, offset)| (object, if keeps_offsets { offset } else { 0 }));
        let charge = match category {
            Category::OtherPrograms => Charge::other_program(),
            category => Charge::user(category),
        };
        (Code::User(kept), charge)
    }

    /// The category of user code of a process in a file.
    fn category(&mut self, pid: u32, object: Option<ObjectId>) -> Category {
        if let Some(server) = &self.server
            && !server
                .originals
                .iter()
                .any(|&original| self.processes.descends(pid, original))
        {
            return Category::OtherPrograms;
        }
        let Some(path) = object.map(|object| self.processes.object(object)) else {
            return Category::ServerProgram;
        };
        let name = file_name(path);
        if let Some(category) = self.attributor.rules().object(name) {
            return category;
        }
        let process = self.processes.get(pid);
        let executable = process.and_then(|process| process.executable.as_deref());
        if path == GENERATED || path.starts_with("/memfd:") {
            Category::LanguageRuntime
        } else if executable != Some(path) && name.contains(".so") {
            Category::Libraries
        } else {
            Category::ServerProgram
        }
    }
}

/// Whether work of a layer is independent of the process that it interrupted.
const fn belongs_to_the_network(layer: Layer) -> bool {
    matches!(
        layer,
        Layer::Tcp
            | Layer::Udp
            | Layer::Ip
            | Layer::Ethernet
            | Layer::Driver
            | Layer::Interrupt
            | Layer::Idle
    )
}

/// The layers of a measurement, from the application down. `bypass`, which only simulated hosts
/// have, and `idle` are excluded.
pub fn measured_layers() -> impl Iterator<Item = Layer> {
    Layer::ALL
        .into_iter()
        .filter(|layer| !matches!(layer, Layer::Bypass | Layer::Idle))
}

/// The sum of a kind over the busy layers.
#[must_use]
pub fn of_kind(sums: &Sums, kind: Kind) -> f64 {
    sums.cells
        .iter()
        .filter(|(layer, _)| *layer != Layer::Idle)
        .map(|(_, kinds)| kinds[kind])
        .sum()
}
