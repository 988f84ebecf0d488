//! The lines that move between processors, as counts.

use perpacket_memory::{Protocol, SharedLevel};
use serde::Serialize;

/// Words of eight bytes in a line.
const WORDS: usize = 8;

/// The row of accesses, and the processors between which their lines moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MoveKey {
    pub(crate) row: u32,
    /// A processor; `None` if the shared level or memory supplied the line.
    pub(crate) from: Option<u8>,
    pub(crate) to: u8,
}

/// Counts of lines that moved, by configuration of the caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Lines that the private caches of `from` supplied to `to`.
    pub moved: Vec<u64>,
    /// Those of them that `from` had modified.
    pub modified: Vec<u64>,
    /// Stores of `to` that found the line shared, and removed the copy of `from`.
    pub upgrades: Vec<u64>,
    /// Misses because another processor wrote a word that `to` accessed.
    pub true_sharing: Vec<u64>,
    /// Misses because another processor wrote other words of the line.
    pub false_sharing: Vec<u64>,
    /// By word of the line, in the first configuration: how often `to` accessed it when the line
    /// moved or was upgraded.
    pub accessed: [u64; WORDS],
    /// The same for the words that others had written since `to` lost the line.
    pub written: [u64; WORDS],
}

impl Moved {
    pub(crate) fn new(configurations: usize) -> Self {
        let none = vec![0; configurations];
        Self {
            moved: none.clone(),
            modified: none.clone(),
            upgrades: none.clone(),
            true_sharing: none.clone(),
            false_sharing: none,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.moved, &other.moved),
            (&mut self.modified, &other.modified),
            (&mut self.upgrades, &other.upgrades),
            (&mut self.true_sharing, &other.true_sharing),
            (&mut self.false_sharing, &other.false_sharing),
        ];
        for (own, other) in pairs {
            own.iter_mut()
                .zip(other)
                .for_each(|(own, other)| *own += other);
        }
        for (own, other) in [
            (&mut self.accessed, &other.accessed),
            (&mut self.written, &other.written),
        ] {
            own.iter_mut()
                .zip(other)
                .for_each(|(own, other)| *own += other);
        }
    }

    pub(crate) fn add_words(&mut self, accessed: u8, written: u8) {
        for word in 0..WORDS {
            self.accessed[word] += u64::from(accessed >> word & 1);
            self.written[word] += u64::from(written >> word & 1);
        }
    }
}

/// Misses of one processor by configuration, by their cause and by their source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessorMisses {
    /// Misses of the instruction cache.
    pub l1i_misses: Vec<u64>,
    /// Misses of the data cache.
    pub l1d_misses: Vec<u64>,
    /// Misses of both levels of lines that the processor never accessed before.
    pub cold: Vec<u64>,
    /// Misses for lack of lines.
    pub capacity: Vec<u64>,
    /// Misses for lack of ways.
    pub conflict: Vec<u64>,
    /// Misses because another processor wrote a word that this one accessed.
    pub true_sharing: Vec<u64>,
    /// Misses because another processor wrote other words of the line.
    pub false_sharing: Vec<u64>,
    /// Misses because the card wrote the line.
    pub device: Vec<u64>,
    /// Stores that found the line shared.
    pub upgrades: Vec<u64>,
    /// Misses that the private caches of other processors supplied.
    pub from_processors: Vec<u64>,
    /// Misses that the shared level supplied.
    pub from_shared: Vec<u64>,
    /// Misses that memory supplied.
    pub from_memory: Vec<u64>,
}

impl ProcessorMisses {
    pub(crate) fn new(configurations: usize) -> Self {
        let none = || vec![0; configurations];
        Self {
            l1i_misses: none(),
            l1d_misses: none(),
            cold: none(),
            capacity: none(),
            conflict: none(),
            true_sharing: none(),
            false_sharing: none(),
            device: none(),
            upgrades: none(),
            from_processors: none(),
            from_shared: none(),
            from_memory: none(),
        }
    }
}

/// The lines of one layer, kind, direction and structure that moved between two processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The layer's name.
    pub layer: &'static str,
    /// The kind's name.
    pub kind: &'static str,
    /// The direction's name.
    pub direction: &'static str,
    /// The function, if functions are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The structure and the number of its line, if structures are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structure: Option<(String, u32)>,
    /// The processor that had the line; `None` if the shared level or memory supplied it.
    pub from: Option<u8>,
    /// The processor that accessed it.
    pub to: u8,
    /// The counts.
    #[serde(flatten)]
    pub counts: Moved,
}

/// What a window shows of several processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharingWindow {
    /// The protocol.
    pub protocol: Protocol,
    /// The shared level.
    pub l3: Option<SharedLevel>,
    /// Misses by processor.
    pub processors: Vec<ProcessorMisses>,
    /// Lines that moved, in the order of their rows and processors.
    pub moves: Vec<Move>,
}
