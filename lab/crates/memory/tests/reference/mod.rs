//! The hierarchy's rules in the simplest form.

use perpacket_memory::{HierarchyParameters, Policy};
use std::collections::BTreeMap;

/// One level: for each set its lines, the most recently used first.
struct Level {
    sets: Vec<Vec<u32>>,
    ways: usize,
}

impl Level {
    fn set(&mut self, line: u32) -> &mut Vec<u32> {
        let sets = self.sets.len();
        &mut self.sets[line as usize % sets]
    }

    fn remove(&mut self, line: u32) {
        self.set(line).retain(|held| *held != line);
    }

    /// Moves or inserts `line` at the front. Returns the line that no longer fits.
    fn put(&mut self, line: u32) -> Option<u32> {
        self.remove(line);
        let ways = self.ways;
        let set = self.set(line);
        set.insert(0, line);
        if set.len() > ways { set.pop() } else { None }
    }
}

pub struct Reference {
    parameters: HierarchyParameters,
    levels: Vec<Level>,
    arrives_at: BTreeMap<u32, u64>,
    channel_free_at: u64,
}

impl Reference {
    pub fn new(parameters: &HierarchyParameters) -> Self {
        let level = |cache: &perpacket_memory::CacheParameters| {
            let lines = cache.size_kib as usize * 1024 / parameters.line_bytes as usize;
            Level {
                sets: vec![Vec::new(); lines / cache.ways as usize],
                ways: cache.ways as usize,
            }
        };
        Self {
            parameters: parameters.clone(),
            levels: parameters.levels.iter().map(level).collect(),
            arrives_at: BTreeMap::new(),
            channel_free_at: 0,
        }
    }

    pub fn contains(&self, level: usize, line: u32) -> bool {
        self.levels[level]
            .sets
            .iter()
            .flatten()
            .any(|held| *held == line)
    }

    /// The level that answers and the stall.
    pub fn access(&mut self, line: u32, now: u64) -> (u8, u32) {
        let level = self.bring(line);
        let mut stall = self.stall(level, now);
        if level == self.levels.len() {
            self.next_line(line, now);
        }
        if let Some(arrives_at) = self.arrives_at.remove(&line) {
            stall = stall.max(arrives_at.saturating_sub(now));
        }
        (level as u8, stall as u32)
    }

    pub fn prefetch(&mut self, line: u32, now: u64) {
        let level = self.bring(line);
        if level == 0 {
            return;
        }
        let arrives_at = now + self.stall(level, now);
        let earlier = self.arrives_at.get(&line).copied().unwrap_or(0);
        self.arrives_at.insert(line, arrives_at.max(earlier));
    }

    pub fn invalidate(&mut self, line: u32) {
        for level in &mut self.levels {
            level.remove(line);
        }
        self.arrives_at.remove(&line);
    }

    fn stall(&mut self, level: usize, now: u64) -> u64 {
        let first = u64::from(self.parameters.levels[0].latency_cycles);
        if let Some(cache) = self.parameters.levels.get(level) {
            return u64::from(cache.latency_cycles) - first;
        }
        let start = now.max(self.channel_free_at);
        self.channel_free_at = start + u64::from(self.parameters.dram.service_cycles);
        start - now + u64::from(self.parameters.dram.latency_cycles) - first
    }

    fn bring(&mut self, line: u32) -> usize {
        let depth = self.levels.len();
        let level = (0..depth)
            .find(|level| self.contains(*level, line))
            .unwrap_or(depth);
        if self.parameters.policy == Policy::Exclusive {
            if level < depth {
                self.levels[level].remove(line);
            }
            let mut moving = Some(line);
            for level in &mut self.levels {
                moving = moving.and_then(|line| level.put(line));
            }
            return level;
        }
        for level in (0..=level.min(depth - 1)).rev() {
            self.put_and_purge(level, line);
        }
        level
    }

    fn put_and_purge(&mut self, level: usize, line: u32) {
        let evicted = self.levels[level].put(line);
        if self.parameters.policy == Policy::Inclusive {
            for above in &mut self.levels[..level] {
                evicted.into_iter().for_each(|victim| above.remove(victim));
            }
        }
    }

    fn next_line(&mut self, line: u32, now: u64) {
        let next = u64::from(line) + 1;
        let starts_a_page = next * u64::from(self.parameters.line_bytes) % 4096 == 0;
        if !self.parameters.next_line_prefetch || starts_a_page || next == u64::from(u32::MAX) {
            return;
        }
        let next = next as u32;
        let last = self.levels.len() - 1;
        let first_searched = match self.parameters.policy {
            Policy::Exclusive => 0,
            Policy::Inclusive | Policy::NonInclusive => last,
        };
        if !(first_searched..=last).any(|level| self.contains(level, next)) {
            self.put_and_purge(last, next);
            self.stall(last + 1, now);
        }
    }
}
