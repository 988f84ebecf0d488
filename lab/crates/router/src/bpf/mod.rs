//! Programs in the kernel that forward, redirect and count frames.

mod programs;

use perpacket_linux::interface::Interface;

pub use perpacket_linux::bpf::{Assembler, Kind, License, Link, Mode, Numbers, Program};
pub use programs::{count, forward, pass, redirect};

use crate::error::RouterError;

/// Assembles an XDP program and loads it.
///
/// # Errors
/// A jump has no target, or the kernel refuses the program.
pub fn load(assembler: &Assembler, license: License) -> Result<Program, RouterError> {
    Ok(assembler.load_as(Kind::Xdp, license)?)
}

/// Attaches a program to the interface with this number in its namespace.
///
/// # Errors
/// The namespace cannot be entered, or the kernel refuses the program.
pub fn attach(program: &Program, interface: &Interface, index: u32) -> Result<Link, RouterError> {
    interface.inside(|| Ok(program.attach(index)?))
}
