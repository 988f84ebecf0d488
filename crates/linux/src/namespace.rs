//! Network namespaces.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread into a new network namespace. Other threads stay where they are.
///
/// # Errors
/// This process may not.
pub fn create() -> io::Result<()> {
    // SAFETY: only the network namespace changes; the thread still shares its descriptors.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}
