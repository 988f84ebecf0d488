//! Recognizes the x86-64 instructions that an observer needs, by their bytes.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};

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
    /// Halts the processor until an interrupt.
    Halt,
    /// A long no-operation with a displacement that no compiler emits. The next instruction loads
    /// from the page that contains the guest's request.
    Hypercall,
    /// Any other.
    Other,
}

/// The bytes of [`Instruction::Hypercall`].
const HYPERCALL: [u8; 7] = [0x0f, 0x1f, 0x80, 0x45, 0x4d, 0x55, 0x31];

/// The displacement of the hypercall's mark.
const MARK: u32 = u32::from_le_bytes([HYPERCALL[3], HYPERCALL[4], HYPERCALL[5], HYPERCALL[6]]);

/// Decodes the instruction at an address of 64-bit code.
#[must_use]
pub fn decode(bytes: &[u8], address: u64) -> iced_x86::Instruction {
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode()
}

impl Instruction {
    /// The effect of a decoded instruction.
    #[must_use]
    pub fn of(decoded: &iced_x86::Instruction) -> Self {
        let controls_translation =
            || matches!(decoded.op0_register(), Register::CR3 | Register::CR4);
        match decoded.mnemonic() {
            Mnemonic::Call => Self::Call,
            Mnemonic::Ret => Self::Return,
            Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Self::InterruptReturn,
            Mnemonic::Mov if controls_translation() => Self::TranslationControl,
            Mnemonic::Invlpg => Self::PageInvalidation,
            Mnemonic::Hlt => Self::Halt,
            Mnemonic::Nop if decoded.memory_displacement32() == MARK => Self::Hypercall,
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
            (&[0xf4], Halt),
            (&HYPERCALL, Hypercall),
            (&[0x0f, 0x1f, 0x80, 0, 0, 0, 0], Other),
            (&[], Other),
        ] {
            assert_eq!(Instruction::of(&decode(bytes, 0)), expected, "{bytes:x?}");
        }
    }
}
