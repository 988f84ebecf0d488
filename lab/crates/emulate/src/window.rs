//! The result of a window: its counts, and the misses of each configuration.

use std::collections::BTreeMap;

use perpacket_memory::TranslationParameters;
use serde::{Deserialize, Serialize};

use crate::caches::Caches;
use crate::meetings::Met;
use crate::model::Configuration;
use crate::moves::SharingWindow;
use crate::rows::RowName;

/// Version of the result's JSON.
const VERSION: u32 = 1;

/// Frames that the network card moved in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Frames {
    /// Frames that left. A large send counts as the frames that the card makes of it.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Frames, sent and received, at which counting ends.
    pub limit: Option<u64>,
    /// Whether counting ended there.
    pub reached: bool,
}

/// Frames that a queue of the card moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct QueueFrames {
    /// Frames that left.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
}

/// The counts of one of several processors, without its idle loop if they are instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProcessorFacts {
    /// Instructions.
    pub instructions: u64,
    /// Instructions by layer.
    pub layers: BTreeMap<String, u64>,
    /// Loads and stores.
    pub data_accesses: u64,
    /// Interrupts of devices, timers and other processors.
    pub interrupts: u64,
    /// Calls of the card's driver to look for frames.
    pub polls: u64,
}

/// Data that the guest passes with the end of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Guest {
    /// Numbers that the guest's programs define.
    pub values: [u64; 6],
    /// Text that they define.
    pub text: String,
}

impl Guest {
    /// Number of the connections to which a bulk sender sends in turn, or 0 for another server. It is
    /// the fourth of the guest's numbers.
    #[must_use]
    pub fn connections(&self) -> u32 {
        u32::try_from(self.values[3]).unwrap_or(0)
    }
}

/// The counts of a window, without those of the caches.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Facts {
    /// Its name.
    pub label: String,
    /// Frames, if the card is known.
    pub frames: Option<Frames>,
    /// Data that the guest passed.
    pub guest: Guest,
    /// Instructions after which a processor's turn ends; 0 if the emulator decides when it ends.
    pub turn_instructions: u64,
    /// Loads and stores. One across the end of a line counts twice.
    pub data_accesses: u64,
    /// Returns from calls since the observation of the processor began.
    pub returns: Returns,
    /// HTTP responses that the card began to send, by status.
    #[serde(default)]
    pub responses: BTreeMap<u16, u64>,
    /// Lines that the card wrote.
    pub dma_lines: u64,
    /// The code that each row counts.
    pub rows: Vec<RowName>,
    /// The counts of each processor, if several are watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<ProcessorFacts>,
    /// The frames of each queue of the card, if several processors are watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueFrames>,
    /// Whether packets and applications met, if several processors are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meetings: Option<Met>,
}

/// Returns whose call was seen, and others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Returns {
    /// Returns that restored the context of their call.
    pub matched: u64,
    /// Returns from calls that were made before the observation began, or whose stored context was
    /// overwritten.
    pub unmatched: u64,
}

/// Counts of a layer, kind and direction, and of a function if functions are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The layer's name.
    pub layer: &'static str,
    /// The kind's name.
    pub kind: &'static str,
    /// The direction's name.
    pub direction: &'static str,
    /// The function.
    pub function: Option<String>,
    /// The structure and the number of its line, if the counts are misses of a structure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structure: Option<(String, u32)>,
    /// Instructions.
    pub instructions: u64,
    /// Misses of the instruction cache by configuration.
    pub l1i_misses: Vec<u64>,
    /// Misses of the data cache by configuration.
    pub l1d_misses: Vec<u64>,
    /// Fetches of instructions that missed both levels, by configuration.
    pub l2i_misses: Vec<u64>,
    /// Loads and stores that missed both levels, by configuration.
    pub l2d_misses: Vec<u64>,
    /// Misses of the buffer of instruction translations.
    pub itlb_misses: u64,
    /// Misses of the buffer of data translations.
    pub dtlb_misses: u64,
}

