//! The sums of one pass over one window: by slice of the window, and by process and stack.
//!
//! Memory grows with the number of different stacks and processes, not with the length of the window.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use perpacket_cost::{Charge, EventKind, Layer, PerLayer};

use crate::attribute::ResolvedStack;
use crate::calibration::Calibration;
use crate::process::Place;
use crate::sums::{Sums, busy};

/// A kernel stack that many samples share. It is equal to itself alone, because a collector stores
/// each stack once.
#[derive(Clone, Debug)]
pub struct Stack(Arc<ResolvedStack>);

impl Stack {
    /// Stores a stack.
    #[must_use]
    pub fn new(stack: ResolvedStack) -> Self {
        Self(Arc::new(stack))
    }
}

impl Deref for Stack {
    type Target = ResolvedStack;

    fn deref(&self) -> &ResolvedStack {
        &self.0
    }
}

impl PartialEq for Stack {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Stack {}

impl Hash for Stack {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// The code that ran: a kernel stack, or an instruction of a program's file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A stack.
    Kernel(Stack),
    /// An instruction. `None` if no file is mapped at its address.
    User(Option<Place>),
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
    pub(crate) fn absorb(&mut self, other: Self) {
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
