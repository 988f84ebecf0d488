//! The addresses of structures in memory, in cache lines.
//!
//! Structures get virtual lines, and none crosses a page. Pages have random places in physical
//! memory, as with an allocator without page colouring. The seed decides the places. So structures
//! share cache sets by chance, as in a running kernel.

use perpacket_memory::Line;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::footprint::{Structure, Touch};

/// Lines of a page: 4 KiB of 64 B lines.
const LINES_PER_PAGE: u32 = 64;

/// Allocates virtual lines, before their pages have places.
#[derive(Default)]
pub struct Layout {
    pages: u32,
}

impl Layout {
    /// Virtual lines for `count` instances of `lines` lines each, with `spacing` from one line to the
    /// next.
    pub fn array(&mut self, count: u32, lines: u32, spacing: u32) -> Array {
        let lines = lines * spacing;
        let per_page = (LINES_PER_PAGE / lines).max(1);
        let first_page = self.pages;
        self.pages += count.div_ceil(per_page) * lines.div_ceil(LINES_PER_PAGE);
        Array {
            first_line: first_page * LINES_PER_PAGE,
            lines,
            spacing,
            per_page,
            count,
        }
    }

    /// ConnectionLines every page in physical memory under `seed`.
    pub fn place(self, seed: u64) -> PageTable {
        PageTable {
            pages: shuffled(self.pages, seed),
        }
    }
}

/// The numbers below `count` in an order that `seed` decides.
///
/// Free lists start in such an order: after some uptime, neighbours in a free list are not neighbours
/// in memory.
pub fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut numbers: Vec<u32> = (0..count).collect();
    for end in (1..numbers.len()).rev() {
        let pick = (random.next_u64() % (end as u64 + 1)) as usize;
        numbers.swap(end, pick);
    }
    numbers
}

/// The lines of a scattered structure. Each call of an operation accesses the next part of them.
#[derive(Debug)]
pub struct DividedLines {
    touch: Touch,
    lines: Box<[Line]>,
}

impl DividedLines {
    /// The lines of a touch; `places` has all lines of the structure.
    pub fn new(touch: Touch, places: &[Line]) -> Self {
        let lines = places[touch.first as usize..touch.end as usize].into();
        let end = touch.end - touch.first;
        Self {
            touch: Touch {
                first: 0,
                end,
                ..touch
            },
            lines,
        }
    }

    /// Code that each call accesses as a whole.
    pub fn whole(lines: &[Line]) -> Self {
        let touch = Touch {
            structure: Structure::Code,
            rotation: None,
            first: 0,
            end: lines.len() as u32,
            every: 1,
        };
        Self::new(touch, lines)
    }

    #[inline]
    pub fn of_call(&self, call: u64) -> &[Line] {
        let range = self.touch.of_call(call);
        &self.lines[range.start as usize..range.end as usize]
    }

    /// The largest number of lines of one call.
    pub fn most(&self) -> usize {
        self.lines.len().div_ceil(self.touch.every as usize)
    }
}

/// One in this many lines of a region belongs to a scattered structure.
const SCATTERED_ONE_IN: u32 = 4;

/// `count` lines of a region of `count * SCATTERED_ONE_IN`, in an order that `seed` decides.
pub fn scattered(count: u32, seed: u64) -> Vec<u32> {
    let mut numbers = shuffled(count * SCATTERED_ONE_IN, seed);
    numbers.truncate(count as usize);
    numbers
}

/// Physical places of virtual pages.
pub struct PageTable {
    pages: Vec<u32>,
}

impl PageTable {
    /// The physical line of a virtual one.
    #[inline]
    pub fn physical(&self, line: u32) -> Line {
        let page = self.pages[(line / LINES_PER_PAGE) as usize];
        Line(page * LINES_PER_PAGE + line % LINES_PER_PAGE)
    }
}

/// Instances of one structure.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    first_line: u32,
    lines: u32,
    spacing: u32,
    per_page: u32,
    pub count: u32,
}

impl Array {
    /// Lines of one instance, with those between them.
    #[inline]
    pub const fn lines(&self) -> u32 {
        self.lines
    }

    /// The first virtual line of an instance. With spacing, instances begin at different offsets, so
    /// that together they use all sets of a cache.
    pub const fn line(&self, index: u32) -> u32 {
        if self.lines > LINES_PER_PAGE {
            return self.first_line + index * self.lines.next_multiple_of(LINES_PER_PAGE);
        }
        let page = index / self.per_page;
        let offset = index % self.per_page * self.lines + index % self.spacing;
        self.first_line + page * LINES_PER_PAGE + offset
    }

    /// The physical places of all instances.
    pub fn place(&self, pages: &PageTable) -> FirstLines {
        let physical = |index| pages.physical(self.line(index));
        FirstLines {
            lines: (0..self.count).map(physical).collect(),
        }
    }
}

/// The physical first lines of the instances of one structure. There are none if the run has no such
/// structure.
#[derive(Default)]
pub struct FirstLines {
    lines: Box<[Line]>,
}

impl FirstLines {
    /// How many there are.
    pub const fn count(&self) -> u32 {
        self.lines.len() as u32
    }

    /// The first line of the instance `index` modulo the number of instances; line 0 if there is none.
    #[inline]
    pub fn line(&self, index: u32) -> Line {
        let index = index as usize;
        match self.lines.get(index) {
            Some(line) => *line,
            None if self.lines.is_empty() => Line(0),
            None => self.lines[index % self.lines.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_structures_share_a_line_and_none_crosses_a_page() {
        let mut layout = Layout::default();
        let arrays = [(100, 5, 1), (30, 3, 1), (4, 64, 1), (2, 100, 1), (10, 8, 2)]
            .map(|(count, lines, spacing)| (layout.array(count, lines, spacing), lines, spacing));
        let table = layout.place(1);
        let mut seen = HashSet::new();
        for (array, lines, spacing) in arrays {
            let whole_pages = lines > LINES_PER_PAGE;
            for index in 0..array.count {
                let first = array.line(index);
                let last = first + (lines - 1) * spacing;
                assert!(whole_pages || first / LINES_PER_PAGE == last / LINES_PER_PAGE);
                for line in (first..=last).step_by(spacing as usize) {
                    assert!(seen.insert(table.physical(line).0));
                }
            }
        }
    }
}
