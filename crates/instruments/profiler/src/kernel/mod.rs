//! The kernel's symbols, and the modules of network interfaces.

mod modules;

use std::fs;
use std::path::Path;

use perpacket_cost::KernelSymbols;

use crate::error::ProfileError;

pub use modules::network_drivers;

/// Reads the symbols in a file.
///
/// # Errors
/// The file cannot be read.
pub fn read_symbols(path: &Path) -> Result<KernelSymbols, ProfileError> {
    let bytes = fs::read(path).map_err(|source| ProfileError::file(path, source))?;
    Ok(KernelSymbols::parse(&String::from_utf8_lossy(&bytes)))
}
