//! A set-associative cache of 16 ways whose lines do not move.
//!
//! In levels below the first, most hits are to lines that were not used recently. Moving such a
//! line to the front of its set would cost more than finding it. So a line stays in its way until
//! it is evicted, and only the order of the ways changes. The order is one word of 16 numbers of
//! four bits each. Replacing the least recently used line rotates that word. A search first
//! compares hashes of eight bits, eight hashes in a word. It then compares only the lines whose
//! hash matches. In one of 16 searches for an absent line, the hash of another line matches. The
//! orders and hashes of a cache of 1 MiB use 24 KiB, which fits into the first-level cache of the
//! machine that runs the simulation.

use crate::Line;

/// Number of ways of a set. A word has this many four-bit numbers.
pub(crate) const WAYS: usize = 16;

/// Bits of one number in an order.
const WAY_BITS: u32 = 4;
/// All bits of one number.
const WAY_MASK: u64 = 0xF;
/// A word of an order in which each number is 1.
const WAY_ONES: u64 = 0x1111_1111_1111_1111;
/// The initial order: every way once. Any permutation would do.
const FIRST_ORDER: u64 = 0xFEDC_BA98_7654_3210;

const HASH_BITS: u32 = 8;
/// A word of hashes in which each hash is 1.
const HASH_ONES: u64 = 0x0101_0101_0101_0101;

/// The data of a set that searches and replacements use.
#[derive(Clone, Copy, Debug)]
struct Set {
    /// Hashes of the lines. Even ways are in the first word, odd ways in the second.
    hashes: [u64; 2],
    /// The numbers of the ways. The most recently used way is in the lowest bits.
    order: u64,
}

/// The lines of a set, by way. They are in one cache line of the machine that runs the simulation.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Lines([Line; WAYS]);

/// The lines of one cache, and for each set the order of its ways.
///
/// Ways with [`Line::EMPTY`] are always the least recently used of their set.
#[derive(Clone, Debug)]
pub(crate) struct OrderedCache {
    /// Number of sets minus one. The number of sets is a power of two.
    set_mask: u32,
    sets: Box<[Set]>,
    lines: Box<[Lines]>,
}

impl OrderedCache {
    /// An empty cache of `sets` sets. The number must be a power of two.
    pub(crate) fn new(sets: u32) -> Self {
        let empty = Set {
            hashes: [0; 2],
            order: FIRST_ORDER,
        };
        Self {
            set_mask: sets - 1,
            sets: vec![empty; sets as usize].into_boxed_slice(),
            lines: vec![Lines([Line::EMPTY; WAYS]); sets as usize].into_boxed_slice(),
        }
    }

    #[inline]
    fn index(&self, line: Line) -> usize {
        (line.0 & self.set_mask) as usize
    }

    /// The way of `line` in the set at `index`.
    #[inline]
    fn way(&self, index: usize, line: Line) -> Option<u32> {
        let wanted = hash(line) * HASH_ONES;
        let [even, odd] = self.sets[index]
            .hashes
            .map(|word| zero_hashes(word ^ wanted));
        // The lowest bit of a byte marks an even way, and the next bit marks an odd way.
        let mut marks = even | odd << 1;
        while marks != 0 {
            let bit = marks.trailing_zeros();
            let way = bit / HASH_BITS * 2 + bit % 2;
            if self.lines[index].0[way as usize] == line {
                return Some(way);
            }
            marks &= marks - 1;
        }
        None
    }

    /// Whether the cache contains `line`. Changes nothing.
    #[inline]
    pub(crate) fn contains(&self, line: Line) -> bool {
        self.way(self.index(line), line).is_some()
    }

    /// If the cache contains `line`, makes it the most recently used line of its set. Returns
    /// whether the cache contains `line`.
    #[inline]
    pub(crate) fn promote(&mut self, line: Line) -> bool {
        let index = self.index(line);
        let Some(way) = self.way(index, line) else {
            return false;
        };
        let order = &mut self.sets[index].order;
        let (newer, older) = around(*order, way);
        *order = *order & older | (*order & newer) << WAY_BITS | u64::from(way);
        true
    }

    /// Inserts a `line` that the cache does not contain, as the most recently used line of its set.
    /// Returns the evicted line.
    #[inline]
    pub(crate) fn insert(&mut self, line: Line) -> Option<Line> {
        let index = self.index(line);
        let set = &mut self.sets[index];
        // The least recently used way becomes the most recently used way.
        set.order = set.order.rotate_left(WAY_BITS);
        let way = (set.order & WAY_MASK) as usize;
        let word = &mut set.hashes[way % 2];
        let shift = way / 2 * HASH_BITS as usize;
        *word = *word & !(0xFF << shift) | hash(line) << shift;
        let evicted = std::mem::replace(&mut self.lines[index].0[way], line);
        (evicted != Line::EMPTY).then_some(evicted)
    }

