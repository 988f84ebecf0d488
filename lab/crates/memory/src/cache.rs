//! One set-associative cache with least-recently-used replacement.

use crate::{Line, parameters::CacheShape};

/// The lines of one cache, set after set. In each set, the most recently used line is first.
///
/// Empty ways contain [`Line::EMPTY`] and are always the last of their set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    ways: usize,
    /// Number of sets minus one. The number of sets is a power of two.
    set_mask: u32,
    lines: Box<[Line]>,
}

impl Cache {
    pub(crate) fn new(shape: CacheShape) -> Self {
        Self {
            ways: shape.ways,
            set_mask: shape.sets - 1,
            lines: vec![Line::EMPTY; shape.sets as usize * shape.ways].into_boxed_slice(),
        }
    }

    #[inline]
    fn first_of_set(&self, line: Line) -> usize {
        (line.0 & self.set_mask) as usize * self.ways
    }

    #[inline]
    fn set(&self, line: Line) -> &[Line] {
        let first = self.first_of_set(line);
        &self.lines[first..first + self.ways]
    }

    #[inline]
    fn set_mut(&mut self, line: Line) -> &mut [Line] {
        let first = self.first_of_set(line);
        &mut self.lines[first..first + self.ways]
    }

    /// If `line` is one of the two most recently used lines of its set, makes it the most recently
    /// used one. Returns whether it is one of the two.
    #[inline]
    pub(crate) fn promote_from_first_two(&mut self, line: Line) -> bool {
        let [first, second, ..] = self.set_mut(line) else {
            return false;
        };
        promote_from_pair(first, second, line)
    }

    /// The cache as [`Pairs`], if its sets have two ways.
    #[inline]
    pub(crate) fn pairs(&mut self) -> Option<Pairs<'_>> {
        (self.ways == 2).then_some(Pairs {
            sets: self.lines.as_chunks_mut().0,
        })
    }

    /// Whether the cache contains `line`. Changes nothing.
    #[inline]
    pub(crate) fn contains(&self, line: Line) -> bool {
        self.set(line).contains(&line)
    }

    /// If the cache contains `line`, makes it the most recently used line of its set. Returns
    /// whether it does.
    #[inline]
    pub(crate) fn promote(&mut self, line: Line) -> bool {
        let set = self.set_mut(line);
        let is_hit = set.contains(&line);
        if is_hit {
            move_to_front(set, line);
        }
        is_hit
    }

    /// Inserts a `line` that the cache does not contain, as the most recently used line of its set.
    /// Returns the evicted line.
    #[inline]
    pub(crate) fn insert(&mut self, line: Line) -> Option<Line> {
        let set = self.set_mut(line);
        let evicted = if let [first, second] = set {
            std::mem::replace(second, std::mem::replace(first, line))
        } else {
            move_to_front(set, line)
        };
        (evicted != Line::EMPTY).then_some(evicted)
    }

    /// Removes `line` if the cache contains it. Returns whether it did.
    #[inline]
    pub(crate) fn remove(&mut self, line: Line) -> bool {
        let set = self.set_mut(line);
        if !set.contains(&line) {
            return false;
        }
        let mut moving = Line::EMPTY;
        for other in set.iter_mut().rev() {
            std::mem::swap(other, &mut moving);
            if moving == line {
                break;
            }
        }
        true
    }
}

/// A cache whose sets have two ways. In each set, the most recently used line is first.
pub(crate) struct Pairs<'a> {
    sets: &'a mut [[Line; 2]],
}

impl Pairs<'_> {
    #[inline(always)]
    fn set_mut(&mut self, line: Line) -> &mut [Line; 2] {
        let index = line.0 as usize & (self.sets.len() - 1);
        &mut self.sets[index]
    }

    /// If the cache contains `line`, makes it the most recently used line of its set. Returns
    /// whether it does.
    #[inline(always)]
    pub(crate) fn promote(&mut self, line: Line) -> bool {
        let [first, second] = self.set_mut(line);
        promote_from_pair(first, second, line)
    }

    /// Inserts a `line` that the cache does not contain, as the most recently used line of its set.
    #[inline(always)]
    pub(crate) fn insert(&mut self, line: Line) {
        let set = self.set_mut(line);
        *set = [line, set[0]];
    }

    /// Removes `line` if the cache contains it.
    #[inline(always)]
    pub(crate) fn remove(&mut self, line: Line) {
        let set = self.set_mut(line);
        if set[0] == line {
            *set = [set[1], Line::EMPTY];
        } else if set[1] == line {
            set[1] = Line::EMPTY;
        }
    }
}

/// If `line` is one of the two lines, makes it the first. Returns whether it is one of them.
///
/// There is no branch, because it would often be mispredicted. If one of the two lines matches, the
/// product of the differences is zero. The exclusive or of `first`, `second` and `line` is then the
/// line that does not match.
#[inline(always)]
fn promote_from_pair(first: &mut Line, second: &mut Line, line: Line) -> bool {
    let differs = u64::from(first.0 ^ line.0) * u64::from(second.0 ^ line.0);
    if differs == 0 {
        second.0 ^= first.0 ^ line.0;
        *first = line;
    }
    differs == 0
}

/// Puts `line` into the first way of a set. The lines before its old way move back by one way. If
/// `line` was absent, all lines move back. Returns the overwritten line, which is `line` itself if
/// it was in the set.
#[inline]
fn move_to_front(set: &mut [Line], line: Line) -> Line {
    let mut moving = line;
    for other in set {
        std::mem::swap(other, &mut moving);
        if moving == line {
            break;
        }
    }
    moving
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_sets_of_two() -> Cache {
        Cache::new(CacheShape { sets: 2, ways: 2 })
    }

    #[test]
    fn two_ways_have_room_for_two_lines_and_the_third_evicts_the_least_recently_used() {
        let mut cache = two_sets_of_two();
        assert_eq!(cache.insert(Line(0)), None);
        assert_eq!(cache.insert(Line(2)), None);
        assert_eq!(cache.insert(Line(1)), None, "odd lines go to the other set");
        assert!(cache.promote(Line(0)), "now line 2 is the older one");
        assert_eq!(cache.insert(Line(4)), Some(Line(2)));
        assert!(cache.contains(Line(0)) && cache.contains(Line(4)) && cache.contains(Line(1)));
        assert!(!cache.contains(Line(2)));
    }

    #[test]
    fn either_of_the_first_two_ways_becomes_the_first_and_no_other() {
        let mut cache = Cache::new(CacheShape { sets: 1, ways: 3 });
        for line in [1, 2, 3] {
            cache.insert(Line(line));
        }
        assert!(cache.promote_from_first_two(Line(3)), "was the first");
        assert!(cache.promote_from_first_two(Line(2)), "was the second");
        assert!(!cache.promote_from_first_two(Line(1)), "is the third");
        assert_eq!(*cache.lines, [Line(2), Line(3), Line(1)]);
    }

    #[test]
    fn a_removed_line_leaves_room_for_one() {
        let mut cache = two_sets_of_two();
        cache.insert(Line(0));
        cache.insert(Line(2));
        assert!(
            cache.remove(Line(2)),
            "the most recent goes, the other moves up"
        );
        assert!(!cache.remove(Line(2)));
        assert_eq!(cache.insert(Line(4)), None);
        assert_eq!(cache.insert(Line(6)), Some(Line(0)));
    }
}
