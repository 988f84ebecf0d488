//! Programs in the kernel: their assembler, and the programs that forward, redirect, count and
//! delay frames.

mod assembler;
mod programs;

use std::io;

use perpacket_linux::interface::Interface;

pub use assembler::{Assembler, Condition, Register, Width};
pub use perpacket_linux::bpf::{
    Direction, Kind, License, Link, Mode, Numbers, Program, TrafficLink,
};
pub use programs::{add_cost, count, forward, pass, redirect};

use crate::error::RouterError;

/// Assembles an XDP program and loads it.
///
/// # Errors
/// A jump has no target, or the kernel refuses the program.
pub fn load(assembler: &Assembler, license: License) -> Result<Program, RouterError> {
    load_as(Kind::Xdp, assembler, license)
}

/// Assembles a program and loads it.
///
/// # Errors
/// The same errors as [`load`].
pub fn load_as(
    kind: Kind,
    assembler: &Assembler,
    license: License,
) -> Result<Program, RouterError> {
    let instructions = assembler.finish().ok_or(RouterError::Traffic {
        what: "assemble a program",
        source: io::ErrorKind::InvalidInput.into(),
    })?;
    Ok(Program::load(kind, &instructions, license)?)
}

/// Attaches a program to the interface with this number in its namespace.
///
/// # Errors
/// The namespace cannot be entered, or the kernel refuses the program.
pub fn attach(program: &Program, interface: &Interface, index: u32) -> Result<Link, RouterError> {
    interface.inside(|| Ok(program.attach(index)?))
}
