//! Finds the loads and stores of a block that repeat others, whatever the registers contain.
//!
//! A function saves its registers on the stack one after another, and reads fields of a structure one
//! after another. Such accesses use one base register with different displacements. If all of them
//! lie within 64 bytes, then the lowest and the highest touch every line that the others touch. If
//! also no access with another base comes between them, then the others change no cache, and the
//! emulator need not report them.

use iced_x86::{
    Code, CodeSize, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

/// Bytes of a line.
const LINE_BYTES: i64 = 64;

/// Longest access that is examined, in bytes. The emulator may divide longer ones.
const LONGEST: usize = 8;

/// Number of general registers.
const GENERAL: usize = 16;

/// An unknown value, by number. The number 0 means no register.
type Symbol = u32;

/// An unknown value plus a constant.
#[derive(Clone, Copy, Debug)]
struct Value {
    symbol: Symbol,
    offset: u64,
}

impl Value {
    const fn constant(offset: u64) -> Self {
        Self { symbol: 0, offset }
    }

    const fn plus(self, offset: u64) -> Self {
        Self {
            symbol: self.symbol,
            offset: self.offset.wrapping_add(offset),
        }
    }
}

/// An address without its constant part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Base {
    base: Symbol,
    index: Symbol,
    scale: u32,
    segment: Register,
}

/// A load or store. Its bytes are relative to the base.
#[derive(Clone, Copy, Debug)]
struct Access {
    base: Base,
    begin: i64,
    end: i64,
    /// 2 if it loads and stores.
    accesses: u32,
}

/// An instruction of the run with its access, and whether its access must be reported.
#[derive(Clone, Copy, Debug)]
struct Member {
    instruction: usize,
    accesses: u32,
    is_watched: bool,
}

/// Accesses with one base, without another access between them, within the bytes of a line.
#[derive(Clone, Copy, Debug)]
struct Run {
    base: Base,
    begin: i64,
    end: i64,
    lowest: Member,
    highest: Member,
}

/// Reads the instructions of a block in order.
pub struct Repetitions {
    /// The values of the general registers before the next instruction.
    values: [Value; GENERAL],
    symbols: Symbol,
    run: Option<Run>,
    /// For each instruction, its accesses that need not be reported.
    repeated: Vec<u32>,
    factory: InstructionInfoFactory,
}

impl Default for Repetitions {
    fn default() -> Self {
        Self {
            values: std::array::from_fn(|register| Value {
                symbol: 1 + register as Symbol,
                offset: 0,
            }),
            symbols: GENERAL as Symbol,
            run: None,
            repeated: Vec::new(),
            factory: InstructionInfoFactory::new(),
        }
    }
}

impl Repetitions {
    /// The number of accesses of an instruction that repeat others. The instruction is named by its
    /// index; the answer is 0 for an instruction that was not read.
    #[must_use]
    pub fn of(&self, instruction: usize) -> u32 {
        self.repeated.get(instruction).copied().unwrap_or(0)
    }

    /// The number of accesses that repeat others.
    #[must_use]
    pub fn accesses(&self) -> u32 {
        self.repeated.iter().sum()
    }

    /// Reads the next instruction. If `is_watched` is true, its access is always reported.
    pub fn read(&mut self, instruction: &iced_x86::Instruction, is_watched: bool) {
        let info = self.factory.info(instruction).clone();
        let access = match info.used_memory() {
            [memory] if is_plain(instruction) => self.access(memory),
            _ => None,
        };
        let number = self.repeated.len();
        self.repeated.push(0);
        match access {
            Some(access) => {
                let member = Member {
                    instruction: number,
                    accesses: access.accesses,
                    is_watched,
                };
                self.extend(access, member);
            }
            None if is_watched || !info.used_memory().is_empty() => self.run = None,
            None => {}
        }
        let new = self.new_value(instruction);
        for used in info.used_registers() {
            let register = used.register().full_register();
            if writes(used.access()) && register.is_gpr64() {
                self.symbols += 1;
                self.values[register.number()] = Value {
                    symbol: self.symbols,
                    offset: 0,
                };
            }
        }
        if let Some((register, value)) = new {
            self.values[register.number()] = value;
        }
        if changes_segments(instruction) {
            self.run = None;
        }
    }

