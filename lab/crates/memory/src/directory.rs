//! What the processors know of each line.

use crate::coherent::{MAX_PRIVATE_SIZES, MAX_PROCESSORS};

/// No processor.
pub(crate) const NOBODY: u8 = u8::MAX;

/// The state of a line. Bits of a mask are processors, unless its name ends in `sizes`. With this alignment,
/// no state is on two lines of the host's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct LineState {
    /// By size: the processor with the exclusive, modified or owned copy, or [`NOBODY`]. It may have
    /// evicted the line since.
    pub(crate) owner: [u8; MAX_PRIVATE_SIZES],
    /// By size: the processors that lost their copy to a write and have not accessed the line since.
    pub(crate) lost: [u8; MAX_PRIVATE_SIZES],
    /// By processor: the words that were written since it lost its copy.
    pub(crate) written: [u8; MAX_PROCESSORS],
    /// Sizes in which the owner's copy is modified.
    pub(crate) modified_sizes: u8,
    /// Sizes in which the owner's copy is modified and others have copies of it (state O of MOESI).
    pub(crate) owned_sizes: u8,
    /// Processors that may have a copy in some size. All that have one are in the mask.
    pub(crate) holders: u8,
    /// Processors that have accessed the line.
    pub(crate) seen: u8,
    /// Processors that lost their copy to a device.
    pub(crate) lost_to_device: u8,
}

impl LineState {
    /// That of a line which was never accessed.
    pub(crate) const NEW: Self = Self {
        owner: [NOBODY; MAX_PRIVATE_SIZES],
        lost: [0; MAX_PRIVATE_SIZES],
        written: [0; MAX_PROCESSORS],
        modified_sizes: 0,
        owned_sizes: 0,
        holders: 0,
        seen: 0,
        lost_to_device: 0,
    };

    /// The processors that lost a copy in some size.
    pub(crate) fn losers(&self) -> u8 {
        self.lost.iter().fold(0, |all, mask| all | mask)
    }

    /// Some processor or device wrote these words.
    pub(crate) fn record_words(&mut self, words: u8) {
        for loser in bits(self.losers()) {
            self.written[loser] |= words;
        }
    }

    /// These processors lost their copy in some size, which [`lost`](Self::lost) lists.
    pub(crate) fn begin_loss(&mut self, losers: u8, to_device: bool) {
        for loser in bits(losers) {
            self.written[loser] = 0;
        }
        if to_device {
            self.lost_to_device |= losers;
        } else {
            self.lost_to_device &= !losers;
        }
    }

    /// The processor accesses the line: it has a copy in every size.
    pub(crate) fn arrive(&mut self, processor: usize) {
        let own = 1 << processor;
        self.lost.iter_mut().for_each(|mask| *mask &= !own);
        self.lost_to_device &= !own;
        self.seen |= own;
        self.holders |= own;
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mask: u8) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (bit < 8).then_some(bit)
    })
}
