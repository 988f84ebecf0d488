//! An assembler of the BPF instructions (RFC 9669) that the programs here need.

use std::collections::HashMap;
use std::io;

use super::{BpfError, Kind, License, Numbers, Program};

/// The kernel's function that looks up an element of a map (linux/bpf.h, `bpf_func_id`).
const MAP_LOOKUP: i32 = 1;

/// The kernel's function that reads the monotonic clock, in nanoseconds.
pub const TIME_NS: i32 = 5;

/// Maximum number of clock readings of a program that waits. They take about 100 us.
pub const MAX_CLOCK_READINGS: i32 = 4096;

/// A register. R0 has the result of a call or program. R1 to R5 have arguments. Calls do not change
/// R6 to R9. R10 is the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The size of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Byte,
    /// Two bytes.
    Half,
    /// Four bytes.
    Word,
    /// Eight bytes.
    Double,
}

/// The condition of a jump. Comparisons are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Left equals right.
    Equal,
    /// Left differs from right.
    NotEqual,
    /// Left is above right.
    Above,
    /// Left is below right.
    Below,
    /// Left equals right or is above it.
    AtLeast,
}

/// A program under construction, with jumps to labels.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    instructions: Vec<u64>,
    labels: HashMap<&'static str, usize>,
    jumps: Vec<(usize, &'static str)>,
}

impl Width {
    /// The size bits of an opcode (RFC 9669, section 5).
    const fn bits(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

impl Condition {
    /// The code bits of a jump (RFC 9669, section 4.3).
    const fn bits(self) -> u8 {
        match self {
            Self::Equal => 0x10,
            Self::Above => 0x20,
            Self::AtLeast => 0x30,
            Self::NotEqual => 0x50,
            Self::Below => 0xa0,
        }
    }
}

impl Assembler {
    /// Copies a register to another.
    pub fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(0xbf, to, from, 0, 0)
    }

    pub fn set(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(0xb7, to, Register::R0, 0, value)
    }

    pub fn add(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(0x07, to, Register::R0, 0, value)
    }

    /// Adds a register to another.
    pub fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(0x0f, to, from, 0, 0)
    }

