//! The timed loops.
//!
//! Each operation is compiled once for each stride, so that the compiler needs no multiplication
//! and no bounds checks. At stride 1 the loops use the widest vectors of the processor, detected at
//! run time. At other strides they use no vectors, because a gather from several lines is a
//! different kind of access. `black_box` receives the blocks before each walk, so that the compiler
//! cannot merge walks.

use std::hint::black_box;
use std::ops::Range;

use clap::ValueEnum;
use multiversion::multiversion;
use schemars::JsonSchema;
use serde::Serialize;

use super::pattern::{COLUMNS_TOGETHER, WORD_BYTES};

/// An operation on every word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Read it and add it to a sum.
    Load,
    /// Write a value to it.
    Store,
    /// Read it from one half of the working set and write it to the other.
    Copy,
    /// STREAM's triad, for comparison with other tools: a = b + 3 c in double precision, where a, b
    /// and c are thirds of the working set. It is measured at stride 1 only.
    Triad,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Load, Self::Store, Self::Copy, Self::Triad];

    /// Its name in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::Copy => "copy",
            Self::Triad => "triad",
        }
    }

    /// Number of parts into which the operation divides the working set.
    pub const fn parts(self) -> usize {
        match self {
            Self::Load | Self::Store => 1,
            Self::Copy => 2,
            Self::Triad => 3,
        }
    }

    /// Whether the operation is measured at a stride.
    pub const fn has_stride(self, stride_words: usize) -> bool {
        stride_words == 1 || !matches!(self, Self::Triad)
    }
}

/// Number of words between the parts of a working set. If the distance between parts were a power
/// of two, the low bits of their addresses would be equal, and loads would wait for unrelated
/// stores ("4K aliasing", Intel 64 and IA-32 Architectures Optimization Reference Manual).
pub const GAP_WORDS: usize = 272;

/// The factor of the triad, as in STREAM.
const SCALE: f64 = 3.0;

/// Walks over some columns of a block; see [`super::pattern`].
pub trait Walk {
    /// Walks `columns` of a block with this stride.
    fn walk<const STRIDE: usize>(&mut self, columns: Range<usize>);

    /// The same as `walk`, with a stride that is known only at run time. Does nothing if the stride
    /// is not in [`super::STRIDES`].
    #[inline(always)]
    fn walk_stride(&mut self, stride_words: usize, columns: Range<usize>) {
        match stride_words {
            1 => self.walk::<1>(columns),
            2 => self.walk::<2>(columns),
            4 => self.walk::<4>(columns),
            8 => self.walk::<8>(columns),
            16 => self.walk::<16>(columns),
            32 => self.walk::<32>(columns),
            64 => self.walk::<64>(columns),
            128 => self.walk::<128>(columns),
            256 => self.walk::<256>(columns),
            _ => {}
        }
    }
}

/// [`Operation::Load`].
pub struct Load<'a> {
    /// The block.
    pub words: &'a [u64],
    /// Sum of the words read.
    pub sum: u64,
}

impl Walk for Load<'_> {
    #[inline(always)]
    fn walk<const STRIDE: usize>(&mut self, columns: Range<usize>) {
        let (rows, _) = black_box(self.words).as_chunks::<STRIDE>();
        let mut sum = self.sum;
        for column in columns {
            for row in rows {
                sum = sum.wrapping_add(row[column % STRIDE]);
            }
        }
        self.sum = sum;
    }
}

/// [`Operation::Store`].
pub struct Store<'a> {
    /// The block.
    pub words: &'a mut [u64],
    /// The value to write.
    pub value: u64,
}

impl Walk for Store<'_> {
    #[inline(always)]
    fn walk<const STRIDE: usize>(&mut self, columns: Range<usize>) {
        let (rows, _) = black_box(&mut *self.words).as_chunks_mut::<STRIDE>();
        for column in columns {
            for row in &mut *rows {
                row[column % STRIDE] = self.value;
            }
        }
    }
}

/// [`Operation::Copy`].
pub struct Copy<'a> {
    /// The block to read.
    pub from: &'a [u64],
    /// The block to write, of the same size.
    pub to: &'a mut [u64],
    /// A number to add to every word. It is zero, but the compiler does not know that. For a plain
    /// copy the compiler would call `memcpy`, which treats large blocks differently, so strides
    /// would not be comparable.
    pub add: u64,
}

impl Walk for Copy<'_> {
    #[inline(always)]
    fn walk<const STRIDE: usize>(&mut self, columns: Range<usize>) {
        let (from, _) = black_box(self.from).as_chunks::<STRIDE>();
        let (to, _) = black_box(&mut *self.to).as_chunks_mut::<STRIDE>();
        for column in columns {
            let column = column % STRIDE;
            for (source, target) in from.iter().zip(&mut *to) {
                target[column] = source[column].wrapping_add(self.add);
            }
        }
    }
}

/// [`Operation::Triad`], on the bits of doubles.
pub struct Triad<'a> {
    /// The part to write.
    pub sum: &'a mut [u64],
    /// The part to add.
    pub plain: &'a [u64],
    /// The part to multiply by three and add.
    pub scaled: &'a [u64],
}

impl Walk for Triad<'_> {
    #[inline(always)]
    fn walk<const STRIDE: usize>(&mut self, _: Range<usize>) {
        let plain = black_box(self.plain);
        let scaled = black_box(self.scaled);
        let sum = black_box(&mut *self.sum);
        for ((sum, plain), scaled) in sum.iter_mut().zip(plain).zip(scaled) {
            *sum = (f64::from_bits(*plain) + SCALE * f64::from_bits(*scaled)).to_bits();
        }
    }
}

/// The working set of an operation, cut from a buffer.
pub struct Parts {
    words: usize,
    parts: usize,
}

