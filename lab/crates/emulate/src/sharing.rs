//! The caches of several processors, and the lines that move between them, by row.

use std::collections::BTreeMap;

use perpacket_memory::{
    Action, Cause, Coherent, CoherentParameters, Effects, Filter, Line, MAX_PRIVATE_SIZES,
    ParameterError, Policy, Protocol, SharedLevel, Side, Source, Touch, TranslationBuffer,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::model::{DeviceWrites, Misses, ModelParameters, Outcome};
use crate::moves::{Move, MoveKey, Moved, ProcessorMisses, SharingWindow};
use crate::rows::RowName;

/// Lines in a page of 4 KiB.
const PAGE_LINES: u32 = 64;

/// What several processors add to the caches of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SharingParameters {
    /// Number of processors with caches.
    pub processors: usize,
    /// The third level that groups of processors share, if there is one.
    pub shared: Option<SharedLevel>,
    /// The protocol between the processors.
    pub protocol: Protocol,
}

/// Caches that share a first level, with the index of their first configuration.
#[derive(Clone, Debug)]
struct SharingGroup {
    caches: Coherent,
    first_configuration: usize,
    sizes: usize,
}

/// A translation buffer, and the filter of accesses that cannot change it.
#[derive(Clone, Debug)]
struct Translations {
    buffer: TranslationBuffer,
    repeated: Filter,
}

impl Translations {
    #[inline]
    fn misses(&mut self, line: Line) -> bool {
        !self.repeated.repeats(line.0 / PAGE_LINES) && self.buffer.misses(line)
    }
}

/// The last access with effects. Its row can change until the next access.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    processor: usize,
    touch: Touch,
    row: usize,
    /// Groups in which it had effects, as bits.
    groups: u32,
}

/// A coherence miss whose kind of sharing is not known yet.
#[derive(Clone, Copy, Debug)]
struct OpenMove {
    row: u32,
    to: u8,
    /// The source by size of the second level.
    from: [Option<u8>; MAX_PRIVATE_SIZES],
    /// The sizes that are not known yet, as bits.
    left: u8,
}

/// The coherence misses of a group whose kind is not known yet, by tag.
#[derive(Clone, Debug, Default)]
struct OpenMoves {
    all: Vec<OpenMove>,
    unused: Vec<u32>,
}

impl OpenMoves {
    fn insert(&mut self, open: OpenMove) -> u32 {
        match self.unused.pop() {
            Some(tag) => {
                self.all[tag as usize] = open;
                tag
            }
            None => {
                self.all.push(open);
                self.all.len() as u32 - 1
            }
        }
    }

    /// The miss of that tag. Its `sizes` are known now.
    fn close(&mut self, tag: u32, sizes: u8) -> Option<OpenMove> {
        let open = self.all.get_mut(tag as usize)?;
        open.left &= !sizes;
        if open.left == 0 {
            self.unused.push(tag);
        }
        Some(*open)
    }
}

/// The caches of several processors, and their counts by row.
#[derive(Clone, Debug)]
pub struct Sharing {
    model: ModelParameters,
    parameters: SharingParameters,
    groups: Vec<SharingGroup>,
    open: Vec<OpenMoves>,
    /// The translation buffers of each processor, by side.
    buffers: Vec<[Translations; 2]>,
    configurations: usize,
    misses: Vec<Misses>,
    translations: Vec<[u64; 2]>,
    processors: Vec<ProcessorMisses>,
    moves: FxHashMap<MoveKey, Moved>,
    waiting: Option<Waiting>,
}

