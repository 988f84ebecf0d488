//! XDP programs: their assembler, and those that forward, redirect and count.

mod assembler;
mod programs;

use std::io;

pub use assembler::{Assembler, Condition, Register, Width};
pub use perpacket_linux::bpf::{License, Link, Mode, Numbers, Program};
pub use programs::{count, forward, pass, redirect};

use crate::error::RouterError;

/// Assembles a program and loads it.
///
/// # Errors
/// A jump has no target, or the kernel refuses the program.
pub fn load(assembler: &Assembler, license: License) -> Result<Program, RouterError> {
    let instructions = assembler.finish().ok_or(RouterError::Traffic {
        what: "assemble a program",
        source: io::ErrorKind::InvalidInput.into(),
    })?;
    Ok(Program::load(&instructions, license)?)
}
