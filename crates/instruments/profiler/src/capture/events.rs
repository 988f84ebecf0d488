//! Events by name, and sets of them as small text files.
//!
//! Only an attempt to open an event shows whether a machine has it, because the kernel also lists
//! events that cannot be opened.

use std::fs;
use std::path::Path;

use perf_event_open_sys::bindings;
use perpacket_cost::{EventKind, Source};
use serde::Deserialize;
use toml::Spanned;

use crate::error::ProfileError;

const CLOCK: &str = include_str!("../../data/events/clock.toml");
const COUNTERS: &str = include_str!("../../data/events/counters.toml");
const MISSES: &str = include_str!("../../data/events/misses.toml");

/// The kernel's type and number of an event; `None` without a portable number.
#[must_use]
pub const fn kernel_event(event: EventKind) -> Option<(u32, u64)> {
    match event {
        EventKind::CpuNs => Some((
            bindings::PERF_TYPE_SOFTWARE,
            bindings::PERF_COUNT_SW_CPU_CLOCK as u64,
        )),
        EventKind::Cycles => Some(hardware(bindings::PERF_COUNT_HW_CPU_CYCLES)),
        EventKind::Instructions => Some(hardware(bindings::PERF_COUNT_HW_INSTRUCTIONS)),
        EventKind::LlcMisses => Some(hardware(bindings::PERF_COUNT_HW_CACHE_MISSES)),
        EventKind::BranchMisses => Some(hardware(bindings::PERF_COUNT_HW_BRANCH_MISSES)),
        EventKind::L1iMisses => Some(read_misses(bindings::PERF_COUNT_HW_CACHE_L1I)),
        EventKind::L1dMisses => Some(read_misses(bindings::PERF_COUNT_HW_CACHE_L1D)),
        EventKind::ItlbMisses => Some(read_misses(bindings::PERF_COUNT_HW_CACHE_ITLB)),
        EventKind::DtlbMisses => Some(read_misses(bindings::PERF_COUNT_HW_CACHE_DTLB)),
        EventKind::L2Misses => None,
    }
}

const fn hardware(number: u32) -> (u32, u64) {
    (bindings::PERF_TYPE_HARDWARE, number as u64)
}

/// Misses of reads in one of the kernel's generic caches.
const fn read_misses(cache: u32) -> (u32, u64) {
    let operation = bindings::PERF_COUNT_HW_CACHE_OP_READ << 8;
    let result = bindings::PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
    (
        bindings::PERF_TYPE_HW_CACHE,
        (cache | operation | result) as u64,
    )
}

/// The sampling rate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Number of samples a second.
    Hertz(u32),
    /// Number of events between two samples.
    Every(u64),
}

/// One event that is sampled, and the events that are counted at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The sampled event.
    pub sample: EventKind,
    /// Events of the same group that are only counted.
    pub count: Vec<EventKind>,
    /// Sampling rate of the sampled event.
    pub rate: Rate,
}

/// The passes of a profile. Each pass runs for an equal part of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSet {
    /// Name of the set.
    pub name: String,
    /// The passes in their order.
    pub passes: Vec<Pass>,
    /// Events that were left out, because the machine does not count them.
    pub lacking: Vec<EventKind>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    #[serde(rename = "what")]
    _what: String,
    passes: Vec<PassTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassTable {
    sample: Spanned<String>,
    #[serde(default)]
    count: Vec<Spanned<String>>,
    period: Option<u64>,
}

impl EventSet {
    /// The set of events for machines without counters.
    ///
    /// # Errors
    /// The compiled-in file has a mistake. A test ensures that this does not happen.
    pub fn clock(frequency_hz: u32) -> Result<Self, ProfileError> {
        Self::parse("clock.toml", CLOCK, frequency_hz)
    }

    /// The set of events for machines with counters.
    ///
    /// # Errors
    /// The compiled-in file has a mistake. A test ensures that this does not happen.
    pub fn counters(frequency_hz: u32) -> Result<Self, ProfileError> {
        Self::parse("counters.toml", COUNTERS, frequency_hz)
    }

    /// The set of events for misses of caches and translation buffers, and for mispredicted
    /// branches.
    ///
    /// # Errors
    /// The compiled-in file has a mistake. A test ensures that this does not happen.
    pub fn misses(frequency_hz: u32) -> Result<Self, ProfileError> {
        Self::parse("misses.toml", MISSES, frequency_hz)
    }

    /// Removes the events that a machine does not count and lists them in [`Self::lacking`].
    /// Processor time always stays in the set, because a machine that forbids it has no samples at
    /// all.
    #[must_use]
    pub fn counted(self, opens: impl Fn(EventKind) -> bool) -> Self {
        let has = |event: EventKind| event == EventKind::CpuNs || opens(event);
        let (passes, omitted): (Vec<_>, Vec<_>) =
            self.passes.into_iter().partition(|pass| has(pass.sample));
        let only_counted = passes.iter().flat_map(|pass| &pass.count);
        let mut lacking: Vec<_> = omitted.iter().map(|pass| pass.sample).collect();
        for &event in only_counted {
            if !has(event) && !lacking.contains(&event) {
                lacking.push(event);
            }
        }
        let passes = passes
            .into_iter()
            .map(|pass| Pass {
                count: pass.count.into_iter().filter(|&one| has(one)).collect(),
                ..pass
            })
            .collect();
        Self {
            passes,
            lacking,
            ..self
        }
    }

