//! The rules of `Coherent` in the simplest form: one size of the second level, the state of each copy
//! in a map, and a loop over all processors wherever the rule names all of them.

use std::collections::{HashMap, HashSet};

use perpacket_memory::{
    Action, CacheSize, Cause, PrivateMiss, Protocol, SharedLevel, Source, Touch,
};

/// One set-associative cache: lists of lines, the most recently used first.
struct Lists {
    sets: Vec<Vec<u32>>,
    ways: usize,
}

impl Lists {
    fn new(size: CacheSize) -> Self {
        Self {
            sets: vec![Vec::new(); (size.size_kib * 16 / size.ways) as usize],
            ways: size.ways as usize,
        }
    }

    fn set(&mut self, line: u32) -> &mut Vec<u32> {
        let sets = self.sets.len();
        &mut self.sets[line as usize % sets]
    }

    fn has(&self, line: u32) -> bool {
        self.sets[line as usize % self.sets.len()].contains(&line)
    }

    fn remove(&mut self, line: u32) {
        self.set(line).retain(|other| *other != line);
    }

    /// Puts the line in front; returns the evicted line.
    fn put(&mut self, line: u32) -> Option<u32> {
        self.remove(line);
        let ways = self.ways;
        let set = self.set(line);
        set.insert(0, line);
        if set.len() > ways { set.pop() } else { None }
    }
}

/// The state of a processor's copy. A line without state is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Modified,
    Owned,
    Exclusive,
    Shared,
}

/// The loss of a copy to a write.
struct Loss {
    to_device: bool,
    written: u8,
}

struct Processor {
    first: [Lists; 2],
    second: Lists,
    /// Every line that missed a first level, the most recent first, at most as many as `second` has.
    recent: Vec<u32>,
    states: HashMap<u32, State>,
    seen: HashSet<u32>,
    losses: HashMap<u32, Loss>,
    /// The coherence miss that brought the line, if it touched no written word so far: its number and
    /// the words.
    open: HashMap<u32, (usize, u8)>,
}

impl Processor {
    fn has(&self, line: u32) -> bool {
        self.first.iter().any(|cache| cache.has(line)) || self.second.has(line)
    }

    fn lose(&mut self, line: u32, to_device: bool) {
        if self.states.remove(&line).is_some() {
            let loss = Loss {
                to_device,
                written: 0,
            };
            self.losses.insert(line, loss);
        }
        self.first.iter_mut().for_each(|cache| cache.remove(line));
        self.second.remove(line);
        self.recent.retain(|other| *other != line);
    }
}

/// What one access did, in one size of the second level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub first_missed: bool,
    pub miss: Option<PrivateMiss>,
    pub is_upgrade: bool,
    pub invalidated: u8,
    /// Whether a coherence miss is true sharing. `None` for another access, or if the end of the trace
    /// came first.
    pub is_true_sharing: Option<bool>,
}

pub struct NaiveCoherence {
    processors: Vec<Processor>,
    shared: Vec<Lists>,
    group: usize,
    capacity: usize,
    protocol: Protocol,
    pub steps: Vec<Step>,
}

impl NaiveCoherence {
    pub fn new(
        processors: u32,
        first: CacheSize,
        second: CacheSize,
        shared: Option<SharedLevel>,
        protocol: Protocol,
    ) -> Self {
        let processor = || Processor {
            first: [Lists::new(first), Lists::new(first)],
            second: Lists::new(second),
            recent: Vec::new(),
            states: HashMap::new(),
            seen: HashSet::new(),
            losses: HashMap::new(),
            open: HashMap::new(),
        };
        let group = shared.map_or(processors, |level| level.processors) as usize;
        let groups = (processors as usize).div_ceil(group);
        let levels = |level: SharedLevel| (0..groups).map(|_| Lists::new(level.size)).collect();
        Self {
            processors: (0..processors).map(|_| processor()).collect(),
            shared: shared.map_or_else(Vec::new, levels),
            group,
            capacity: second.size_kib as usize * 16,
            protocol,
            steps: Vec::new(),
        }
    }

    pub fn access(&mut self, number: usize, touch: Touch) {
        let Touch { action, words, .. } = touch;
        let line = touch.line.0;
        let words = if action == Action::Fetch { 0xFF } else { words };
        let side = usize::from(action != Action::Fetch);
        let mut step = Step::default();
        let had_copy = self.processors[number].has(line);
        if self.processors[number].first[side].has(line) {
            self.processors[number].first[side].put(line);
        } else {
            step.first_missed = true;
            step.miss = self.fill(number, side, line);
        }
        self.judge_sharing(number, line, words, &mut step);
        if action == Action::Store {
            let state = self.processors[number].states[&line];
            let may_store = matches!(state, State::Modified | State::Exclusive);
            step.is_upgrade = !may_store && step.miss.is_none();
            if !may_store {
                for other in 0..self.processors.len() {
                    if other != number && self.processors[other].states.contains_key(&line) {
                        step.invalidated |= 1 << other;
                        self.processors[other].lose(line, false);
                    }
                }
            }
            for (other, processor) in self.processors.iter_mut().enumerate() {
                if other != number {
                    processor.recent.retain(|own| *own != line);
                }
            }
            self.processors[number].states.insert(line, State::Modified);
            self.write(line, words);
            for group in 0..self.shared.len() {
                if group != number / self.group {
                    self.shared[group].remove(line);
                }
            }
        }
        assert!(self.processors[number].has(line) && (had_copy || step.miss.is_some()));
        self.steps.push(step);
    }

