//! The rules of `Split` and `TranslationBuffer` in the simplest form: one second level at a time,
//! and no filter.

use perpacket_memory::{CacheSize, Policy, Side};

/// Sets of keys, the most recently used first.
pub struct Sets {
    sets: Vec<Vec<u32>>,
    ways: usize,
}

impl Sets {
    pub fn new(sets: u32, ways: u32) -> Self {
        Self {
            sets: vec![Vec::new(); sets as usize],
            ways: ways as usize,
        }
    }

    fn of_cache(size: CacheSize) -> Self {
        Self::new(size.size_kib * 16 / size.ways, size.ways)
    }

    fn set(&mut self, key: u32) -> &mut Vec<u32> {
        let sets = self.sets.len();
        &mut self.sets[key as usize % sets]
    }

    fn has(&mut self, key: u32) -> bool {
        self.set(key).contains(&key)
    }

    fn remove(&mut self, key: u32) {
        self.set(key).retain(|other| *other != key);
    }

    /// Puts `key` in front. Returns whether it was absent, and the evicted key.
    pub fn put(&mut self, key: u32) -> (bool, Option<u32>) {
        let absent = !self.has(key);
        self.remove(key);
        let ways = self.ways;
        let set = self.set(key);
        set.insert(0, key);
        (absent, if set.len() > ways { set.pop() } else { None })
    }

    pub fn clear(&mut self) {
        self.sets.iter_mut().for_each(Vec::clear);
    }
}

/// Two first-level caches and one second level.
pub struct Naive {
    first: [Sets; 2],
    second: Sets,
    policy: Policy,
    next_line_prefetch: bool,
}

impl Naive {
    pub fn new(
        first: CacheSize,
        second: CacheSize,
        policy: Policy,
        next_line_prefetch: bool,
    ) -> Self {
        Self {
            first: [Sets::of_cache(first), Sets::of_cache(first)],
            second: Sets::of_cache(second),
            policy,
            next_line_prefetch,
        }
    }

    /// Whether the first level missed, and whether the second did too.
    pub fn access(&mut self, side: Side, line: u32) -> (bool, bool) {
        let first = &mut self.first[side as usize];
        if first.has(line) {
            first.put(line);
            return (false, false);
        }
        let second_missed = if self.policy == Policy::Exclusive {
            let second_missed = !self.second.has(line);
            self.second.remove(line);
            if let (_, Some(victim)) = first.put(line) {
                self.second.put(victim);
            }
            second_missed
        } else {
            let second_missed = self.fill_second(line);
            self.first[side as usize].put(line);
            second_missed
        };
        if second_missed && self.next_line_prefetch {
            self.prefetch(line + 1);
        }
        (true, second_missed)
    }

    fn fill_second(&mut self, line: u32) -> bool {
        let (absent, evicted) = self.second.put(line);
        if let (Some(victim), Policy::Inclusive) = (evicted, self.policy) {
            self.first.iter_mut().for_each(|cache| cache.remove(victim));
        }
        absent
    }

    fn prefetch(&mut self, line: u32) {
        let is_above = self.first.iter_mut().any(|cache| cache.has(line));
        let is_copy = self.policy == Policy::Exclusive && is_above;
        if !line.is_multiple_of(64) && line != u32::MAX && !is_copy && !self.second.has(line) {
            self.fill_second(line);
        }
    }

    pub fn invalidate(&mut self, line: u32) {
        self.first.iter_mut().for_each(|cache| cache.remove(line));
        self.second.remove(line);
    }

    pub fn allocate(&mut self, line: u32) {
        self.first.iter_mut().for_each(|cache| cache.remove(line));
        self.fill_second(line);
    }
}
