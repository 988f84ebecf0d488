//! A value for each line, in pages that exist once one of their lines is used.

use crate::Line;

/// Lines of a page.
const PAGE_LINES: usize = 64;

/// A value for each line.
#[derive(Clone, Debug)]
pub(crate) struct Paged<T> {
    /// The value of a line that was never used.
    new: T,
    pages: Vec<Option<Box<[T; PAGE_LINES]>>>,
}

impl<T: Copy> Paged<T> {
    pub(crate) const fn new(new: T) -> Self {
        let pages = Vec::new();
        Self { new, pages }
    }

    /// The value of a line.
    #[inline]
    pub(crate) fn line(&mut self, line: Line) -> &mut T {
        let page = line.0 as usize / PAGE_LINES;
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        let lines = self.pages[page].get_or_insert_with(|| Box::new([self.new; PAGE_LINES]));
        &mut lines[line.0 as usize % PAGE_LINES]
    }
}