/// The result of one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Version of this document.
    pub version: u32,
    /// The window's name.
    pub label: String,
    /// Frames, if the card is known.
    pub frames: Option<Frames>,
    /// Data that the guest passed.
    pub guest: Guest,
    /// Instructions after which a processor's turn ends.
    pub turn_instructions: u64,
    /// Instructions of the processor.
    pub instructions: u64,
    /// Its loads and stores.
    pub data_accesses: u64,
    /// The modelled caches.
    pub configurations: Vec<Configuration>,
    /// The translation buffers, if there were any.
    pub tlb: Option<TranslationParameters>,
    /// Counts that are not all zero, in order of layer, kind, direction and function.
    pub counts: Vec<Count>,
    /// Returns.
    pub returns: Returns,
    /// HTTP responses by status.
    pub responses: BTreeMap<u16, u64>,
    /// Lines that the card wrote.
    pub dma_lines: u64,
    /// The counts of each processor, if several are watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<ProcessorFacts>,
    /// The frames of each queue of the card, if several processors are watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueFrames>,
    /// Whether packets and applications met, if several processors are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meetings: Option<Met>,
    /// The lines that moved between processors, if several are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingWindow>,
    /// The members of structures whose misses are counted: the offset of each, and its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, Vec<(u64, String)>>,
}

impl Window {
    /// Combines the facts, the caches' misses and the instructions by row to the result.
    #[must_use]
    pub fn new(facts: &Facts, caches: &Caches, instructions: &[u64]) -> Self {
        let parameters = caches.parameters();
        let configurations = parameters.configurations();
        let mut counts = BTreeMap::new();
        for (row, name) in facts.rows.iter().enumerate() {
            let ran = instructions.get(row).copied().unwrap_or(0);
            let count = counts
                .entry(name.clone())
                .or_insert_with(|| Count::empty(name, configurations.len()));
            count.add(ran, caches, row);
        }
        let counts: Vec<_> = counts
            .into_values()
            .filter(|count| !count.is_zero())
            .collect();
        Self {
            version: VERSION,
            label: facts.label.clone(),
            frames: facts.frames,
            guest: facts.guest.clone(),
            turn_instructions: facts.turn_instructions,
            instructions: counts.iter().map(|count| count.instructions).sum(),
            data_accesses: facts.data_accesses,
            configurations,
            tlb: parameters.translation,
            counts,
            returns: facts.returns,
            responses: facts.responses.clone(),
            dma_lines: facts.dma_lines,
            processors: facts.processors.clone(),
            queues: facts.queues.clone(),
            meetings: facts.meetings,
            sharing: caches.sharing(&facts.rows),
            members: BTreeMap::new(),
        }
    }
}

impl Count {
    fn empty(name: &RowName, configurations: usize) -> Self {
        let context = name.context;
        let none = vec![0; configurations];
        Self {
            layer: context.layer().name(),
            kind: context.kind().name(),
            direction: context.direction().name(),
            function: name.function.clone(),
            structure: name.structure.clone(),
            instructions: 0,
            l1i_misses: none.clone(),
            l1d_misses: none.clone(),
            l2i_misses: none.clone(),
            l2d_misses: none,
            itlb_misses: 0,
            dtlb_misses: 0,
        }
    }

    fn add(&mut self, instructions: u64, caches: &Caches, row: usize) {
        self.instructions += instructions;
        for (index, misses) in caches.misses(row).iter().enumerate() {
            self.l1i_misses[index] += misses.first[0];
            self.l1d_misses[index] += misses.first[1];
            self.l2i_misses[index] += misses.second[0];
            self.l2d_misses[index] += misses.second[1];
        }
        let [instruction, data] = caches.translation_misses(row);
        self.itlb_misses += instruction;
        self.dtlb_misses += data;
    }

    fn is_zero(&self) -> bool {
        let by_configuration = self.l1i_misses.iter().chain(&self.l1d_misses);
        let single = [self.instructions, self.itlb_misses, self.dtlb_misses];
        by_configuration.chain(&single).all(|count| *count == 0)
    }
}
