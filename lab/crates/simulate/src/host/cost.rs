//! What operations of the host cost.

use super::footprint::Operation;

/// The cost of an operation, or of the operations of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub calls: u64,
    pub cycles: u64,
    pub instructions: u64,
    pub l1d_misses: u64,
    pub l2_misses: u64,
    pub fetch_misses: u64,
    pub fetch_l2_misses: u64,
    pub tlb_misses: u64,
}

impl Cost {
    /// The costs that were added since `before`.
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            cycles: self.cycles - before.cycles,
            instructions: self.instructions - before.instructions,
            l1d_misses: self.l1d_misses - before.l1d_misses,
            l2_misses: self.l2_misses - before.l2_misses,
            fetch_misses: self.fetch_misses - before.fetch_misses,
            fetch_l2_misses: self.fetch_l2_misses - before.fetch_l2_misses,
            tlb_misses: self.tlb_misses - before.tlb_misses,
        }
    }

    pub const fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.l1d_misses += other.l1d_misses;
        self.l2_misses += other.l2_misses;
        self.fetch_misses += other.fetch_misses;
        self.fetch_l2_misses += other.fetch_l2_misses;
        self.tlb_misses += other.tlb_misses;
    }
}

/// The cost of each operation, by `Operation as usize`.
pub type Costs = [Cost; Operation::ALL.len()];
