//! Caches and translation buffers, and their misses by row.

use perpacket_memory::{
    CacheSize, Line, ParameterError, Policy, Side, Split, SplitParameters, TranslationBuffer,
    TranslationParameters,
};
use serde::{Deserialize, Serialize};

use crate::recording::{BUFFER_SETS, FIRST_SETS};

/// The effect of a device's write on the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceWrites {
    /// Nothing: the device is not modelled.
    None,
    /// The line leaves every cache, because the device writes to memory.
    Invalidate,
    /// The line enters the second levels, as with Data Direct I/O.
    Allocate,
}

/// The caches to model: every first level with every second level.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelParameters {
    /// Sizes of the first level; the instruction cache and the data cache each have this size.
    pub first: Vec<CacheSize>,
    /// Sizes of the second level.
    pub second: Vec<CacheSize>,
    /// How the contents of the levels relate.
    pub policy: Policy,
    /// Whether a miss in the second level brings the next line of the page too.
    pub next_line_prefetch: bool,
    /// The instruction buffer and the data buffer each have this size. They translate pages of 4 KiB.
    pub translation: Option<TranslationParameters>,
    /// The effect of a device's write.
    pub device_writes: DeviceWrites,
}

/// One first level with one second level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// Size of each first-level cache.
    pub l1_kib: u32,
    /// Its ways.
    pub l1_ways: u32,
    /// Size of the second-level cache.
    pub l2_kib: u32,
    /// Its ways.
    pub l2_ways: u32,
    /// How the contents relate.
    pub policy: Policy,
    /// Whether the next line is prefetched.
    pub next_line_prefetch: bool,
    /// The effect of a device's write.
    pub dma: DeviceWrites,
}

impl ModelParameters {
    /// Every configuration: each first level with each second level in turn.
    #[must_use]
    pub fn configurations(&self) -> Vec<Configuration> {
        let pairs = self
            .first
            .iter()
            .flat_map(|first| self.second.iter().map(move |second| (first, second)));
        pairs
            .map(|(first, second)| Configuration {
                l1_kib: first.size_kib,
                l1_ways: first.ways,
                l2_kib: second.size_kib,
                l2_ways: second.ways,
                policy: self.policy,
                next_line_prefetch: self.next_line_prefetch,
                dma: self.device_writes,
            })
            .collect()
    }

    /// The smallest number of sets of any first level. A filter may drop repeated accesses before
    /// they reach the caches only if it has no more indices than this.
    #[must_use]
    pub fn least_first_sets(&self) -> u32 {
        let sets = self
            .first
            .iter()
            .map(|size| size.size_kib * 16 / size.ways.max(1));
        sets.min().unwrap_or(0)
    }

    /// Whether the filters of repeated accesses drop none that these caches and buffers need.
    /// Inclusive levels need some of them; an observer clears its filters then.
    #[must_use]
    pub fn allows_filters(&self) -> bool {
        let translates_exactly = |buffer: TranslationParameters| {
            let sets = buffer.sets();
            sets.is_ok_and(|sets| sets >= BUFFER_SETS)
        };
        self.least_first_sets() >= FIRST_SETS && self.translation.is_none_or(translates_exactly)
    }
}

/// Misses of one row in one configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// First level, by [`Side`]: instructions and data.
    pub first: [u64; 2],
    /// Second level, by side.
    pub second: [u64; 2],
}

/// The effects of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether a first level or a translation buffer missed, so that a row's counts changed.
    pub missed: bool,
    /// Whether the caller must clear its filter of repeated accesses.
    pub purged: bool,
}

/// Caches that share a first level, with the index of their first configuration.
#[derive(Clone, Debug)]
struct Group {
    split: Split,
    first_configuration: usize,
    /// Second levels of the group.
    second: usize,
}

/// Caches and buffers, and their misses by row.
///
/// The caller counts each row separately. A row is a [`Context`](crate::Context), or a function or
/// structure in a context.
#[derive(Clone, Debug)]
pub struct Model {
    parameters: ModelParameters,
    groups: Vec<Group>,
    buffers: Option<[TranslationBuffer; 2]>,
    configurations: usize,
    /// The misses of each row in each configuration.
    misses: Vec<Misses>,
    /// For each row the misses of the buffers by side.
    translations: Vec<[u64; 2]>,
}

