//! The private caches of one processor.

use rustc_hash::FxHashMap;

use crate::{
    Line, cache::Cache, level::Level, parameters::CacheShape, recency::Recency, recent::Recent,
    touch::Resolved,
};

/// A coherence miss whose kind is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenMiss {
    pub(crate) sizes: u8,
    pub(crate) written: u8,
    pub(crate) tag: u32,
}

/// Number of counters of lines with open misses.
const OPEN_COUNTERS: usize = 1024;

/// The private caches of one processor.
#[derive(Clone, Debug)]
pub(crate) struct Private {
    pub(crate) first: [Cache; 2],
    pub(crate) second: Vec<Level>,
    pub(crate) recency: Recency,
    pub(crate) recent: [Recent; 2],
    pub(crate) open: FxHashMap<u32, OpenMiss>,
    /// The number of open misses by the lowest bits of the line, so that few accesses search `open`.
    open_counters: Box<[u16; OPEN_COUNTERS]>,
}

impl Private {
    /// Empty caches with these shapes.
    pub(crate) fn new(first: CacheShape, second: &[CacheShape]) -> Self {
        let lines = |shape: &CacheShape| shape.sets as usize * shape.ways;
        Self {
            first: [Cache::new(first), Cache::new(first)],
            second: second.iter().map(|shape| Level::new(*shape)).collect(),
            recency: Recency::new(&second.iter().map(lines).collect::<Vec<_>>()),
            recent: [Recent::new(first.sets), Recent::new(first.sets)],
            open: FxHashMap::default(),
            open_counters: Box::new([0; OPEN_COUNTERS]),
        }
    }

    pub(crate) fn holds(&self, size: usize, line: Line) -> bool {
        self.first.iter().any(|cache| cache.contains(line)) || self.second[size].contains(line)
    }

    pub(crate) fn remove(&mut self, line: Line) {
        self.first.iter_mut().for_each(|cache| {
            cache.remove(line);
        });
        self.second.iter_mut().for_each(|cache| {
            cache.remove(line);
        });
        self.recency.remove(line);
        self.forget(line);
    }

    /// The next access to the line must look at its state.
    pub(crate) fn forget(&mut self, line: Line) {
        self.recent
            .iter_mut()
            .for_each(|recent| recent.forget(line));
    }

    #[inline]
    pub(crate) fn may_be_open(&self, line: Line) -> bool {
        self.open_counters[line.0 as usize % OPEN_COUNTERS] > 0
    }

    pub(crate) fn open(&mut self, line: Line, miss: OpenMiss) {
        if self.open.insert(line.0, miss).is_none() {
            self.open_counters[line.0 as usize % OPEN_COUNTERS] += 1;
        }
    }

    pub(crate) fn close(&mut self, line: Line) {
        if self.open.remove(&line.0).is_some() {
            self.open_counters[line.0 as usize % OPEN_COUNTERS] -= 1;
        }
    }

    /// What an access to these words, which misses in these sizes, shows of an earlier miss.
    pub(crate) fn resolve(&mut self, line: Line, words: u8, missed_sizes: u8) -> Option<Resolved> {
        if !self.may_be_open(line) {
            return None;
        }
        let miss = self.open.get_mut(&line.0)?;
        let false_sizes = miss.sizes & missed_sizes;
        miss.sizes &= !missed_sizes;
        let true_sizes = if miss.written & words != 0 {
            std::mem::take(&mut miss.sizes)
        } else {
            0
        };
        let (tag, left) = (miss.tag, miss.sizes);
        if left == 0 {
            self.close(line);
        }
        (true_sizes | false_sizes != 0).then_some(Resolved {
            tag,
            true_sizes,
            false_sizes,
        })
    }

    pub(crate) fn drop_open(&mut self) {
        self.open.clear();
        self.open_counters.fill(0);
    }
}
