//! A filter that drops a processor's repeated accesses, as long as other processors leave the line
//! alone.

use crate::{Action, Line, Touch};

/// Maximum number of indices.
const MAX_INDICES: usize = 512;

/// The last accessed line for each index, and the words that the processor may store again.
///
/// Like [`Filter`](crate::Filter), it depends on the order of a processor's own accesses to a cache
/// of at least as many sets as there are indices. A write of another processor, or its copy of the
/// line, changes what an access does, so the caller then [`forget`](Self::forget)s the line.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    mask: usize,
    lines: Box<[Line; MAX_INDICES]>,
    words: Box<[u8; MAX_INDICES]>,
}

impl Recent {
    /// A filter in front of a cache of `sets` sets, which must be a power of two.
    pub(crate) fn new(sets: u32) -> Self {
        Self {
            mask: MAX_INDICES.min(sets as usize) - 1,
            lines: Box::new([Line::EMPTY; MAX_INDICES]),
            words: Box::new([0; MAX_INDICES]),
        }
    }

    #[inline]
    fn index(&self, line: Line) -> usize {
        (line.0 as usize & self.mask) % MAX_INDICES
    }

    /// Whether an access changes nothing.
    #[inline]
    pub(crate) fn allows(&self, touch: Touch) -> bool {
        let index = self.index(touch.line);
        let is_stored = touch.action != Action::Store || touch.words & !self.words[index] == 0;
        self.lines[index] == touch.line && is_stored
    }

    /// An access took place. After a store, the processor has the exclusive copy.
    #[inline]
    pub(crate) fn add(&mut self, touch: Touch) {
        let index = self.index(touch.line);
        if self.lines[index] != touch.line {
            self.lines[index] = touch.line;
            self.words[index] = 0;
        }
        if touch.action == Action::Store {
            self.words[index] |= touch.words;
        }
    }

    /// An access took place, and the next one to the same line must not be dropped.
    pub(crate) fn displace(&mut self, line: Line) {
        let index = self.index(line);
        self.lines[index] = Line::EMPTY;
    }

    /// The next access to `line` is not dropped.
    #[inline]
    pub(crate) fn forget(&mut self, line: Line) {
        let index = self.index(line);
        if self.lines[index] == line {
            self.lines[index] = Line::EMPTY;
        }
    }
}
