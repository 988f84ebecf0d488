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

    /// The line of the byte at `address`, with lines of `line_bytes` bytes. `None` if `line_bytes`
    /// is zero, or if the number of the line needs more than 32 bits.
    #[must_use]
    pub fn of_address(address: u64, line_bytes: u32) -> Option<Self> {
        let number = address.checked_div(u64::from(line_bytes))?;
        let line = Self(u32::try_from(number).ok()?);
        (line != Self::EMPTY).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_address_divided_by_the_line_size() {
        assert_eq!(Line::of_address(0, 64), Some(Line(0)));
        assert_eq!(Line::of_address(63, 64), Some(Line(0)));
        assert_eq!(Line::of_address(64, 64), Some(Line(1)));
        assert_eq!(Line::of_address(4096, 32), Some(Line(128)));
    }

    #[test]
    fn addresses_that_32_bits_cannot_number_have_no_line() {
        let last = u64::from(u32::MAX) * 64 - 1;
        assert_eq!(Line::of_address(last, 64), Some(Line(u32::MAX - 1)));
        assert_eq!(Line::of_address(last + 1, 64), None, "the reserved number");
        assert_eq!(Line::of_address(u64::MAX, 64), None);
        assert_eq!(Line::of_address(5, 0), None);
    }
}
