//! The processors that are watched: which one runs, and the counts of each.

use std::collections::BTreeMap;

use perpacket_cost::Layer;

use crate::rows::Rows;
use crate::tracker::{Position, Tracker};
use crate::window::ProcessorFacts;

/// The row and the counts of a processor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// The row of the code that it runs.
    pub(crate) row: usize,
    /// Instructions by row.
    pub(crate) instructions: Vec<u64>,
    pub(crate) data_accesses: u64,
    pub(crate) interrupts: u64,
    /// Calls of the card's driver to look for frames.
    pub(crate) polls: u64,
}

impl Own {
    /// Makes room for `rows` rows.
    #[inline]
    pub(crate) fn reserve(&mut self, rows: usize) {
        if self.instructions.len() < rows {
            self.instructions.resize(rows, 0);
        }
    }

    /// Zeroes the counts.
    pub(crate) fn zero(&mut self) {
        self.instructions.fill(0);
        (self.data_accesses, self.interrupts, self.polls) = (0, 0, 0);
    }

    fn add(&mut self, other: &Self) {
        self.reserve(other.instructions.len());
        for (sum, own) in self.instructions.iter_mut().zip(&other.instructions) {
            *sum += own;
        }
        self.data_accesses += other.data_accesses;
        self.interrupts += other.interrupts;
        self.polls += other.polls;
    }

    /// The counts without those of the idle loop.
    fn facts(&self, rows: &Rows) -> ProcessorFacts {
        let mut layers = BTreeMap::<_, u64>::new();
        for (row, instructions) in self.instructions.iter().enumerate() {
            let layer = rows.context(row).layer();
            if *instructions > 0 && layer != Layer::Idle {
                *layers.entry(layer.name().to_owned()).or_default() += instructions;
            }
        }
        ProcessorFacts {
            instructions: layers.values().sum(),
            layers,
            data_accesses: self.data_accesses,
            interrupts: self.interrupts,
            polls: self.polls,
        }
    }
}

/// The processors that do not run now. The caller has the position and the counts of the one that
/// runs.
#[derive(Debug)]
pub(crate) struct Others {
    running: usize,
    /// By number. The entry of the processor that runs is not used.
    parked: Vec<(Position, Own)>,
}

impl Others {
    /// Processor 0 runs. `processors` is the number of processors, or 0 if only processor 0 is watched.
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            running: 0,
            parked: (0..processors).map(|_| Default::default()).collect(),
        }
    }

    /// The number of the processor that runs.
    #[inline]
    pub(crate) const fn running(&self) -> usize {
        self.running
    }

    /// Stores the processor that runs, and takes out the one with this number.
    pub(crate) fn run(&mut self, processor: usize, tracker: &mut Tracker, own: &mut Own) {
        for entry in [self.running, processor] {
            if let Some((position, counts)) = self.parked.get_mut(entry) {
                tracker.exchange(position);
                std::mem::swap(own, counts);
            }
        }
        self.running = processor;
    }

    /// Every processor runs code of that row, and its calls are not known.
    pub(crate) fn reset(&mut self, row: usize) {
        for (position, own) in &mut self.parked {
            (*position, own.row) = (Position::default(), row);
        }
    }

    /// Zeroes the counts.
    pub(crate) fn zero(&mut self) {
        self.parked.iter_mut().for_each(|(_, own)| own.zero());
    }

    /// The counts of each processor; `running` are those of the one that runs. Empty if only processor
    /// 0 is watched.
    pub(crate) fn facts(&self, running: &Own, rows: &Rows) -> Vec<ProcessorFacts> {
        let all = self.parked.iter().enumerate();
        let own = all.map(|(number, (_, own))| if number == self.running { running } else { own });
        own.map(|own| own.facts(rows)).collect()
    }

    /// The sum of the counts of all processors.
    pub(crate) fn sum(&self, running: &Own) -> Own {
        let mut sum = running.clone();
        let others = self.parked.iter().enumerate();
        for (_, (_, own)) in others.filter(|(number, _)| *number != self.running) {
            sum.add(own);
        }
        sum
    }
}