impl Sharing {
    /// Empty caches.
    ///
    /// # Errors
    ///
    /// Names the first parameter that is out of its range, or that several processors cannot have.
    pub fn new(
        model: &ModelParameters,
        parameters: &SharingParameters,
    ) -> Result<Self, ParameterError> {
        let refused = |parameter: &str, value: &str, allowed: &str| ParameterError {
            parameter: parameter.to_owned(),
            value: value.to_owned(),
            allowed: allowed.to_owned(),
        };
        if model.policy != Policy::NonInclusive {
            let why = "several processors are modelled with non-inclusive levels alone, because other \
                       second levels change the first";
            return Err(refused("policy", &format!("{:?}", model.policy), why));
        }
        if model.next_line_prefetch {
            let why = "several processors are modelled without a prefetch";
            return Err(refused("prefetch", "next-line", why));
        }
        if model.device_writes == DeviceWrites::Allocate && parameters.shared.is_none() {
            let why = "with several processors the card writes into the third level: set l3";
            return Err(refused("dma", "allocate", why));
        }
        let mut groups = Vec::new();
        let mut configurations = 0;
        for first in &model.first {
            for second in model.second.chunks(MAX_PRIVATE_SIZES) {
                groups.push(SharingGroup {
                    caches: Coherent::new(&CoherentParameters {
                        processors: u32::try_from(parameters.processors).unwrap_or(u32::MAX),
                        first: *first,
                        second: second.to_vec(),
                        shared: parameters.shared,
                        protocol: parameters.protocol,
                    })?,
                    first_configuration: configurations,
                    sizes: second.len(),
                });
                configurations += second.len();
            }
        }
        let processors = parameters.processors;
        let buffer = model.translation.map(TranslationBuffer::new).transpose()?;
        let of_processor = |buffer: TranslationBuffer| {
            let sets = model.translation.and_then(|own| own.sets().ok());
            let translations = Translations {
                buffer,
                repeated: Filter::new(sets.unwrap_or(1)),
            };
            vec![[translations.clone(), translations]; processors]
        };
        Ok(Self {
            model: model.clone(),
            parameters: parameters.clone(),
            open: vec![OpenMoves::default(); groups.len()],
            groups,
            buffers: buffer.map_or_else(Vec::new, of_processor),
            configurations,
            misses: Vec::new(),
            translations: Vec::new(),
            processors: vec![ProcessorMisses::new(configurations); processors],
            moves: FxHashMap::default(),
            waiting: None,
        })
    }

    /// The sizes, policy and translation buffers.
    #[must_use]
    pub const fn model(&self) -> &ModelParameters {
        &self.model
    }