    /// Subtracts a register from another.
    pub fn subtract_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(0x1f, to, from, 0, 0)
    }

    /// Clears all bits of a register except `bits`.
    pub fn and(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(0x57, to, Register::R0, 0, bits)
    }

    pub fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(0x77, to, Register::R0, 0, bits)
    }

    /// Converts the low 16 bits of a register from network byte order to the machine's, and clears
    /// the other bits.
    pub fn from_network_16(&mut self, to: Register) -> &mut Self {
        self.push(0xdc, to, Register::R0, 0, 16)
    }

    /// Loads memory at `from` plus `offset` into a register.
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(0x61 | width.bits(), to, from, offset, 0)
    }

    /// Stores a register to memory at `to` plus `offset`.
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(0x63 | width.bits(), to, from, offset, 0)
    }

    /// Stores a number to memory at `to` plus `offset`.
    pub fn store_number(
        &mut self,
        width: Width,
        to: Register,
        offset: i16,
        value: i32,
    ) -> &mut Self {
        self.push(0x62 | width.bits(), to, Register::R0, offset, value)
    }

    /// Adds a register to eight bytes of memory in one atomic operation.
    pub fn add_atomically(&mut self, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(0xdb, to, from, offset, 0)
    }

    /// Loads the address of the map that has this descriptor in this process.
    pub fn map(&mut self, to: Register, descriptor: i32) -> &mut Self {
        // If the source register is 1, the number is a map's descriptor (BPF_PSEUDO_MAP_FD). The
        // instruction uses two slots.
        self.push(0x18, to, Register::R1, 0, descriptor);
        self.instructions.push(0);
        self
    }

    /// Jumps if the condition is true for a register and a number.
    pub fn jump_if(
        &mut self,
        left: Register,
        condition: Condition,
        right: i32,
        label: &'static str,
    ) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x05 | condition.bits(), left, Register::R0, 0, right)
    }

    /// Jumps if the condition is true for two registers.
    pub fn jump_if_register(
        &mut self,
        left: Register,
        condition: Condition,
        right: Register,
        label: &'static str,
    ) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x0d | condition.bits(), left, right, 0, 0)
    }

    /// Calls a helper of the kernel by its number (linux/bpf.h, `bpf_func_id`).
    pub fn call(&mut self, helper: i32) -> &mut Self {
        self.push(0x85, Register::R0, Register::R0, 0, helper)
    }

    /// Ends the program with the result in R0.
    pub fn exit(&mut self) -> &mut Self {
        self.push(0x95, Register::R0, Register::R0, 0, 0)
    }

    /// Labels the next instruction.
    pub fn label(&mut self, name: &'static str) -> &mut Self {
        self.labels.insert(name, self.instructions.len());
        self
    }

    /// Loads the address of `numbers` into R0. Jumps to `otherwise` if the map has no element.
    pub fn find_numbers(&mut self, numbers: &Numbers, otherwise: &'static str) -> &mut Self {
        self.store_number(Width::Word, Register::R10, -4, 0)
            .map(Register::R1, numbers.descriptor())
            .copy(Register::R2, Register::R10)
            .add(Register::R2, -4)
            .call(MAP_LOOKUP)
            .jump_if(Register::R0, Condition::Equal, 0, otherwise)
    }

    /// Loads the program.
    ///
    /// # Errors
    /// A jump has no target, or the kernel refuses the program.
    pub fn load_as(&self, kind: Kind, license: License) -> Result<Program, BpfError> {
        let instructions = self.finish().ok_or(BpfError {
            action: "assemble a program",
            source: io::ErrorKind::InvalidInput.into(),
            log: String::new(),
        })?;
        Program::load(kind, &instructions, license)
    }

    /// The instructions with resolved jumps. `None` if a label is missing or too far away.
    pub fn finish(&self) -> Option<Vec<u64>> {
        let mut instructions = self.instructions.clone();
        for &(at, label) in &self.jumps {
            let distance = *self.labels.get(label)? as i64 - at as i64 - 1;
            let offset = i16::try_from(distance).ok()?;
            instructions[at] = with_offset(instructions[at], offset);
        }
        Some(instructions)
    }

    fn push(
        &mut self,
        opcode: u8,
        to: Register,
        from: Register,
        offset: i16,
        value: i32,
    ) -> &mut Self {
        let registers = if cfg!(target_endian = "little") {
            to as u8 | (from as u8) << 4
        } else {
            (to as u8) << 4 | from as u8
        };
        let mut bytes = [opcode, registers, 0, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        self.instructions
            .push(with_offset(u64::from_ne_bytes(bytes), offset));
        self
    }
}

/// The instruction with an offset, which is in bytes 2 and 3.
fn with_offset(instruction: u64, offset: i16) -> u64 {
    let mut bytes = instruction.to_ne_bytes();
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_in_rfc_9669() {
        let mut assembler = Assembler::default();
        assembler
            .set(Register::R0, 2)
            .load(Width::Half, Register::R3, Register::R7, 12)
            .exit();
        let bytes: Vec<[u8; 8]> = assembler
            .finish()
            .unwrap()
            .iter()
            .map(|instruction| instruction.to_le_bytes())
            .collect();
        assert_eq!(bytes[0], [0xb7, 0x00, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[1], [0x69, 0x73, 12, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[2], [0x95, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_offset_of_a_jump_counts_from_the_next_instruction() {
        let mut assembler = Assembler::default();
        assembler
            .jump_if(Register::R1, Condition::Equal, 0, "end")
            .set(Register::R0, 1)
            .label("end")
            .exit();
        let first = assembler.finish().unwrap()[0].to_ne_bytes();
        assert_eq!(i16::from_ne_bytes([first[2], first[3]]), 1);
    }

    #[test]
    fn a_jump_to_a_missing_label_makes_no_program() {
        let mut assembler = Assembler::default();
        assembler.jump_if(Register::R1, Condition::Equal, 0, "nowhere");
        assert_eq!(assembler.finish(), None);
    }
}
