//! Network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The folder in which `ip netns` stores its namespaces.
const NAMED: &str = "/run/netns";

/// Moves the calling thread into a new namespace. Other threads stay in theirs.
///
/// # Errors
/// This process lacks the permission.
pub fn create() -> io::Result<()> {
    // SAFETY: only the network namespace changes; the thread still shares its descriptors.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread into a namespace: a path, or a name of `ip netns`.
///
/// # Errors
/// The namespace does not exist, or this process may not enter it.
pub fn enter(namespace: &str) -> io::Result<()> {
    let path = match namespace.contains('/') {
        true => namespace.into(),
        false => Path::new(NAMED).join(namespace),
    };
    let file = File::open(path)?;
    Ok(move_into_link_name_space(
        file.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}
