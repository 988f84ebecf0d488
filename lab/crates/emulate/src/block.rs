//! A block of code, as the emulator translates it.

use perpacket_memory::Line;

use crate::context::Context;
use crate::functions::{Function, Work};

/// Lines of a block that are stored in it; most blocks have fewer.
const OWN_LINES: usize = 4;

/// A block of code that the processor runs from its first to its last instruction.
///
/// This structure has the size of one cache line of the machine that runs the emulation. The blocks
/// of a whole kernel do not fit into that machine's caches, so one block must not use two lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Block {
    pub(crate) work: Work,
    pub(crate) function: Function,
    pub(crate) instructions: u32,
    /// When the processor last entered the block: the context before it, the context in it, and its
    /// row in the counts.
    pub(crate) entered: Option<(Context, Context, u32)>,
    /// Its accesses that are not reported, because they repeat others.
    pub(crate) repeated: u16,
    /// Lines of its code, by physical address: their number, the first ones, and the others.
    pub(crate) own_lines: u8,
    pub(crate) lines: [Line; OWN_LINES],
    #[expect(
        clippy::box_collection,
        reason = "a pointer of eight bytes, so that a block has 64 bytes"
    )]
    pub(crate) further_lines: Option<Box<Vec<Line>>>,
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// A block of code of one function.
    #[must_use]
    pub fn new(
        function: (Function, Work),
        instructions: u32,
        lines: &[Line],
        repeated: u16,
    ) -> Self {
        let (function, work) = function;
        let (own, further) = lines.split_at(lines.len().min(OWN_LINES));
        let mut first = [Line(0); OWN_LINES];
        first[..own.len()].copy_from_slice(own);
        Self {
            work,
            function,
            instructions,
            entered: None,
            repeated,
            own_lines: own.len() as u8,
            lines: first,
            further_lines: (!further.is_empty()).then(|| Box::new(further.to_vec())),
        }
    }

    /// Its instructions.
    #[must_use]
    pub const fn instructions(&self) -> u32 {
        self.instructions
    }
}
