//! The order in which a walk touches the words of a block.
//!
//! With a stride of s words, a block of n words is a table of n / s rows and s columns. The walk
//! goes down one column after the other and touches every word once. So the stride changes only
//! spatial locality, and the size of the block changes only temporal locality.

pub const WORD_BYTES: usize = 8;

/// Strides that can be measured, in words.
pub const STRIDES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Number of columns in a group, if the stride has that many. It is the number of words in a line
/// of 64 bytes. So the share of accesses that are the first to their line is the same in every
/// measurement.
pub const COLUMNS_TOGETHER: usize = 8;

/// Indices of the words of a block, in the order of the walk.
pub fn order(words: usize, stride_words: usize) -> impl Iterator<Item = usize> {
    (0..stride_words).flat_map(move |column| (column..words).step_by(stride_words))
}

/// Whether a block has at least two rows at a stride.
pub fn fits(words: usize, stride_words: usize) -> bool {
    stride_words == 1 || stride_words * 2 <= words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_stride_touches_every_word_once(
            words in 1_usize..2000,
            stride in 1_usize..300,
        ) {
            let mut touched: Vec<usize> = order(words, stride).collect();
            touched.sort_unstable();
            prop_assert_eq!(touched, (0..words).collect::<Vec<_>>());
        }
    }
}
