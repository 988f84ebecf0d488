//! Fully associative caches with least-recently-used replacement, to tell conflicts from lack of
//! capacity.

use crate::{Line, coherent::MAX_PRIVATE_SIZES, paged::Paged};

/// The end of the list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    line: Line,
    newer: u32,
    older: u32,
    /// The smallest cache that contains the line, by its index in [`Recency::caches`].
    smallest: u8,
}

/// A cache: the newest nodes of the list, up to the oldest one that it contains.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    capacity: usize,
    lines: usize,
    oldest: u32,
    /// The caches that contain each of its lines, as bits: itself and the larger ones.
    contained: u8,
}

/// The most recently used lines of caches of several capacities.
///
/// All see the same accesses and removals, so each contains every line of the smaller ones. One list by
/// recency has the lines of all. Its nodes are found by their line.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    /// The caches by capacity, the smallest first.
    caches: Vec<Prefix>,
    /// The node of each line, or [`NONE`].
    by_line: Paged<u32>,
    nodes: Vec<Node>,
    unused: Vec<u32>,
    newest: u32,
}

impl Recency {
    /// Empty caches of these capacities in lines. Each is at least one, and there are at most
    /// [`MAX_PRIVATE_SIZES`].
    pub(crate) fn new(capacities: &[usize]) -> Self {
        debug_assert!(
            capacities.len() <= MAX_PRIVATE_SIZES,
            "a mask has a bit for each"
        );
        let mut by_capacity: Vec<_> = capacities.iter().copied().enumerate().collect();
        by_capacity.sort_by_key(|(_, capacity)| *capacity);
        let mut contained = 0;
        let mut caches: Vec<_> = by_capacity
            .iter()
            .rev()
            .map(|(index, capacity)| {
                contained |= 1 << index;
                Prefix {
                    capacity: *capacity,
                    lines: 0,
                    oldest: NONE,
                    contained,
                }
            })
            .collect();
        caches.reverse();
        Self {
            caches,
            by_line: Paged::new(NONE),
            nodes: Vec::new(),
            unused: Vec::new(),
            newest: NONE,
        }
    }

    /// Makes `line` the most recently used one. Returns the caches that contained it, as bits by the
    /// index of their capacity.
    pub(crate) fn touch(&mut self, line: Line) -> u8 {
        let known = *self.by_line.line(line);
        let (number, smallest) = if known == NONE {
            (self.add(line), self.caches.len() as u8)
        } else {
            let smallest = self.nodes[known as usize].smallest;
            if known == self.newest && smallest == 0 {
                return self.contained(0);
            }
            self.unlink(known);
            (known, smallest)
        };
        self.link(number);
        for index in 0..self.caches.len() {
            let cache = &mut self.caches[index];
            cache.lines += usize::from(index < usize::from(smallest));
            if cache.oldest == NONE {
                cache.oldest = number;
            }
            if cache.lines > cache.capacity {
                self.evict(index);
            }
        }
        self.contained(smallest)
    }

    /// Removes `line` from every cache.
    pub(crate) fn remove(&mut self, line: Line) {
        let number = std::mem::replace(self.by_line.line(line), NONE);
        if number != NONE {
            let smallest = self.nodes[number as usize].smallest;
            self.unlink(number);
            for cache in &mut self.caches[usize::from(smallest)..] {
                cache.lines -= 1;
            }
            self.unused.push(number);
        }
    }

    fn contained(&self, smallest: u8) -> u8 {
        self.caches
            .get(usize::from(smallest))
            .map_or(0, |cache| cache.contained)
    }

    /// A node that is in no list, and its number.
    fn add(&mut self, line: Line) -> u32 {
        let node = Node {
            line,
            newer: NONE,
            older: NONE,
            smallest: 0,
        };
        let number = match self.unused.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        *self.by_line.line(line) = number;
        number
    }

    /// Removes the oldest line of a cache from it. No smaller cache contains this line.
    fn evict(&mut self, index: usize) {
        let cache = &mut self.caches[index];
        let victim = cache.oldest;
        cache.lines -= 1;
        cache.oldest = self.nodes[victim as usize].newer;
        self.nodes[victim as usize].smallest = index as u8 + 1;
        if index + 1 == self.caches.len() {
            self.unlink(victim);
            *self.by_line.line(self.nodes[victim as usize].line) = NONE;
            self.unused.push(victim);
        }
    }

    /// Puts a node that is in no list at its newest end. Every cache contains it.
    fn link(&mut self, number: u32) {
        let older = std::mem::replace(&mut self.newest, number);
        let own = &mut self.nodes[number as usize];
        own.newer = NONE;
        own.older = older;
        own.smallest = 0;
        if let Some(next) = self.nodes.get_mut(older as usize) {
            next.newer = number;
        }
    }

    /// Takes a node out of the list. A cache whose oldest line it was ends before it.
    fn unlink(&mut self, number: u32) {
        let Node {
            newer,
            older,
            smallest,
            ..
        } = self.nodes[number as usize];
        for cache in &mut self.caches[usize::from(smallest)..] {
            if cache.oldest == number {
                cache.oldest = newer;
            }
        }
        match self.nodes.get_mut(newer as usize) {
            Some(next) => next.older = older,
            None => self.newest = older,
        }
        if let Some(next) = self.nodes.get_mut(older as usize) {
            next.newer = newer;
        }
    }
}
