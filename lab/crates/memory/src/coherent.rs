//! Caches of several processors, kept coherent.
//!
//! Each processor has a cache for instructions, one for data, and a second level for both. Groups of
//! processors can share a third level. A write removes the copies of all other processors (MESI:
//! Papamarcos and Patel, ISCA 1984). With MOESI, a processor that shares a line that it has modified
//! still supplies it.
//!
//! # Several sizes of the second level in one pass
//!
//! The contents of a processor's caches depend on its own accesses and on the writes of others. They
//! do not depend on the sizes of other caches, because a write removes every copy, whichever cache
//! had it. So one pass simulates many second levels behind one first level, as in
//! [`Split`](crate::Split). What does depend on the size is whether a line is exclusive or shared, and
//! who supplies it, since another processor may have evicted it. This state is stored for each size.
//! A third level depends on the misses of the second, so each size has a third level of its own.
//!
//! One pass cannot simulate several first levels, nor second or third levels that are inclusive:
//! these remove lines from the first level, which then depends on their size.
//!
//! # Causes of a miss
//!
//! A miss is a line that neither the first level of this side nor the second level contains.
//!
//! | cause | meaning |
//! |---|---|
//! | cold | the processor never accessed the line before |
//! | coherence | a write of another processor removed the processor's copy |
//! | device | a write of a device removed it |
//! | conflict | a fully associative second level of equal size would contain the line |
//! | capacity | it would not |
//!
//! The fully associative level has the same accesses, those that miss a first level, and loses a line
//! when another processor or a device writes it.
//!
//! A coherence miss is *true sharing* if the processor accesses a word that others wrote between the
//! loss of its copy and the miss, at the miss or later while it keeps the line. Otherwise it is *false
//! sharing* (Dubois et al., The detection and elimination of useless misses in multiprocessors, ISCA
//! 1993). A word has eight bytes. So the kind of a miss can be known later than the miss:
//! [`Effects::resolved`].

use serde::{Deserialize, Serialize};

use crate::{
    CacheSize, Line, ParameterError,
    directory::{LineState, NOBODY, bits},
    level::Level,
    paged::Paged,
    private::{OpenMiss, Private},
    touch::{ALL_WORDS, Action, Cause, Effects, PrivateMiss, Source, Touch},
};

/// Maximum number of processors. Each uses a bit of a byte.
pub const MAX_PROCESSORS: usize = 8;

/// Maximum number of second levels behind one first level. Each uses a bit of a byte.
pub const MAX_PRIVATE_SIZES: usize = 8;

/// The protocol between the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// A modified line is written to memory when another processor reads it.
    #[default]
    Mesi,
    /// The processor with the modified line stays its owner and supplies it.
    Moesi,
}

/// A third level that groups of processors share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLevel {
    /// Its size.
    pub size: CacheSize,
    /// Consecutive processors that share one such level.
    pub processors: u32,
}

/// The caches of several processors.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoherentParameters {
    /// The number of processors, from 1 to [`MAX_PROCESSORS`].
    pub processors: u32,
    /// Size of the instruction cache and of the data cache of each processor.
    pub first: CacheSize,
    /// The second levels. Each is simulated as the only one behind the first level. There are at
    /// most [`MAX_PRIVATE_SIZES`].
    pub second: Vec<CacheSize>,
    /// The third level, if there is one.
    pub shared: Option<SharedLevel>,
    /// The protocol.
    pub protocol: Protocol,
}

/// The caches of several processors, and their contents.
#[derive(Clone, Debug)]
pub struct Coherent {
    sizes: usize,
    protocol: Protocol,
    processors: Vec<Private>,
    /// Processors that share a third level.
    group: usize,
    /// The third levels of each group, by size of the second level. Empty if there are none.
    shared: Vec<Vec<Level>>,
    directory: Paged<LineState>,
    effects: Effects,
}

impl Coherent {
    /// Empty caches.
    ///
    /// # Errors
    ///
    /// The error names the first parameter that is out of its range.
    pub fn new(parameters: &CoherentParameters) -> Result<Self, ParameterError> {
        let number = |name: &str, value: usize, most: usize| {
            if (1..=most).contains(&value) {
                return Ok(value);
            }
            let allowed = format!("expected 1 to {most}");
            Err(ParameterError::new(name, value, allowed))
        };
        let processors = number("processors", parameters.processors as usize, MAX_PROCESSORS)?;
        let sizes = number("second", parameters.second.len(), MAX_PRIVATE_SIZES)?;
        let first = parameters.first.shape("first")?;
        let shapes = parameters.second.iter().enumerate();
        let second: Vec<_> = shapes
            .map(|(index, size)| size.shape(&format!("second[{index}]")))
            .collect::<Result<_, _>>()?;
        let mut group = processors;
        let mut shared = Vec::new();
        if let Some(level) = &parameters.shared {
            group = number("shared.processors", level.processors as usize, processors)?;
            let empty = Level::new(level.size.shape("shared.size")?);
            shared = vec![vec![empty; sizes]; processors.div_ceil(group)];
        }
        let private = Private::new(first, &second);
        Ok(Self {
            sizes,
            protocol: parameters.protocol,
            processors: vec![private; processors],
            group,
            shared,
            directory: Paged::new(LineState::NEW),
            effects: Effects::default(),
        })
    }