    /// Makes room for `rows` rows.
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
        *self = Self::new(&self.model, &self.parameters)?;
        Ok(())
    }

    /// Sets every count to zero. The contents of the caches do not change.
    pub fn start_counting(&mut self) {
        self.waiting = None;
        self.misses.fill(Misses::default());
        self.translations.fill([0; 2]);
        self.processors
            .fill(ProcessorMisses::new(self.configurations));
        self.moves.clear();
        self.open.fill(OpenMoves::default());
        for group in &mut self.groups {
            group.caches.drop_open_misses();
        }
    }

    /// One access of a processor.
    #[inline]
    pub fn access(&mut self, processor: usize, touch: Touch, row: usize) -> Outcome {
        if let Some(waiting) = self.waiting.take() {
            self.settle(waiting);
        }
        let side = match touch.action {
            Action::Fetch => Side::Instruction,
            Action::Load | Action::Store => Side::Data,
        };
        let mut outcome = Outcome::default();
        if let Some(buffers) = self.buffers.get_mut(processor)
            && buffers[side as usize].misses(touch.line)
        {
            self.translations[row][side as usize] += 1;
            outcome.missed = true;
        }
        let mut groups = 0;
        for (index, group) in self.groups.iter_mut().enumerate() {
            if group.caches.access(processor, touch) {
                groups |= 1 << index;
            }
        }
        if groups != 0 {
            self.waiting = Some(Waiting {
                processor,
                touch,
                row,
                groups,
            });
            outcome.missed = true;
        }
        outcome
    }

    /// Whether a load of a processor changes nothing.
    #[inline]
    #[must_use]
    pub fn repeats_load(&self, processor: usize, line: Line) -> bool {
        let mut groups = self.groups.iter();
        let buffers = self.buffers.get(processor);
        buffers.is_none_or(|own| {
            own[Side::Data as usize]
                .repeated
                .is_last(line.0 / PAGE_LINES)
        }) && groups.all(|group| group.caches.repeats_load(processor, line))
    }

    /// Moves the misses of data of a row to another: those of the buffers, and those of the last
    /// access.
    pub fn move_data_misses(&mut self, from: usize, to: usize) {
        const DATA: usize = Side::Data as usize;
        self.translations[to][DATA] += std::mem::take(&mut self.translations[from][DATA]);
        if let Some(waiting) = &mut self.waiting
            && waiting.row == from
        {
            waiting.row = to;
        }
    }

    /// Counts the effects of an access.
    #[inline(never)]
    fn settle(&mut self, waiting: Waiting) {
        let Waiting {
            processor,
            touch,
            row,
            groups,
        } = waiting;
        for index in (0..self.groups.len()).filter(|index| groups >> index & 1 == 1) {
            let group = &self.groups[index];
            let effects = *group.caches.effects();
            if let Some(resolved) = effects.resolved {
                self.resolve(index, resolved.tag, resolved.true_sizes, true);
                self.resolve(index, resolved.tag, resolved.false_sizes, false);
            }
            self.count_misses(index, &effects, processor, touch.action, row);
            self.count_moves(index, &effects, processor, touch, row);
            if effects.open_sizes != 0 {
                let tag = self.open[index].insert(OpenMove {
                    row: row as u32,
                    to: processor as u8,
                    from: effects
                        .misses
                        .map(|miss| miss.and_then(|miss| supplier(miss.source))),
                    left: effects.open_sizes,
                });
                self.groups[index].caches.tag(processor, touch.line, tag);
            }
        }
    }

    fn count_misses(
        &mut self,
        index: usize,
        effects: &Effects,
        processor: usize,
        action: Action,
        row: usize,
    ) {
        let side = usize::from(action != Action::Fetch);
        let SharingGroup {
            first_configuration,
            sizes,
            ..
        } = self.groups[index];
        let own = &mut self.processors[processor];
        for size in 0..sizes {
            let configuration = first_configuration + size;
            let counts = &mut self.misses[row * self.configurations + configuration];
            counts.first[side] += u64::from(effects.first_missed);
            let by_side = if side == 0 {
                &mut own.l1i_misses
            } else {
                &mut own.l1d_misses
            };
            by_side[configuration] += u64::from(effects.first_missed);
            own.upgrades[configuration] += u64::from(effects.upgraded_sizes >> size & 1);
            let Some(miss) = effects.misses[size] else {
                continue;
            };
            counts.second[side] += 1;
            let by_cause = match miss.cause {
                Cause::Cold => Some(&mut own.cold),
                Cause::Capacity => Some(&mut own.capacity),
                Cause::Conflict => Some(&mut own.conflict),
                Cause::Device => Some(&mut own.device),
                // Counted as soon as the kind of sharing is known.
                Cause::Coherence => None,
            };
            if let Some(by_cause) = by_cause {
                by_cause[configuration] += 1;
            }
            let by_source = match miss.source {
                Source::Processor(_) => &mut own.from_processors,
                Source::Shared => &mut own.from_shared,
                Source::Memory => &mut own.from_memory,
            };
            by_source[configuration] += 1;
        }
    }

    fn count_moves(
        &mut self,
        index: usize,
        effects: &Effects,
        processor: usize,
        touch: Touch,
        row: usize,
    ) {
        let SharingGroup {
            first_configuration,
            sizes,
            ..
        } = self.groups[index];
        let words = match touch.action {
            Action::Fetch => 0,
            Action::Load | Action::Store => touch.words,
        };
        let key = |from| MoveKey {
            row: row as u32,
            from,
            to: processor as u8,
        };
        for size in 0..sizes {
            let configuration = first_configuration + size;
            let is_first = configuration == 0;
            if let Some(miss) = effects.misses[size]
                && (miss.cause == Cause::Coherence || supplier(miss.source).is_some())
            {
                let from = supplier(miss.source);
                let counts = self.moved(key(from));
                counts.moved[configuration] += u64::from(from.is_some());
                counts.modified[configuration] += u64::from(miss.is_modified);
                if is_first {
                    counts.add_words(words, effects.written);
                }
                if miss.cause == Cause::Coherence && effects.true_sizes >> size & 1 == 1 {
                    counts.true_sharing[configuration] += 1;
                    self.processors[processor].true_sharing[configuration] += 1;
                }
            }
            if effects.upgraded_sizes >> size & 1 == 1 {
                let losers = effects.invalidated[size];
                for loser in (0..u8::BITS).filter(|loser| losers >> loser & 1 == 1) {
                    let counts = self.moved(key(Some(loser as u8)));
                    counts.upgrades[configuration] += 1;
                    if is_first {
                        counts.add_words(words, 0);
                    }
                }
            }
        }
    }

    fn moved(&mut self, key: MoveKey) -> &mut Moved {
        let configurations = self.configurations;
        self.moves
            .entry(key)
            .or_insert_with(|| Moved::new(configurations))
    }

    /// The kind of sharing of an earlier miss of a group is known in these sizes.
    fn resolve(&mut self, index: usize, tag: u32, sizes: u8, is_true: bool) {
        if sizes == 0 {
            return;
        }
        let Some(open) = self.open[index].close(tag, sizes) else {
            return;
        };
        let first_configuration = self.groups[index].first_configuration;
        for size in (0..MAX_PRIVATE_SIZES).filter(|size| sizes >> size & 1 == 1) {
            let configuration = first_configuration + size;
            let key = MoveKey {
                row: open.row,
                from: open.from[size],
                to: open.to,
            };
            let own = &mut self.processors[usize::from(open.to)];
            let by_processor = if is_true {
                &mut own.true_sharing
            } else {
                &mut own.false_sharing
            };
            by_processor[configuration] += 1;
            let counts = self.moved(key);
            let by_move = if is_true {
                &mut counts.true_sharing
            } else {
                &mut counts.false_sharing
            };
            by_move[configuration] += 1;
        }
    }

    /// A device wrote `line`.
    pub fn device_write(&mut self, line: Line) {
        if let Some(waiting) = self.waiting.take() {
            self.settle(waiting);
        }
        for group in &mut self.groups {
            match self.model.device_writes {
                DeviceWrites::None => {}
                DeviceWrites::Invalidate => group.caches.invalidate(line),
                DeviceWrites::Allocate => group.caches.allocate(line),
            }
        }
    }

    /// The processor dropped its translations.
    pub fn flush_translations(&mut self, processor: usize) {
        for buffer in self.buffers.get_mut(processor).into_iter().flatten() {
            buffer.buffer.flush();
            buffer.repeated.clear();
        }
    }

    /// The window ends: counts the last access, and each coherence miss after which no written word
    /// was accessed as false sharing.
    pub fn end_counting(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.settle(waiting);
        }
        for index in 0..self.groups.len() {
            let open: Vec<_> = self.groups[index].caches.open_misses().collect();
            self.groups[index].caches.drop_open_misses();
            for (tag, sizes) in open {
                self.resolve(index, tag, sizes, false);
            }
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

    /// The counts for a window whose rows have these names.
    #[must_use]
    pub fn window(&self, rows: &[RowName]) -> SharingWindow {
        let mut by_name: BTreeMap<(RowName, Option<u8>, u8), Moved> = BTreeMap::new();
        for (key, counts) in &self.moves {
            if let Some(name) = rows.get(key.row as usize) {
                by_name
                    .entry((name.clone(), key.from, key.to))
                    .or_insert_with(|| Moved::new(self.configurations))
                    .add(counts);
            }
        }
        let moves = by_name.into_iter().map(|((name, from, to), counts)| Move {
            layer: name.context.layer().name(),
            kind: name.context.kind().name(),
            direction: name.context.direction().name(),
            function: name.function,
            structure: name.structure,
            from,
            to,
            counts,
        });
        SharingWindow {
            protocol: self.parameters.protocol,
            l3: self.parameters.shared,
            processors: self.processors.clone(),
            moves: moves.collect(),
        }
    }
}

/// The processor that supplied a line.
const fn supplier(source: Source) -> Option<u8> {
    match source {
        Source::Processor(number) => Some(number),
        Source::Shared | Source::Memory => None,
    }
}
