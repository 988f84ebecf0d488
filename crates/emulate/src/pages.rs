//! Recognizes accesses that cannot change a translation buffer.

use perpacket_memory::{Line, PageFilter};

/// Lines in a page, which is also the number of indices of a filter of lines.
const LINES: usize = 64;

/// The physical page of a line that is not known, or that is not memory.
const UNKNOWN: u32 = u32::MAX;

/// The last pages that one side accessed.
///
/// A translation buffer selects its set by the physical page. An access that repeats a line has only
/// a virtual address, so the physical page of that line is stored here.
#[derive(Clone, Debug)]
pub struct Pages {
    filter: PageFilter,
    /// The physical page of the last line of each index of the filter of lines.
    physical: [u32; LINES],
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            filter: PageFilter::default(),
            physical: [UNKNOWN; LINES],
        }
    }
}

impl Pages {
    /// Whether an access to the virtual line `key` repeats the last access to a set. It cannot if it
    /// does not repeat its line.
    #[inline]
    pub fn repeats(&mut self, repeats_line: bool, key: u64) -> bool {
        let page = &mut self.physical[key as usize % LINES];
        if !repeats_line {
            *page = UNKNOWN;
        }
        *page != UNKNOWN && self.filter.repeats(u64::from(*page))
    }

    /// An access that does not repeat has that physical line.
    #[inline]
    pub fn access(&mut self, line: Line) {
        let page = line.0 / LINES as u32;
        self.physical[line.0 as usize % LINES] = page;
        self.filter.repeats(u64::from(page));
    }

    /// Forgets all accesses. The caller also clears its filter of lines.
    pub fn clear(&mut self) {
        self.filter.clear();
    }
}