    /// Performs one access of a processor. Returns whether it had effects, which
    /// [`effects`](Self::effects) returns until the next access.
    ///
    /// An access without effects is a hit of the first level that needs nothing of other processors.
    #[inline]
    pub fn access(&mut self, processor: usize, touch: Touch) -> bool {
        let recent = &self.processors[processor].recent[touch.action.side() as usize];
        if recent.allows(touch) {
            return false;
        }
        self.access_further(processor, touch)
    }

    /// Whether a load of a processor changes nothing.
    #[inline]
    #[must_use]
    pub fn repeats_load(&self, processor: usize, line: Line) -> bool {
        self.processors[processor].recent[Action::Load.side() as usize].allows(Touch {
            action: Action::Load,
            line,
            words: 0,
        })
    }

    /// The effects of the last access that had some.
    #[must_use]
    pub const fn effects(&self) -> &Effects {
        &self.effects
    }

    #[inline(never)]
    fn access_further(&mut self, processor: usize, touch: Touch) -> bool {
        let Touch { action, line, .. } = touch;
        debug_assert_ne!(line, Line::EMPTY, "line number reserved for empty ways");
        debug_assert!(action == Action::Fetch || touch.words != 0, "no words");
        let side = action.side() as usize;
        let private = &mut self.processors[processor];
        let is_hit = private.first[side].promote(line);
        if is_hit && action != Action::Store && !private.may_be_open(line) {
            private.recent[side].add(touch);
            return false;
        }
        let state = self.directory.line(line);
        let is_silent = is_hit && !private.may_be_open(line);
        if is_silent && is_modified(state, processor, self.sizes) {
            state.record_words(touch.words);
            private.recent[side].add(touch);
            return false;
        }
        self.effects = Effects::default();
        let missed_sizes = if is_hit {
            0
        } else {
            self.fill(processor, touch)
        };
        self.classify(processor, touch, missed_sizes);
        if action == Action::Store {
            self.take(processor, touch, missed_sizes);
        }
        let private = &mut self.processors[processor];
        if private.may_be_open(line) && private.open.contains_key(&line.0) {
            private.recent[side].displace(line);
        } else {
            private.recent[side].add(touch);
        }
        let effects = &self.effects;
        effects.first_missed || effects.upgraded_sizes != 0 || effects.resolved.is_some()
    }

    /// Brings the line into the first level, and into the second levels that lack it. Returns the
    /// sizes that lacked it.
    fn fill(&mut self, processor: usize, touch: Touch) -> u8 {
        let line = touch.line;
        let side = touch.action.side() as usize;
        let own = 1_u8 << processor;
        self.effects.first_missed = true;
        let state = self.directory.line(line);
        let others = state.holders & !own;
        // The processor can have the line in the cache of its other side.
        let has_copy = self.processors[processor].first[1 - side].contains(line);
        let mut missed_sizes = 0;
        let recent_sizes = self.processors[processor].recency.touch(line);
        for size in 0..self.sizes {
            let private = &mut self.processors[processor];
            if private.second[size].promote(line) {
                continue;
            }
            private.second[size].insert(line);
            missed_sizes |= 1 << size;
            let cause = if state.seen & own == 0 {
                Cause::Cold
            } else if state.lost[size] & own == 0 {
                if recent_sizes >> size & 1 == 1 {
                    Cause::Conflict
                } else {
                    Cause::Capacity
                }
            } else if state.lost_to_device & own == 0 {
                Cause::Coherence
            } else {
                Cause::Device
            };
            let owner = state.owner[size];
            let bit = 1_u8 << size;
            let has_owner = owner != NOBODY
                && usize::from(owner) != processor
                && self.processors[usize::from(owner)].holds(size, line);
            let is_modified = has_owner && state.modified_sizes & bit != 0;
            let in_shared = match self.shared.get_mut(processor / self.group) {
                Some(levels) => {
                    let is_there = levels[size].promote(line);
                    if !is_there {
                        levels[size].insert(line);
                    }
                    is_there
                }
                None => false,
            };
            let source = match (has_owner, in_shared) {
                (true, _) => Source::Processor(owner),
                (false, true) => Source::Shared,
                (false, false) => Source::Memory,
            };
            self.effects.misses[size] = Some(PrivateMiss {
                cause,
                source,
                is_modified,
            });
            if has_copy {
                continue;
            }
            let is_shared = bits(others).any(|other| self.processors[other].holds(size, line))
                || self.shared.iter().enumerate().any(|(group, levels)| {
                    group != processor / self.group && levels[size].contains(line)
                });
            if is_shared {
                if self.protocol == Protocol::Moesi && is_modified {
                    state.owned_sizes |= bit;
                } else {
                    state.owner[size] = NOBODY;
                    state.modified_sizes &= !bit;
                    state.owned_sizes &= !bit;
                }
            } else {
                state.owner[size] = processor as u8;
                state.modified_sizes &= !bit;
                state.owned_sizes &= !bit;
            }
        }
        self.processors[processor].first[side].insert(line);
        for other in bits(others) {
            self.processors[other].forget(line);
        }
        missed_sizes
    }

