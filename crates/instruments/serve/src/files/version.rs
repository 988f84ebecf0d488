//! The kind and the version of a file.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat};

/// Identifies a file and a version of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    pub inode: u64,
    pub size_bytes: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub modified_ns: i128,
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    Folder,
    /// A pipe, a device, a socket.
    Other,
}

/// The kind and version of an open file.
///
/// # Errors
/// The errors of fstat(2).
pub fn file_version(file: impl AsFd) -> io::Result<(FileKind, FileVersion)> {
    let status = fstat(file)?;
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        _ => FileKind::Other,
    };
    let version = FileVersion {
        device: status.st_dev,
        inode: status.st_ino,
        size_bytes: status.st_size as u64,
        modified_ns: i128::from(status.st_mtime) * 1_000_000_000 + i128::from(status.st_mtime_nsec),
    };
    Ok((kind, version))
}