impl Model {
    /// Empty caches.
    ///
    /// # Errors
    ///
    /// Names the first parameter that is out of its range.
    pub fn new(parameters: &ModelParameters) -> Result<Self, ParameterError> {
        let mut groups = Vec::new();
        let mut configurations = 0;
        // An inclusive second level changes its first level, so each has a first level of its own.
        let at_once = match parameters.policy {
            Policy::Inclusive => 1,
            Policy::Exclusive | Policy::NonInclusive => perpacket_memory::MAX_SECOND_LEVELS,
        };
        for first in &parameters.first {
            for second in parameters.second.chunks(at_once) {
                groups.push(Group {
                    split: Split::new(&SplitParameters {
                        first: *first,
                        second: second.to_vec(),
                        policy: parameters.policy,
                        next_line_prefetch: parameters.next_line_prefetch,
                    })?,
                    first_configuration: configurations,
                    second: second.len(),
                });
                configurations += second.len();
            }
        }
        let buffer = parameters
            .translation
            .map(TranslationBuffer::new)
            .transpose()?;
        Ok(Self {
            parameters: parameters.clone(),
            groups,
            buffers: buffer.map(|buffer| [buffer.clone(), buffer]),
            configurations,
            misses: Vec::new(),
            translations: Vec::new(),
        })
    }

    /// The parameters of the modelled caches.
    #[must_use]
    pub const fn parameters(&self) -> &ModelParameters {
        &self.parameters
    }

    /// Makes room for `rows` rows. The number of the row of an access must be below `rows`.
    pub fn reserve(&mut self, rows: usize) {
        if rows > self.translations.len() {
            self.misses
                .resize(rows * self.configurations, Misses::default());
            self.translations.resize(rows, [0; 2]);
        }
    }

    /// Empties every cache and buffer, and zeroes every count.
    ///
    /// # Errors
    ///
    /// There is no error if [`new`](Self::new) accepted the parameters.
    pub fn reset(&mut self) -> Result<(), ParameterError> {
        *self = Self::new(&self.parameters)?;
        Ok(())
    }

    /// Sets every count to zero. The contents of the caches do not change.
    pub fn start_counting(&mut self) {
        self.misses.fill(Misses::default());
        self.translations.fill([0; 2]);
    }

    /// One access.
    #[inline]
    pub fn access(&mut self, side: Side, line: Line, row: usize) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(buffers) = &mut self.buffers
            && buffers[side as usize].misses(line)
        {
            self.translations[row][side as usize] += 1;
            outcome.missed = true;
        }
        for group in &mut self.groups {
            let missed = group.split.access(side, line);
            if missed.is_empty() {
                continue;
            }
            outcome.missed = true;
            outcome.purged |= missed.purged();
            let begin = row * self.configurations + group.first_configuration;
            let counts = &mut self.misses[begin..begin + group.second];
            for (index, count) in counts.iter_mut().enumerate() {
                count.first[side as usize] += u64::from(missed.first());
                count.second[side as usize] += u64::from(missed.second(index));
            }
        }
        outcome
    }

    /// Moves the misses of data of a row to another.
    pub fn move_data_misses(&mut self, from: usize, to: usize) {
        const DATA: usize = Side::Data as usize;
        self.translations[to][DATA] += std::mem::take(&mut self.translations[from][DATA]);
        for configuration in 0..self.configurations {
            let own = &mut self.misses[from * self.configurations + configuration];
            let first = std::mem::take(&mut own.first[DATA]);
            let second = std::mem::take(&mut own.second[DATA]);
            let into = &mut self.misses[to * self.configurations + configuration];
            into.first[DATA] += first;
            into.second[DATA] += second;
        }
    }

    /// A device wrote `line`. The caller must clear its filter of repeated accesses.
    pub fn device_write(&mut self, line: Line) {
        for group in &mut self.groups {
            match self.parameters.device_writes {
                DeviceWrites::None => {}
                DeviceWrites::Invalidate => group.split.invalidate(line),
                DeviceWrites::Allocate => group.split.allocate(line),
            }
        }
    }

    /// The processor dropped its translations.
    pub fn flush_translations(&mut self) {
        for buffer in self.buffers.iter_mut().flatten() {
            buffer.flush();
        }
    }

    /// The misses of a row in each configuration.
    #[must_use]
    pub fn misses(&self, row: usize) -> &[Misses] {
        let begin = row * self.configurations;
        self.misses
            .get(begin..begin + self.configurations)
            .unwrap_or(&[])
    }

    /// The misses of a row in the buffers, by side.
    #[must_use]
    pub fn translation_misses(&self, row: usize) -> [u64; 2] {
        self.translations.get(row).copied().unwrap_or([0; 2])
    }
}