    fn access(&self, memory: &UsedMemory) -> Option<Access> {
        let base = self.value(memory.base())?;
        let index = self.value(memory.index())?;
        let accesses = match memory.access() {
            OpAccess::Read | OpAccess::Write => 1,
            OpAccess::ReadWrite => 2,
            _ => return None,
        };
        let bytes = memory.memory_size().size();
        let scale = if index.symbol == 0 { 0 } else { memory.scale() };
        let is_usual = memory.address_size() == CodeSize::Code64 && (1..=LONGEST).contains(&bytes);
        let scaled = index.offset.wrapping_mul(u64::from(memory.scale()));
        let begin = memory
            .displacement()
            .wrapping_add(base.offset)
            .wrapping_add(scaled) as i64;
        is_usual.then(|| Access {
            base: Base {
                base: base.symbol,
                index: index.symbol,
                scale,
                segment: match memory.segment() {
                    segment @ (Register::FS | Register::GS) => segment,
                    _ => Register::None,
                },
            },
            begin,
            end: begin.wrapping_add(bytes as i64),
            accesses,
        })
    }

    fn value(&self, register: Register) -> Option<Value> {
        match register {
            Register::None => Some(Value::constant(0)),
            _ if register.is_gpr64() => Some(self.values[register.number()]),
            _ => None,
        }
    }

    /// Adds an access to the run, or begins a run with it.
    fn extend(&mut self, access: Access, member: Member) {
        let Some(mut run) = self.run.filter(|run| run.base == access.base) else {
            self.begin(access, member);
            return;
        };
        let begin = run.begin.min(access.begin);
        let end = run.end.max(access.end);
        if end.wrapping_sub(begin) > LINE_BYTES || end < begin {
            self.begin(access, member);
            return;
        }
        let (is_lowest, is_highest) = (access.begin < run.begin, access.end > run.end);
        let is_single = run.lowest.instruction == run.highest.instruction;
        if !is_lowest && !is_highest {
            self.drop_access(member);
        }
        if is_lowest && (!is_single || is_highest) {
            self.drop_access(run.lowest);
        }
        if is_highest && !is_single {
            self.drop_access(run.highest);
        }
        if is_lowest {
            run.lowest = member;
        }
        if is_highest {
            run.highest = member;
        }
        (run.begin, run.end) = (begin, end);
        self.run = Some(run);
    }

    const fn begin(&mut self, access: Access, member: Member) {
        self.run = Some(Run {
            base: access.base,
            begin: access.begin,
            end: access.end,
            lowest: member,
            highest: member,
        });
    }

    /// Marks an access that lies between others.
    fn drop_access(&mut self, member: Member) {
        if !member.is_watched {
            self.repeated[member.instruction] = member.accesses;
        }
    }

    /// The register whose value after an instruction has a known relation to earlier values, with
    /// this value.
    fn new_value(&self, instruction: &iced_x86::Instruction) -> Option<(Register, Value)> {
        let target = instruction.op0_register();
        let immediate = || match instruction.op1_kind() {
            OpKind::Register | OpKind::Memory => None,
            _ => instruction.try_immediate(1).ok(),
        };
        let increment = instruction.stack_pointer_increment();
        if increment != 0 && instruction.mnemonic() != Mnemonic::Enter {
            let pointer = self.values[Register::RSP.number()];
            let is_loaded = target == Register::RSP && instruction.mnemonic() == Mnemonic::Pop;
            let value = pointer.plus(i64::from(increment) as u64);
            return (!is_loaded).then_some((Register::RSP, value));
        }
        let is_zero = matches!(instruction.code(), Code::Xor_r32_rm32 | Code::Xor_rm32_r32)
            && instruction.op1_register() == target;
        if is_zero {
            return Some((target.full_register(), Value::constant(0)));
        }
        if !target.is_gpr64() {
            return None;
        }
        let own = self.values[target.number()];
        let value = match instruction.mnemonic() {
            Mnemonic::Mov => match instruction.op1_kind() {
                OpKind::Register => self.value(instruction.op1_register())?,
                _ => Value::constant(immediate()?),
            },
            Mnemonic::Lea if instruction.memory_index() == Register::None => {
                match instruction.memory_base() {
                    Register::RIP => Value::constant(instruction.memory_displacement64()),
                    base => self.value(base)?.plus(instruction.memory_displacement64()),
                }
            }
            Mnemonic::Add => own.plus(immediate()?),
            Mnemonic::Sub => own.plus(immediate()?.wrapping_neg()),
            _ => return None,
        };
        Some((target, value))
    }
}