impl Parts {
    /// The parts of a working set of `bytes`.
    pub const fn of(operation: Operation, bytes: usize) -> Self {
        let parts = operation.parts();
        Self {
            words: bytes / WORD_BYTES / parts,
            parts,
        }
    }

    /// Words in each part.
    pub const fn words(&self) -> usize {
        self.words
    }

    /// Number of words in all parts. Bandwidth is computed from it.
    pub const fn words_moved(&self) -> usize {
        self.words * self.parts
    }

    /// Words of a buffer for the parts and the gaps between them.
    pub const fn buffer_words(&self) -> usize {
        self.words * self.parts + GAP_WORDS * (self.parts - 1)
    }
}

/// Walks groups of columns. Group numbers wrap around at the end of the block. Returns a value that
/// depends on the words read, so that the compiler does not drop the reads.
///
/// The buffer must have [`Parts::buffer_words`].
pub fn run(
    operation: Operation,
    buffer: &mut [u64],
    bytes: usize,
    stride_words: usize,
    groups: Range<usize>,
) -> u64 {
    match stride_words {
        1 => contiguous(operation, buffer, bytes, groups),
        _ => walk_all(operation, buffer, bytes, stride_words, groups),
    }
}

/// The same as `walk_all` at stride 1, but compiled for each width of vectors.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq", "x86_64+avx2+fma"))]
fn contiguous(operation: Operation, buffer: &mut [u64], bytes: usize, groups: Range<usize>) -> u64 {
    walk_all(operation, buffer, bytes, 1, groups)
}

#[inline(always)]
fn walk_all(
    operation: Operation,
    buffer: &mut [u64],
    bytes: usize,
    stride_words: usize,
    groups: Range<usize>,
) -> u64 {
    let parts = Parts::of(operation, bytes);
    let words = parts.words();
    let buffer = &mut buffer[..parts.buffer_words()];
    match operation {
        Operation::Load => {
            let mut load = Load {
                words: buffer,
                sum: 0,
            };
            walk_groups(&mut load, stride_words, groups);
            black_box(load.sum)
        }
        Operation::Store => {
            let value = black_box(groups.start as u64);
            let mut store = Store {
                words: buffer,
                value,
            };
            walk_groups(&mut store, stride_words, groups);
            value
        }
        Operation::Copy => {
            let (from, rest) = buffer.split_at_mut(words);
            let mut copy = Copy {
                from,
                to: &mut rest[GAP_WORDS..],
                add: black_box(0),
            };
            walk_groups(&mut copy, stride_words, groups);
            0
        }
        Operation::Triad => {
            let (sum, rest) = buffer.split_at_mut(words);
            let (plain, rest) = rest[GAP_WORDS..].split_at_mut(words);
            let mut triad = Triad {
                sum,
                plain,
                scaled: &rest[GAP_WORDS..],
            };
            walk_groups(&mut triad, stride_words, groups);
            0
        }
    }
}

/// Number of groups of columns at a stride.
pub fn groups_of(stride_words: usize) -> usize {
    stride_words.div_ceil(COLUMNS_TOGETHER)
}

#[inline(always)]
fn walk_groups(walk: &mut impl Walk, stride_words: usize, groups: Range<usize>) {
    let together = stride_words.min(COLUMNS_TOGETHER);
    let all = groups_of(stride_words);
    for group in groups {
        let first = group % all * together;
        walk.walk_stride(stride_words, first..first + together);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{STRIDES, fits};
    use super::*;

    const BYTES: usize = 16 << 10;

    fn buffer(operation: Operation) -> Vec<u64> {
        (0..Parts::of(operation, BYTES).buffer_words() as u64).collect()
    }

    #[test]
    fn a_full_walk_loads_every_word_once_at_every_stride() {
        for stride in STRIDES {
            let mut words = buffer(Operation::Load);
            let expected: u64 = words.iter().sum();
            let sum = run(
                Operation::Load,
                &mut words,
                BYTES,
                stride,
                0..groups_of(stride),
            );
            assert_eq!(sum, expected, "stride {stride}");
        }
    }

    #[test]
    fn a_full_walk_stores_to_every_word() {
        for stride in STRIDES {
            let mut words = buffer(Operation::Store);
            let groups = groups_of(stride);
            run(
                Operation::Store,
                &mut words,
                BYTES,
                stride,
                groups..2 * groups,
            );
            assert!(
                words.iter().all(|&word| word == groups as u64),
                "stride {stride}"
            );
        }
    }

    #[test]
    fn a_full_walk_copies_one_part_to_the_other_and_not_to_the_gap() {
        for stride in STRIDES
            .into_iter()
            .filter(|&stride| fits(BYTES / 16, stride))
        {
            let mut words = buffer(Operation::Copy);
            let before = words.clone();
            run(
                Operation::Copy,
                &mut words,
                BYTES,
                stride,
                0..groups_of(stride),
            );
            let half = BYTES / 16;
            assert_eq!(words[..half], before[..half]);
            assert_eq!(
                words[half..half + GAP_WORDS],
                before[half..half + GAP_WORDS]
            );
            assert_eq!(words[half + GAP_WORDS..], before[..half], "stride {stride}");
        }
    }

    #[test]
    fn the_triad_adds_the_plain_part_and_three_times_the_scaled_one() {
        let mut words = vec![2.0_f64.to_bits(); Parts::of(Operation::Triad, BYTES).buffer_words()];
        run(Operation::Triad, &mut words, BYTES, 1, 0..1);
        assert_eq!(f64::from_bits(words[0]), 8.0);
        assert_eq!(f64::from_bits(words[BYTES / 24 - 1]), 8.0);
    }
}
