//! The cache of files by path and coding, bounded in bytes.
//!
//! It evicts by the clock algorithm: a hit marks its entry. To evict, a pointer moves around the
//! entries, clears their marks, and evicts the first entry without a mark. Keys are normalized
//! paths of existing files, so clients cannot choose keys to make the hash slow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rustc_hash::FxBuildHasher;

use super::entry::{Body, Entry};
use super::prebuilt::PrebuiltResponses;
use crate::counters::Counters;
use perpacket_http::coding::Coding;
use perpacket_linux::mailbox::lock;
/// Prebuilt responses have a budget of their own: the budget of the cache divided by this number.
const PREBUILT_SHARE: u64 = 16;

/// Maximum number of files that entries keep open.
const OPEN_FILES: usize = 256;

/// The number of codings. Each has its own map.
const CODINGS: usize = 4;

type SlotsByPath = HashMap<Box<[u8]>, usize, FxBuildHasher>;

/// Files by path and coding.
#[derive(Debug)]
pub struct Cache {
    slots_by_path: [SlotsByPath; CODINGS],
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    hand: usize,
    bytes: u64,
    open_files: usize,
    budget_bytes: u64,
    /// Whole responses with the files that clients request most.
    pub prebuilt: PrebuiltResponses,
}

#[derive(Debug)]
struct Slot {
    path: Box<[u8]>,
    entry: Arc<Entry>,
    used: bool,
}

impl Cache {
    /// An empty cache that may use `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            slots_by_path: Default::default(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            open_files: 0,
            budget_bytes,
            prebuilt: PrebuiltResponses::new(budget_bytes / PREBUILT_SHARE),
        }
    }

    /// The entry of a path. Marks it as used.
    #[inline]
    pub fn get(&mut self, path: &[u8], coding: Coding) -> Option<Arc<Entry>> {
        let &slot_index = self.slots_by_path[coding as usize].get(path)?;
        let slot = self.slots[slot_index].as_mut()?;
        slot.used = true;
        Some(Arc::clone(&slot.entry))
    }

    /// Adds or replaces a file. Evicts others until there is room.
    pub fn insert(&mut self, path: &[u8], entry: Arc<Entry>, counters: &Counters) {
        self.remove(path, entry.coding, counters);
        let bytes = entry.memory_bytes();
        let is_open = matches!(entry.body, Body::File(_));
        if bytes > self.budget_bytes {
            return;
        }
        while self.bytes + bytes > self.budget_bytes || (is_open && self.open_files >= OPEN_FILES) {
            self.evict(counters);
        }
        let slot_index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots_by_path[entry.coding as usize].insert(path.into(), slot_index);
        self.slots[slot_index] = Some(Slot {
            path: path.into(),
            entry,
            used: false,
        });
        self.bytes += bytes;
        self.open_files += usize::from(is_open);
        counters.cache_entries.shift(1);
        counters.cache_bytes.shift(bytes as i64);
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &[u8], coding: Coding, counters: &Counters) {
        if let Some(&slot_index) = self.slots_by_path[coding as usize].get(path) {
            self.clear(slot_index, counters);
        }
    }

    /// Removes the next file without a mark.
    fn evict(&mut self, counters: &Counters) {
        // Two rounds: the first may only clear marks.
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            match &mut self.slots[self.hand] {
                Some(slot) if slot.used => slot.used = false,
                Some(_) => return self.clear(self.hand, counters),
                None => {}
            }
        }
    }

    fn clear(&mut self, slot_index: usize, counters: &Counters) {
        if let Some(slot) = self.slots[slot_index].take() {
            self.slots_by_path[slot.entry.coding as usize].remove(&slot.path);
            self.free.push(slot_index);
            let bytes = slot.entry.memory_bytes();
            self.bytes -= bytes;
            self.open_files -= usize::from(matches!(slot.entry.body, Body::File(_)));
            counters.cache_entries.shift(-1);
            counters.cache_bytes.shift(-(bytes as i64));
        }
    }
}

/// A worker's cache: its own, or one that threads share.
#[derive(Debug)]
pub enum CacheHandle {
    /// The worker's own, without a lock.
    Own(Box<Cache>),
    /// Shared with other threads.
    Shared(Arc<Mutex<Cache>>),
}

impl CacheHandle {
    /// Calls `action` with the cache.
    #[inline]
    pub fn with<R>(&mut self, action: impl FnOnce(&mut Cache) -> R) -> R {
        match self {
            Self::Own(cache) => action(cache),
            // A panic leaves the cache usable.
            Self::Shared(cache) => action(&mut lock(cache)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpacket_linux::root_folder::RootFolder;
    use std::fs;

    fn entries(count: usize, bytes: usize) -> (tempfile::TempDir, Vec<Arc<Entry>>) {
        let folder = tempfile::tempdir().unwrap();
        let root = RootFolder::open(folder.path()).unwrap();
        let load = |number: usize| {
            let name = format!("{number}");
            fs::write(folder.path().join(&name), vec![b'x'; bytes]).unwrap();
            let path = format!("/{name}");
            Arc::new(Entry::load(&root, path.as_bytes(), Coding::Identity, 1 << 20).unwrap())
        };
        let all = (0..count).map(load).collect();
        (folder, all)
    }

    #[test]
    fn the_cache_stays_within_its_budget_and_keeps_used_entries() {
        let (_folder, entries) = entries(50, 1000);
        let counters = Counters::default();
        let mut cache = Cache::new(10 * entries[0].memory_bytes());
        for (number, entry) in entries.iter().enumerate() {
            cache.insert(
                format!("/{number}").as_bytes(),
                Arc::clone(entry),
                &counters,
            );
            assert!(
                cache.get(b"/0", Coding::Identity).is_some(),
                "used each time"
            );
            assert!(counters.cache_bytes.get() <= cache.budget_bytes);
        }
        assert_eq!(counters.cache_entries.get(), 10);
        assert!(cache.get(b"/1", Coding::Identity).is_none());
        cache.remove(b"/0", Coding::Identity, &counters);
        assert!(cache.get(b"/0", Coding::Identity).is_none());
        assert_eq!(counters.cache_entries.get(), 9);
    }

    #[test]
    fn a_file_larger_than_the_budget_evicts_nothing() {
        let (_folder, entries) = entries(1, 1000);
        let counters = Counters::default();
        let mut cache = Cache::new(100);
        cache.insert(b"/0", Arc::clone(&entries[0]), &counters);
        assert!(cache.get(b"/0", Coding::Identity).is_none());
    }
}