    fn write(&mut self, line: u32, words: u8) {
        for processor in &mut self.processors {
            if let Some(loss) = processor.losses.get_mut(&line) {
                loss.written |= words;
            }
        }
    }

    /// Brings the line into the caches that lack it; returns the miss of the second level.
    fn fill(&mut self, number: usize, side: usize, line: u32) -> Option<PrivateMiss> {
        let was_recent = self.processors[number].recent.contains(&line);
        let recent = &mut self.processors[number].recent;
        recent.retain(|other| *other != line);
        recent.insert(0, line);
        recent.truncate(self.capacity);
        let miss = if self.processors[number].second.has(line) {
            None
        } else {
            Some(self.miss(number, line, was_recent))
        };
        let own = &mut self.processors[number];
        let evicted = [own.first[side].put(line), own.second.put(line)];
        for victim in evicted.into_iter().flatten() {
            if !own.has(victim) {
                own.states.remove(&victim);
            }
        }
        own.seen.insert(line);
        miss
    }

    fn miss(&mut self, number: usize, line: u32, was_recent: bool) -> PrivateMiss {
        let own = &self.processors[number];
        let cause = match own.losses.get(&line) {
            Some(loss) if loss.to_device => Cause::Device,
            Some(_) => Cause::Coherence,
            None if !own.seen.contains(&line) => Cause::Cold,
            None if was_recent => Cause::Conflict,
            None => Cause::Capacity,
        };
        let mut supplier = None;
        for (other, processor) in self.processors.iter().enumerate() {
            match processor.states.get(&line) {
                Some(State::Shared) | None => {}
                Some(_) if other == number => {}
                Some(state) => supplier = Some((other, *state)),
            }
        }
        let group = number / self.group;
        let in_own_group = self.shared.get(group).is_some_and(|level| level.has(line));
        let mut elsewhere = false;
        for other in 0..self.shared.len() {
            elsewhere |= other != group && self.shared[other].has(line);
        }
        if let Some(level) = self.shared.get_mut(group) {
            level.put(line);
        }
        // The cache of the processor's other side can have the line; its state does not change then.
        if !self.processors[number].states.contains_key(&line) {
            for (other, processor) in self.processors.iter_mut().enumerate() {
                if let Some(state) = processor.states.get_mut(&line) {
                    elsewhere |= other != number;
                    *state = match *state {
                        State::Modified if self.protocol == Protocol::Moesi => State::Owned,
                        State::Owned => State::Owned,
                        _ => State::Shared,
                    };
                }
            }
            let state = if elsewhere {
                State::Shared
            } else {
                State::Exclusive
            };
            self.processors[number].states.insert(line, state);
        }
        PrivateMiss {
            cause,
            source: match supplier {
                Some((other, _)) => Source::Processor(other as u8),
                None if in_own_group => Source::Shared,
                None => Source::Memory,
            },
            is_modified: supplier.is_some_and(|(_, state)| state != State::Exclusive),
        }
    }

    /// Decides on the last coherence miss of the processor on this line, and begins a new one.
    fn judge_sharing(&mut self, number: usize, line: u32, words: u8, step: &mut Step) {
        let processor = &mut self.processors[number];
        if step.miss.is_some()
            && let Some((before, _)) = processor.open.remove(&line)
        {
            self.steps[before].is_true_sharing = Some(false);
        }
        let loss = processor.losses.remove(&line);
        if let Some(miss) = step.miss
            && miss.cause == Cause::Coherence
        {
            let written = loss.map_or(0, |loss| loss.written);
            if written & words != 0 {
                step.is_true_sharing = Some(true);
            } else {
                processor.open.insert(line, (self.steps.len(), written));
            }
        } else if let Some((before, written)) = processor.open.get(&line).copied()
            && written & words != 0
        {
            processor.open.remove(&line);
            self.steps[before].is_true_sharing = Some(true);
        }
    }

    pub fn device_writes(&mut self, line: u32, into_shared: bool) {
        for processor in &mut self.processors {
            processor.lose(line, true);
        }
        self.write(line, 0xFF);
        for level in &mut self.shared {
            level.remove(line);
        }
        if into_shared && let Some(level) = self.shared.first_mut() {
            level.put(line);
        }
    }
}
