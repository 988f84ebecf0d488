//! The order in which a walk touches the words of a block.
//!
//! A block of n words and a stride of s words is a table of n / s rows and s columns; the walk goes
//! down one column after the other. So every word is touched once whatever the stride, which sets
//! spatial locality alone, and the block's size sets temporal locality alone.

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

/// Strides that can be measured, in words.
pub const STRIDES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Columns that are walked together, when there are as many: the words of a line of 64 bytes, so
/// that every measurement has the first touch of a line and its later ones in equal shares.
pub const COLUMNS_TOGETHER: usize = 8;

/// Indices of the words of a block of `words`, in the order the walk touches them.
pub fn order(words: usize, stride_words: usize) -> impl Iterator<Item = usize> {
    (0..stride_words).flat_map(move |column| (column..words).step_by(stride_words))
}

/// Whether a stride is one for this block: each column has two words at least.
#[must_use]
pub fn fits(words: usize, stride_words: usize) -> bool {
    stride_words == 1 || stride_words * 2 <= words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_word_is_touched_once_whatever_the_stride(
            words in 1_usize..2000,
            stride in 1_usize..300,
        ) {
            let mut touched: Vec<usize> = order(words, stride).collect();
            touched.sort_unstable();
            prop_assert_eq!(touched, (0..words).collect::<Vec<_>>());
        }
    }
}