/// Whether an instruction accesses its one operand in memory always, and in one piece.
fn is_plain(instruction: &iced_x86::Instruction) -> bool {
    use Mnemonic::*;
    let is_known = matches!(
        instruction.mnemonic(),
        Mov | Movzx
            | Movsx
            | Movsxd
            | Push
            | Pop
            | Call
            | Ret
            | Add
            | Adc
            | Sub
            | Sbb
            | And
            | Or
            | Xor
            | Cmp
            | Test
            | Inc
            | Dec
            | Neg
            | Not
            | Imul
    );
    let is_special = |register: Register| register != Register::None && !register.is_gpr();
    is_known
        && !instruction.has_lock_prefix()
        && !is_special(instruction.op0_register())
        && !is_special(instruction.op1_register())
}

/// Whether an instruction may change the base of FS or GS.
fn changes_segments(instruction: &iced_x86::Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Swapgs | Wrfsbase | Wrgsbase | Wrmsr)
        || matches!(instruction.op0_register(), Register::FS | Register::GS)
}

const fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

#[cfg(test)]
mod tests {
    use perpacket_memory::Filter;
    use proptest::prelude::*;

    use super::*;
    use crate::instruction::decode;

    fn read(instructions: &[&[u8]], is_watched: impl Fn(usize) -> bool) -> Repetitions {
        let mut repetitions = Repetitions::default();
        let mut address = 0x1000;
        for (index, bytes) in instructions.iter().enumerate() {
            let decoded = decode(bytes, address);
            assert_eq!(decoded.len(), bytes.len(), "{bytes:x?}");
            repetitions.read(&decoded, is_watched(index));
            address += bytes.len() as u64;
        }
        repetitions
    }

