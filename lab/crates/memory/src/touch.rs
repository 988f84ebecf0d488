//! One access of a processor, and its effects on the caches of all.

use crate::{Line, Side, coherent::MAX_PRIVATE_SIZES};

/// Every word of a line.
pub(crate) const ALL_WORDS: u8 = u8::MAX;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It fetches instructions.
    Fetch,
    /// It loads data.
    Load,
    /// It stores data.
    Store,
}

impl Action {
    pub(crate) const fn side(self) -> Side {
        match self {
            Self::Fetch => Side::Instruction,
            Self::Load | Self::Store => Side::Data,
        }
    }
}

/// An access to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// What it does.
    pub action: Action,
    /// The line.
    pub line: Line,
    /// The words of eight bytes that a load or store accesses, at least one; bit 0 is the first of the
    /// line.
    pub words: u8,
}

/// The words of a line that an access of `bytes` bytes at `address` touches. Bytes beyond the line do
/// not count.
#[must_use]
pub const fn words(address: u64, bytes: u64) -> u8 {
    let first = address % 64;
    let last = first + if bytes == 0 { 0 } else { bytes - 1 };
    let last = if last > 63 { 63 } else { last };
    let below = (1_u16 << (last / 8 + 1)) - 1;
    (below & !((1 << (first / 8)) - 1)) as u8
}

/// Why the private caches of a processor did not contain a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The processor never accessed the line before.
    Cold,
    /// The private caches have too few lines.
    Capacity,
    /// The set of the line has too few ways.
    Conflict,
    /// Another processor wrote the line.
    Coherence,
    /// A device wrote the line.
    Device,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The private caches of the processor with that number.
    Processor(u8),
    /// The third level of the processor's group.
    Shared,
    /// Memory, or the third level of another group.
    Memory,
}

/// A miss of a processor's private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateMiss {
    /// The cause.
    pub cause: Cause,
    /// The source of the line.
    pub source: Source,
    /// Whether the source is another processor that had modified the line.
    pub is_modified: bool,
}

/// The kind of an earlier coherence miss, which is known now. Bits are sizes of the second level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The number that [`Coherent::tag`](crate::Coherent::tag) stored for the miss.
    pub tag: u32,
    /// Sizes in which it was true sharing.
    pub true_sizes: u8,
    /// Sizes in which it was false sharing.
    pub false_sizes: u8,
}

/// The effects of one access. Sizes are those of the second level, by index or as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Whether the first level missed.
    pub first_missed: bool,
    /// The miss in each size.
    pub misses: [Option<PrivateMiss>; MAX_PRIVATE_SIZES],
    /// Sizes in which a store found the line in the processor's caches, but shared, so that it had
    /// to ask for the exclusive copy.
    pub upgraded_sizes: u8,
    /// By size, as bits: the processors that lost their copy to this store.
    pub invalidated: [u8; MAX_PRIVATE_SIZES],
    /// Words that others wrote since this processor lost its copy; 0 if it had not lost one.
    pub written: u8,
    /// Sizes in which the miss has cause coherence and is true sharing.
    pub true_sizes: u8,
    /// Sizes in which the miss has cause coherence and its kind is not known yet. The caller may
    /// [`tag`](crate::Coherent::tag) it.
    pub open_sizes: u8,
    /// An earlier coherence miss of this processor on this line.
    pub resolved: Option<Resolved>,
}
