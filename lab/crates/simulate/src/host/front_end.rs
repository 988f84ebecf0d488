//! The processor's work before it executes an operation: fetching the code, and translating the
//! addresses of the data.

use perpacket_memory::{Hierarchy, Line, TranslationBuffer, TranslationParameters};

use super::address::{DividedLines, scattered};
use super::footprint::{Footprint, Operation, Structure, Structures};
use crate::error::ConfigurationError;
use crate::settings::Machine;

/// The physical line where code begins. All data have lower lines. Code is contiguous, as in a
/// kernel that is loaded into large pages.
const CODE: u32 = 1 << 31;

/// The first line of the code that operations touch by name.
const TOUCHED_CODE: u32 = CODE + (1 << 24);

/// Lines of the largest code without loops. An operation with more instructions executes loops.
const MOST_LINES: f64 = 128.0;

/// Stalls and misses of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontEndCost {
    pub stall_cycles: u64,
    pub fetch_misses: u64,
    pub fetch_l2_misses: u64,
    pub tlb_misses: u64,
}

/// The code of each operation, and the translation buffer. A machine without an instruction cache
/// has no cost of fetching, and one without a translation buffer has no cost of translating.
pub struct FrontEnd {
    /// Code by `Operation as usize`; empty without an instruction cache.
    code: Box<[Box<[DividedLines]>]>,
    translations: Option<TranslationBuffer>,
    walk_cycles: u64,
}

impl FrontEnd {
    /// The code of `footprints`. An operation without touches of code has one contiguous path.
    pub fn new(
        machine: &Machine,
        footprints: &[Footprint],
        structures: &Structures,
        seed: u64,
    ) -> Result<Self, ConfigurationError> {
        let touched: Vec<_> = scattered(structures.code, seed)
            .into_iter()
            .map(|number| Line(TOUCHED_CODE + number))
            .collect();
        let mut next = CODE;
        let mut lines = |footprint: &Footprint| -> Box<[DividedLines]> {
            let touches = footprint.touches_of(Structure::Code, &touched);
            if !touches.is_empty() {
                return touches;
            }
            let bytes = footprint.instructions as f64 * machine.code_bytes_per_instruction;
            let first = next;
            next += (bytes / 64.0).ceil().clamp(1.0, MOST_LINES) as u32;
            let path: Vec<_> = (first..next).map(Line).collect();
            Box::new([DividedLines::whole(&path)])
        };
        let has_cache = machine.l1i.size_kib > 0;
        let code = footprints
            .iter()
            .filter(|_| has_cache)
            .map(&mut lines)
            .collect();
        let tlb = machine.tlb;
        let translations = (tlb.entries > 0)
            .then(|| {
                TranslationBuffer::new(TranslationParameters {
                    entries: tlb.entries,
                    ways: tlb.ways,
                })
            })
            .transpose()
            .map_err(|error| {
                ConfigurationError::new("machine.tlb.ways", error.value, error.allowed)
            })?;
        Ok(Self {
            code,
            translations,
            walk_cycles: u64::from(tlb.walk_cycles),
        })
    }

    /// Whether fetching and translating are free.
    pub fn is_free(&self) -> bool {
        self.code.is_empty() && self.translations.is_none()
    }

    /// Fetches the code of a call of `operation` and translates the addresses of `data`.
    pub fn run(
        &mut self,
        operation: Operation,
        call: u64,
        data: &[Line],
        memory: &mut Hierarchy,
        now: u64,
    ) -> FrontEndCost {
        let mut cost = FrontEndCost::default();
        if let Some(code) = self.code.get(operation as usize) {
            for part in code {
                let tally = memory.fetch_all(part.of_call(call), now + cost.stall_cycles);
                cost.stall_cycles += tally.stall_cycles;
                cost.fetch_misses += tally.misses[0];
                cost.fetch_l2_misses += tally.misses[1];
            }
        }
        if let Some(translations) = &mut self.translations {
            for &line in data {
                cost.tlb_misses += u64::from(translations.misses(line));
            }
            cost.stall_cycles += cost.tlb_misses * self.walk_cycles;
        }
        cost
    }
}
