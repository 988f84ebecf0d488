//! The instructions of a block that did not run.

/// The address of each instruction of a block, and the number of its accesses that are not reported.
#[derive(Clone, Debug)]
pub struct Extent(Box<[(u64, u32)]>);

/// What a processor did not run of a block that it left before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Instructions.
    pub instructions: u64,
    /// Their accesses that are not reported.
    pub repeated: u64,
}

impl Rest {
    fn of(instructions: &[(u64, u32)]) -> Self {
        let repeated = instructions
            .iter()
            .map(|(_, repeated)| u64::from(*repeated));
        Self {
            instructions: instructions.len() as u64,
            repeated: repeated.sum(),
        }
    }
}

impl Extent {
    /// The addresses of a block's instructions in order, each with its number of accesses that are not
    /// reported.
    pub fn new(instructions: impl IntoIterator<Item = (u64, u32)>) -> Self {
        Self(instructions.into_iter().collect())
    }

    /// The rest of the block from the instruction at `address`, or `None` if none begins there.
    #[must_use]
    pub fn from(&self, address: u64) -> Option<Rest> {
        let first = self.0.iter().position(|(begin, _)| *begin == address)?;
        Some(Rest::of(&self.0[first..]))
    }

    /// The rest of the block after the instruction with which `other` begins, or `None` if the block
    /// does not have it.
    #[must_use]
    pub fn after(&self, other: &Self) -> Option<Rest> {
        let (address, _) = other.0.first()?;
        let first = self.0.iter().position(|(begin, _)| begin == address)?;
        Some(Rest::of(&self.0[first + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_begins_at_an_instruction() {
        let extent = Extent::new([(0x1000, 1), (0x1002, 0), (0x1007, 2), (0x1008, 1)]);
        let rest = |instructions, repeated| {
            Some(Rest {
                instructions,
                repeated,
            })
        };
        assert_eq!(extent.from(0x1000), rest(4, 4));
        assert_eq!(extent.from(0x1007), rest(2, 3));
        assert_eq!(extent.from(0x1003), None);
        assert_eq!(extent.from(0x1009), None);
        let after = |address| extent.after(&Extent::new([(address, 0)]));
        assert_eq!(after(0x1007), rest(1, 1));
        assert_eq!(after(0x1008), rest(0, 0));
        assert_eq!(after(0x1009), None);
    }
}
