//! The filter of a recording of several processors.

use perpacket_memory::{Action, Filter, Line, Touch};

use super::{BUFFER_SETS, FIRST_SETS};

const INDICES: usize = FIRST_SETS as usize;
/// Lines of a page.
const PAGE_LINES: u32 = 64;

/// The last line that a processor accessed for each index, with the words.
#[derive(Clone, Debug)]
struct Accessed {
    lines: [u32; INDICES],
    loaded: [u8; INDICES],
    stored: [u8; INDICES],
    pages: Filter,
}

const NO_LINE: u32 = u32::MAX;

impl Accessed {
    fn new() -> Self {
        Self {
            lines: [NO_LINE; INDICES],
            loaded: [0; INDICES],
            stored: [0; INDICES],
            pages: Filter::new(BUFFER_SETS),
        }
    }

    const fn index(line: Line) -> usize {
        line.0 as usize % INDICES
    }

    /// Whether an access repeats others; records it.
    fn repeats(&mut self, touch: Touch) -> bool {
        let index = Self::index(touch.line);
        let repeats_page = self.pages.repeats(touch.line.0 / PAGE_LINES);
        if self.lines[index] != touch.line.0 {
            self.lines[index] = touch.line.0;
            (self.loaded[index], self.stored[index]) = (0, 0);
            self.add(index, touch);
            return false;
        }
        let known = match touch.action {
            Action::Fetch => u8::MAX,
            Action::Load => self.loaded[index] | self.stored[index],
            Action::Store => self.stored[index],
        };
        self.add(index, touch);
        repeats_page && touch.words & !known == 0
    }

    const fn add(&mut self, index: usize, touch: Touch) {
        match touch.action {
            Action::Fetch => {}
            Action::Load => self.loaded[index] |= touch.words,
            Action::Store => self.stored[index] |= touch.words,
        }
    }

    fn forget(&mut self, line: Line) {
        let index = Self::index(line);
        if self.lines[index] == line.0 {
            self.lines[index] = NO_LINE;
        }
    }
}

/// The filters of all processors, by side.
#[derive(Debug)]
pub(super) struct RepeatedWords(Vec<[Accessed; 2]>);

impl RepeatedWords {
    pub(super) fn new(processors: usize) -> Self {
        Self(vec![[Accessed::new(), Accessed::new()]; processors])
    }

    /// Whether an access of a processor can change no coherent caches whose first level has at least
    /// [`FIRST_SETS`] sets. One that can makes the other processors' next accesses to the line count.
    pub(super) fn repeats(&mut self, processor: usize, touch: Touch) -> bool {
        let side = usize::from(touch.action != Action::Fetch);
        if self.0[processor][side].repeats(touch) {
            return true;
        }
        for (other, sides) in self.0.iter_mut().enumerate() {
            if other != processor {
                sides.iter_mut().for_each(|own| own.forget(touch.line));
            }
        }
        false
    }

    /// A device wrote the line.
    pub(super) fn forget(&mut self, line: Line) {
        for own in self.0.iter_mut().flatten() {
            own.forget(line);
        }
    }

    /// A processor dropped its translations.
    pub(super) fn flush(&mut self, processor: usize) {
        for own in &mut self.0[processor] {
            own.pages.clear();
        }
    }
}
