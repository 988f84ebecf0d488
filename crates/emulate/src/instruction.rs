//! Recognizes the x86-64 instructions that an observer needs, by their bytes.

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Calls a function: stores the return address.
    Call,
    /// Returns from a function: loads the return address.
    Return,
    /// Returns from an interrupt.
    InterruptReturn,
    /// Writes CR3 or CR4. The processor then drops its address translations.
    TranslationControl,
    /// Drops the translation of one page.
    PageInvalidation,
    /// A long no-operation with a displacement that no compiler emits. The next instruction loads
    /// from the page that contains the guest's request.
    Hypercall,
    /// Any other.
    Other,
}

/// The bytes of [`Instruction::Hypercall`].
pub const HYPERCALL: [u8; 7] = [0x0f, 0x1f, 0x80, 0x45, 0x4d, 0x55, 0x31];

impl Instruction {
    /// The instruction that begins with these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes == HYPERCALL {
            return Self::Hypercall;
        }
        let is_prefix =
            |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x3e | 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f);
        let prefixes = bytes.iter().take_while(|byte| is_prefix(byte)).count();
        // Bits 3 to 5 of the byte after the opcode extend the opcode or name a register.
        let middle = |byte: u8| byte >> 3 & 7;
        match bytes[prefixes..] {
            [0xe8, ..] => Self::Call,
            [0xff, operand, ..] if middle(operand) == 2 => Self::Call,
            [0xc3 | 0xc2, ..] => Self::Return,
            [0xcf, ..] => Self::InterruptReturn,
            [0x0f, 0x22, operand, ..] if matches!(middle(operand), 3 | 4) => {
                Self::TranslationControl
            }
            [0x0f, 0x01, operand, ..] if middle(operand) == 7 && operand < 0xc0 => {
                Self::PageInvalidation
            }
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_recognized_behind_prefixes() {
        use Instruction::*;
        for (bytes, expected) in [
            (&[0xe8, 0, 0, 0, 0][..], Call),
            (&[0xff, 0xd0], Call),
            (&[0x41, 0xff, 0xd4], Call),
            (&[0xff, 0x15, 1, 2, 3, 4], Call),
            (&[0xff, 0xe0], Other),
            (&[0xc3], Return),
            (&[0xf3, 0xc3], Return),
            (&[0x48, 0xcf], InterruptReturn),
            (&[0x0f, 0x22, 0xd8], TranslationControl),
            (&[0x41, 0x0f, 0x22, 0xe0], TranslationControl),
            (&[0x0f, 0x22, 0xc0], Other),
            (&[0x0f, 0x01, 0x38], PageInvalidation),
            (&[0x0f, 0x01, 0xf8], Other),
            (&HYPERCALL, Hypercall),
            (&[0x0f, 0x1f, 0x80, 0, 0, 0, 0], Other),
            (&[], Other),
        ] {
            assert_eq!(Instruction::of(bytes), expected, "{bytes:x?}");
        }
    }
}
