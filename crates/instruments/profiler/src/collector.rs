//! Charges the records of a pass and sums them.

use std::collections::{BTreeMap, HashMap};

use perpacket_cost::{Category, Charge, Clue, EventKind, Layer};

use crate::attribute::Attributor;
use crate::calibration::{self, Calibration};
use crate::capture::{Record, Sample};
use crate::cgroup::{self, ControlGroups, Selector};
use crate::count::ProcessorActivity;
use crate::process::{CodeFile, GENERATED, Place, Processes, file_name};
use crate::tally::{Code, Group, Stack, Tally, Weight};

/// Length of the slices of the window. Confidence intervals are computed from the slices.
const SLICE_NS: u64 = 100_000_000;

/// Maximum number of stacks that are stored from one window to the next.
const STACK_LIMIT: usize = 200_000;

/// Maximum number of new processes before those that have ended are forgotten.
const ENDED_LIMIT: usize = 300;

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
    /// The stack of each call chain.
    stacks: HashMap<Box<[u64]>, Stack>,
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
            stacks: HashMap::new(),
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

    /// Forgets the control groups, so that those that still exist are read again.
    pub fn forget_groups(&mut self) {
        self.cgroups.forget();
        self.is_chosen.clear();
    }

    /// Forgets all stacks if there are more than `limit`. Tallies keep those that they use.
    pub fn limit_stacks(&mut self, limit: usize) {
        if self.stacks.len() > limit {
            self.stacks.clear();
        }
    }

    /// Forgets all stacks if there are more than `STACK_LIMIT`. Forgets the processes that have
    /// ended if more than `ENDED_LIMIT` processes are new; their names are then unknown.
    pub fn forget_old(&mut self) {
        self.limit_stacks(STACK_LIMIT);
        if self.processes.added() > ENDED_LIMIT {
            self.processes.forget_ended();
            self.threads.clear();
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
        // Sums that continue over many windows need no certain number of samples in each.
        let fewest = match self.detail {
            Detail::Sums => 1,
            Detail::Files | Detail::Offsets => calibration::MIN_SAMPLES,
        };
        // A processor without samples still has its idle time.
        for &cpu in activity.keys() {
            self.by_cpu
                .entry(cpu as u32)
                .or_insert_with(|| Tally::new(event));
        }
        for (cpu, mut tally) in std::mem::take(&mut self.by_cpu) {
            let cpu = cpu as usize;
            let activity = activity.get(&cpu).copied().filter(|_| is_sampled);
            let calibration = Calibration::apply(&mut tally, activity, fewest);
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
        let group = group(sample, &code);
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
        let is_softirq = matches!(&code, Code::Kernel(stack) if stack.softirq);
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
            let thread = (sample.pid, code.clone(), part);
            *tally.threads.entry(thread).or_default() += weight;
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
        let stack = match self.stacks.get(sample.chain) {
            Some(stack) => stack.clone(),
            None => {
                let mut resolved = self.attributor.charge(sample.chain);
                if self.detail == Detail::Sums {
                    resolved.frames = Vec::new();
                }
                let stack = Stack::new(resolved);
                self.stacks.insert(sample.chain.into(), stack.clone());
                stack
            }
        };
        // Without symbols, the only sign of the idle loop is process 0.
        let is_idle = sample.pid == 0 && self.attributor.symbols().is_empty();
        let charge = if is_idle {
            Charge::idle()
        } else {
            stack.charge
        };
        (Code::Kernel(stack), charge)
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
        let place = self.processes.find(sample.pid, sample.address);
        let category = self.category(sample.pid, place.as_ref().map(|place| &place.file));
        let kept = place.map(|place| Place {
            offset: if keeps_offsets { place.offset } else { 0 },
            ..place
        });
        let charge = match category {
            Category::OtherPrograms => Charge::other_program(),
            category => Charge::user(category),
        };
        (Code::User(kept), charge)
    }

    /// The category of user code of a process in a file.
    fn category(&mut self, pid: u32, file: Option<&CodeFile>) -> Category {
        if let Some(server) = &self.server
            && !server
                .originals
                .iter()
                .any(|&original| self.processes.descends(pid, original))
        {
            return Category::OtherPrograms;
        }
        let Some(path) = file.map(CodeFile::path) else {
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

/// The control group to which a sample belongs.
fn group(sample: &Sample<'_>, code: &Code) -> Group {
    match (code, sample.cgroup) {
        (Code::Kernel(stack), _) if stack.shared => Group::Shared,
        (_, Some(number)) => Group::Number(number),
        (_, None) => Group::OfProcess(sample.pid),
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