    /// The instructions whose accesses repeat others, by index.
    fn repeating(instructions: &[&[u8]]) -> Vec<usize> {
        let repetitions = read(instructions, |_| false);
        let all = repetitions.repeated.iter().enumerate();
        all.filter(|(_, repeated)| **repeated > 0)
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn accesses_between_others_with_the_same_base_repeat_them() {
        for (instructions, expected) in [
            // push rbp; push rbx; push rax; pop rax
            (&[&[0x55][..], &[0x53], &[0x50], &[0x58]][..], &[1, 3][..]),
            // mov eax, [rdi]; mov ecx, [rdi+56]; mov edx, [rdi+8]; mov [rdi+16], edx
            (
                &[
                    &[0x8b, 0x07],
                    &[0x8b, 0x4f, 0x38],
                    &[0x8b, 0x57, 0x08],
                    &[0x89, 0x57, 0x10],
                ],
                &[2, 3],
            ),
            // mov eax, [rdi]; mov ecx, [rdi+64]; mov edx, [rdi+8]: more than a line apart
            (
                &[&[0x8b, 0x07], &[0x8b, 0x4f, 0x40], &[0x8b, 0x57, 0x08]],
                &[],
            ),
            // mov rdi, [rdi]; mov eax, [rdi]; mov ecx, [rdi+8]; mov edx, [rdi+4]: a new pointer
            (
                &[
                    &[0x48, 0x8b, 0x3f],
                    &[0x8b, 0x07],
                    &[0x8b, 0x4f, 0x08],
                    &[0x8b, 0x57, 0x04],
                ],
                &[3],
            ),
            // mov eax, [rdi]; lea rcx, [rdi+8]; mov eax, [rcx]; add rcx, -4; mov eax, [rcx]
            (
                &[
                    &[0x8b, 0x07],
                    &[0x48, 0x8d, 0x4f, 0x08],
                    &[0x8b, 0x01],
                    &[0x48, 0x83, 0xc1, 0xfc],
                    &[0x8b, 0x01],
                ],
                &[4],
            ),
            // mov eax, [rdi]; mov ecx, [rsi]; mov eax, [rdi]: another access between
            (&[&[0x8b, 0x07], &[0x8b, 0x0e], &[0x8b, 0x07]], &[]),
            // mov eax, [rdi]; lock add [rsi], eax; mov eax, [rdi]
            (&[&[0x8b, 0x07], &[0xf0, 0x01, 0x06], &[0x8b, 0x07]], &[]),
            // mov eax, [rdi]; mov edi, edi; mov eax, [rdi]: half a register
            (&[&[0x8b, 0x07], &[0x89, 0xff], &[0x8b, 0x07]], &[]),
            // mov eax, [rdi]; mov rax, gs:[rdi]: another segment
            (&[&[0x8b, 0x07], &[0x65, 0x48, 0x8b, 0x07]], &[]),
        ] {
            assert_eq!(repeating(instructions), expected, "{instructions:x?}");
        }
    }

    #[test]
    fn a_watched_access_is_always_reported() {
        // push rbp; push rbx; push rax; call
        let instructions: [&[u8]; 4] = [&[0x55], &[0x53], &[0x50], &[0xe8, 0, 0, 0, 0]];
        let repetitions = read(&instructions, |index| index == 1 || index == 3);
        assert_eq!(repetitions.repeated, [0, 0, 1, 0]);
    }

    #[test]
    fn an_access_that_loads_and_stores_counts_twice() {
        // mov eax, [rdi]; add [rdi], eax
        assert_eq!(
            read(&[&[0x8b, 0x07], &[0x01, 0x07]], |_| false).accesses(),
            2
        );
    }

    proptest! {
        #[test]
        fn what_is_reported_touches_the_same_lines(
            start in 0_i64..64,
            offsets in prop::collection::vec((0_u32..3, -40_i64..60, 0_u8..4), 1..20),
        ) {
            let mut repetitions = Repetitions::default();
            for (number, (base, offset, size)) in offsets.iter().enumerate() {
                repetitions.repeated.push(0);
                let access = Access {
                    base: Base { base: *base, index: 0, scale: 0, segment: Register::None },
                    begin: start + offset,
                    end: start + offset + (1 << size),
                    accesses: 1,
                };
                let member = Member { instruction: number, accesses: 1, is_watched: false };
                repetitions.extend(access, member);
            }
            // Each base is at the same offset in another page. So lines of different bases share
            // entries of the filter, as lines share the sets of a cache.
            let lines = |reports_all: bool| {
                let mut filter = Filter::new(64);
                let mut seen = Vec::new();
                for ((base, offset, size), repeated) in offsets.iter().zip(&repetitions.repeated) {
                    if *repeated > 0 && !reports_all {
                        continue;
                    }
                    let first = i64::from(base + 1) * 4096 + start + offset;
                    for line in first / LINE_BYTES..=(first + (1 << size) - 1) / LINE_BYTES {
                        if !filter.repeats(line as u32) {
                            seen.push(line);
                        }
                    }
                }
                // The reported accesses alone may touch the two lines of a run in another order.
                seen.sort_unstable();
                (seen, filter.clone())
            };
            let ((reported, after), (all, after_all)) = (lines(false), lines(true));
            prop_assert_eq!(reported, all);
            prop_assert_eq!(format!("{after:?}"), format!("{after_all:?}"));
            let dropped = repetitions.repeated.iter().filter(|repeated| **repeated > 0).count();
            prop_assert_eq!(repetitions.accesses() as usize, dropped);
        }
    }
}
