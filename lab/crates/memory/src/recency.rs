//! A fully associative cache with least-recently-used replacement, to tell conflicts from lack of
//! capacity.

use crate::{Line, paged::Paged};

/// The end of the list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    line: Line,
    newer: u32,
    older: u32,
}

/// The most recently used lines.
///
/// A list by recency whose nodes are found by their line.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    capacity: usize,
    /// The node of each line, or [`NONE`].
    by_line: Paged<u32>,
    nodes: Vec<Node>,
    unused: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Recency {
    /// An empty cache of `capacity` lines, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            by_line: Paged::new(NONE),
            nodes: Vec::new(),
            unused: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Makes `line` the most recently used one. Returns whether it was in the cache.
    pub(crate) fn touch(&mut self, line: Line) -> bool {
        let node = *self.by_line.line(line);
        if node != NONE {
            if node != self.newest {
                self.unlink(node);
                self.link(node);
            }
            return true;
        }
        if self.nodes.len() - self.unused.len() == self.capacity {
            let victim = self.nodes[self.oldest as usize].line;
            self.remove(victim);
        }
        let node = Node {
            line,
            newer: NONE,
            older: NONE,
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
        self.link(number);
        false
    }

    /// Removes `line` if the cache contains it.
    pub(crate) fn remove(&mut self, line: Line) {
        let node = std::mem::replace(self.by_line.line(line), NONE);
        if node != NONE {
            self.unlink(node);
            self.unused.push(node);
        }
    }

    /// Puts a node that is in no list at its newest end.
    fn link(&mut self, node: u32) {
        let older = std::mem::replace(&mut self.newest, node);
        let own = &mut self.nodes[node as usize];
        own.newer = NONE;
        own.older = older;
        match self.nodes.get_mut(older as usize) {
            Some(next) => next.newer = node,
            None => self.oldest = node,
        }
    }

    fn unlink(&mut self, node: u32) {
        let Node { newer, older, .. } = self.nodes[node as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(next) => next.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(next) => next.newer = newer,
            None => self.oldest = newer,
        }
    }
}
