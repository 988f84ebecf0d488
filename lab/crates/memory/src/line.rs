//! Cache lines by number.

/// A cache line: its address divided by the size of a line.
///
/// 32-bit numbers of 64-byte lines cover 256 GiB. The number `u32::MAX` is reserved. It marks an
/// empty way inside the caches and must not be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(pub u32);

impl Line {
    /// The content of an empty way.
    pub(crate) const EMPTY: Self = Self(u32::MAX);
}