    /// Removes events that are only counted from groups that need more counters than the machine
    /// has. Every sampled event keeps its pass.
    #[must_use]
    pub fn fitting(mut self, fits: impl Fn(&Pass) -> bool) -> Self {
        for pass in &mut self.passes {
            while !pass.count.is_empty() && !fits(pass) {
                pass.count.pop();
            }
        }
        self
    }

    /// A set from a user's file.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it has a mistake.
    pub fn read(path: &Path, frequency_hz: u32) -> Result<Self, ProfileError> {
        let text =
            fs::read_to_string(path).map_err(ProfileError::option_file("event-file", path))?;
        Self::parse(&path.display().to_string(), &text, frequency_hz)
    }

    fn parse(name: &str, text: &str, frequency_hz: u32) -> Result<Self, ProfileError> {
        let source = Source { name, text };
        let document: Document = source.parse()?;
        if document.passes.is_empty() {
            return Err(source
                .error_at(0, "no [[passes]]; expected at least one".to_owned())
                .into());
        }
        let event = |name: &Spanned<String>| {
            let countable = || {
                EventKind::ALL
                    .into_iter()
                    .filter(|&event| kernel_event(event).is_some())
            };
            let find = |text: &str| countable().find(|event| event.name() == text);
            source.one_of(
                name,
                "countable event",
                find,
                countable().map(EventKind::name),
            )
        };
        let passes = document
            .passes
            .iter()
            .map(|table| {
                Ok(Pass {
                    sample: event(&table.sample)?,
                    count: table.count.iter().map(event).collect::<Result<_, _>>()?,
                    rate: table.period.map_or(Rate::Hertz(frequency_hz), |period| {
                        Rate::Every(period.max(1))
                    }),
                })
            })
            .collect::<Result<_, ProfileError>>()?;
        Ok(Self {
            name: document.name,
            passes,
            lacking: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_sets_are_valid_and_begin_with_time() {
        for set in [
            EventSet::clock(997),
            EventSet::counters(997),
            EventSet::misses(997),
        ] {
            let set = set.unwrap();
            assert_eq!(set.passes[0].sample, EventKind::CpuNs, "{}", set.name);
        }
    }

    #[test]
    fn a_machine_without_an_event_has_the_other_passes() {
        let whole = EventSet::misses(997).unwrap();
        let samples = |set: &EventSet| -> Vec<_> {
            set.passes.iter().map(|pass| pass.sample.name()).collect()
        };
        assert_eq!(
            samples(&whole),
            [
                "cpu_ns",
                "l1i_misses",
                "l1d_misses",
                "itlb_misses",
                "dtlb_misses",
                "branch_misses"
            ]
        );
        let none = whole.clone().counted(|_| false);
        assert_eq!(samples(&none), ["cpu_ns"]);
        assert_eq!(none.lacking.len(), 5);
        let most = whole.counted(|event| event != EventKind::ItlbMisses);
        assert_eq!(most.lacking, [EventKind::ItlbMisses]);
        assert_eq!(most.passes.len(), 5);
        // If the missing event is one that is only counted, its pass remains without it.
        let counters = EventSet::counters(997).unwrap();
        let counters = counters.counted(|event| event != EventKind::LlcMisses);
        assert_eq!(counters.lacking, [EventKind::LlcMisses]);
        assert_eq!(counters.passes[1].count, [EventKind::Instructions]);
        assert_eq!(samples(&counters), ["cpu_ns", "cycles", "instructions"]);
    }

    #[test]
    fn a_machine_with_few_counters_has_every_sampled_event() {
        let whole = EventSet::counters(997).unwrap();
        let two = whole.clone().fitting(|pass| pass.count.len() < 2);
        assert_eq!(two.passes[1].count, [EventKind::Instructions]);
        let one = whole.clone().fitting(|pass| pass.count.is_empty());
        assert!(one.passes.iter().all(|pass| pass.count.is_empty()));
        let samples = |set: &EventSet| {
            set.passes
                .iter()
                .map(|pass| pass.sample)
                .collect::<Vec<_>>()
        };
        assert_eq!(samples(&one), samples(&whole));
    }

    #[test]
    fn an_event_that_cannot_be_counted_is_an_error_with_its_line() {
        let text = "name = 'x'\nwhat = 'y'\n[[passes]]\nsample = 'l2_misses'\n";
        let error = EventSet::parse("own.toml", text, 99).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("own.toml, line 4: no countable event")
        );
    }
}