    /// Finds the kind of sharing of this access's coherence misses and of earlier ones.
    fn classify(&mut self, processor: usize, touch: Touch, missed_sizes: u8) {
        let words = match touch.action {
            Action::Fetch => ALL_WORDS,
            Action::Load | Action::Store => touch.words,
        };
        let private = &mut self.processors[processor];
        self.effects.resolved = private.resolve(touch.line, words, missed_sizes);
        let state = self.directory.line(touch.line);
        let own = 1 << processor;
        if state.losers() & own != 0 {
            let written = state.written[processor];
            let mut sizes = 0;
            for (size, miss) in self.effects.misses.iter().enumerate() {
                if miss.is_some_and(|miss| miss.cause == Cause::Coherence) {
                    sizes |= 1 << size;
                }
            }
            self.effects.written = written;
            if written & words != 0 {
                self.effects.true_sizes = sizes;
            } else if sizes != 0 {
                self.effects.open_sizes = sizes;
                let miss = OpenMiss {
                    sizes,
                    written,
                    tag: 0,
                };
                private.open(touch.line, miss);
            }
        }
        if missed_sizes != 0 {
            state.arrive(processor);
        }
    }

    /// Takes the exclusive copy for a store, and removes the copies of the other processors.
    fn take(&mut self, processor: usize, touch: Touch, missed_sizes: u8) {
        let line = touch.line;
        let state = self.directory.line(line);
        let others = state.holders & !(1 << processor);
        let mut losers = 0;
        for size in 0..self.sizes {
            let bit = 1_u8 << size;
            let is_own = usize::from(state.owner[size]) == processor;
            if !is_own || state.owned_sizes & bit != 0 {
                if missed_sizes & bit == 0 {
                    self.effects.upgraded_sizes |= bit;
                }
                for other in bits(others) {
                    if self.processors[other].holds(size, line) {
                        self.effects.invalidated[size] |= 1 << other;
                        state.lost[size] |= 1 << other;
                        losers |= 1 << other;
                    }
                }
            }
            state.owner[size] = processor as u8;
            state.modified_sizes |= bit;
            state.owned_sizes &= !bit;
        }
        state.begin_loss(losers, false);
        state.record_words(touch.words);
        state.holders &= !others;
        for other in bits(others) {
            self.processors[other].remove(line);
        }
        if self.shared.len() > 1 {
            let own = processor / self.group;
            for (group, levels) in self.shared.iter_mut().enumerate() {
                if group != own {
                    levels.iter_mut().for_each(|level| {
                        level.remove(line);
                    });
                }
            }
        }
    }

    /// A device wrote `line` to memory: it leaves every cache.
    pub fn invalidate(&mut self, line: Line) {
        let state = self.directory.line(line);
        let mut losers = 0;
        for other in bits(state.holders) {
            for size in 0..self.sizes {
                if self.processors[other].holds(size, line) {
                    state.lost[size] |= 1 << other;
                    losers |= 1 << other;
                }
            }
            self.processors[other].remove(line);
        }
        state.begin_loss(losers, true);
        state.record_words(ALL_WORDS);
        state.holders = 0;
        state.owner = [NOBODY; MAX_PRIVATE_SIZES];
        state.modified_sizes = 0;
        state.owned_sizes = 0;
        for level in self.shared.iter_mut().flatten() {
            level.remove(line);
        }
    }

    /// A device wrote `line` into the third level of the first group. Without a third level, this is
    /// [`invalidate`](Self::invalidate).
    pub fn allocate(&mut self, line: Line) {
        self.invalidate(line);
        for level in self.shared.first_mut().into_iter().flatten() {
            level.insert(line);
        }
    }

    /// Stores a number for the last access's miss, whose [`open_sizes`](Effects::open_sizes) are not
    /// zero. [`Resolved`] returns it.
    pub fn tag(&mut self, processor: usize, line: Line, tag: u32) {
        if let Some(miss) = self.processors[processor].open.get_mut(&line.0) {
            miss.tag = tag;
        }
    }

    /// The coherence misses whose kind is not known yet, as their tag and their sizes. The processor
    /// has accessed no written word so far.
    pub fn open_misses(&self) -> impl Iterator<Item = (u32, u8)> {
        let all = self.processors.iter().flat_map(|one| one.open.values());
        all.map(|miss| (miss.tag, miss.sizes))
    }

    /// Drops the coherence misses whose kind is not known yet: it is never resolved.
    pub fn drop_open_misses(&mut self) {
        for private in &mut self.processors {
            private.drop_open();
        }
    }
}

/// Whether the processor has the only copy in every size, and has modified it.
fn is_modified(state: &LineState, processor: usize, sizes: usize) -> bool {
    let every_size = u8::MAX >> (MAX_PRIVATE_SIZES - sizes);
    let mut owners = state.owner[..sizes].iter();
    state.modified_sizes == every_size
        && state.owned_sizes == 0
        && owners.all(|own| usize::from(*own) == processor)
}