    /// Removes `line` if the cache contains it. Returns whether it did.
    #[inline]
    pub(crate) fn remove(&mut self, line: Line) -> bool {
        let index = self.index(line);
        let Some(way) = self.way(index, line) else {
            return false;
        };
        self.lines[index].0[way as usize] = Line::EMPTY;
        let order = &mut self.sets[index].order;
        let (newer, older) = around(*order, way);
        *order =
            *order & newer | (*order & older) >> WAY_BITS | u64::from(way).rotate_right(WAY_BITS);
        true
    }
}

/// A hash of eight bits: the high bits of the line's number times a factor. The factor is 2^32
/// divided by the golden ratio. All bits of the number affect the hash.
#[inline]
fn hash(line: Line) -> u64 {
    u64::from(line.0.wrapping_mul(0x9E37_79B1) >> (u32::BITS - HASH_BITS))
}

/// Marks every hash whose value is 0. The mark is the lowest bit of the hash. A hash with the value
/// 1 directly above a marked hash may be marked too.
#[inline]
fn zero_hashes(word: u64) -> u64 {
    // Subtracting one from a zero sets its high bit, and borrows from the hash above.
    (word.wrapping_sub(HASH_ONES) & !word) >> (HASH_BITS - 1) & HASH_ONES
}

/// Two masks of `order`: the ways used more recently than `way`, and those used less recently.
#[inline]
fn around(order: u64, way: u32) -> (u64, u64) {
    // For the same reason as in `zero_hashes`, only the lowest mark is reliable. It marks `way`.
    let differing = order ^ (WAY_ONES * u64::from(way));
    let zeros = (differing.wrapping_sub(WAY_ONES) & !differing) >> (WAY_BITS - 1) & WAY_ONES;
    let newer = (zeros & zeros.wrapping_neg()) - 1;
    (newer, !(newer << WAY_BITS | WAY_MASK))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the only set, the most recently used first.
    fn in_order(cache: &OrderedCache) -> Vec<Line> {
        let ways = (0..WAYS as u32).map(|place| cache.sets[0].order >> (place * WAY_BITS));
        ways.map(|way| cache.lines[0].0[(way & WAY_MASK) as usize])
            .filter(|line| *line != Line::EMPTY)
            .collect()
    }

    fn one_set_of(lines: impl IntoIterator<Item = u32>) -> OrderedCache {
        let mut cache = OrderedCache::new(1);
        for line in lines {
            assert_eq!(cache.insert(Line(line)), None);
        }
        cache
    }

    #[test]
    fn the_seventeenth_line_evicts_the_least_recently_used() {
        let mut cache = one_set_of(0..16);
        assert!(cache.promote(Line(0)), "now line 1 is the oldest");
        assert_eq!(cache.insert(Line(16)), Some(Line(1)));
        assert_eq!(cache.insert(Line(17)), Some(Line(2)));
        assert!(!cache.contains(Line(1)) && cache.contains(Line(0)));
    }

    #[test]
    fn a_promoted_line_passes_those_used_since_and_no_other() {
        let mut cache = one_set_of(0..5);
        assert!(cache.promote(Line(2)));
        assert_eq!(in_order(&cache), [2, 4, 3, 1, 0].map(Line));
        assert!(!cache.promote(Line(9)));
    }

    #[test]
    fn a_removed_line_leaves_room_for_one() {
        let mut cache = one_set_of(0..16);
        assert!(cache.remove(Line(7)));
        assert!(!cache.remove(Line(7)));
        assert_eq!(cache.insert(Line(16)), None);
        assert_eq!(cache.insert(Line(17)), Some(Line(0)));
    }

    #[test]
    fn lines_of_equal_hash_are_distinct() {
        let wanted = hash(Line(1));
        let mut equal = (2..).map(Line).filter(|line| hash(*line) == wanted);
        let others: Vec<Line> = equal.by_ref().take(3).collect();
        let mut cache = one_set_of(others.iter().map(|line| line.0));
        assert!(!cache.contains(Line(1)));
        assert!(cache.promote(others[0]));
        assert_eq!(in_order(&cache), [others[0], others[2], others[1]]);
    }
}
