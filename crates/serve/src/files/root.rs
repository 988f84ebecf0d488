//! The folder that is served, and the way to files beneath it that cannot leave it.
//!
//! The kernel resolves a path with `openat2` and RESOLVE_BENEATH: neither `..` nor a symbolic
//! link leads out, also when a folder is moved meanwhile. Where the kernel has no such call
//! (before 5.6, or under a filter) each folder is opened in turn and links are not followed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// An open folder.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    kernel_resolves: bool,
}

/// How files are opened: a pipe in the folder must not block anyone.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// How a file is looked at without being opened.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// What a file's identity and content hang on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    /// Number of the inode.
    pub inode: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub modified_ns: i128,
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A pipe, a device, a socket.
    Other,
}

impl Root {
    /// Opens the folder.
    ///
    /// # Errors
    /// It is missing, no folder, or not permitted.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty())?;
        let probe = openat2(&folder, ".", LOOK, Mode::empty(), ResolveFlags::BENEATH);
        Ok(Self {
            folder,
            kernel_resolves: probe.is_ok(),
        })
    }

    /// The folder itself.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Opens a file for reading; `path` is relative and normal.
    ///
    /// # Errors
    /// As open(2); a path that leads out of the root is `EXDEV` or `ELOOP`.
    pub fn open_file(&self, path: &[u8]) -> io::Result<OwnedFd> {
        Ok(self.resolve(path, READ)?)
    }

    /// What lies at a path, and its stamp. Nothing is opened.
    ///
    /// # Errors
    /// As [`Self::open_file`].
    pub fn look(&self, path: &[u8]) -> io::Result<(Kind, Stamp)> {
        stamp_of(self.resolve(path, LOOK)?)
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        if self.kernel_resolves {
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            // EAGAIN: a folder moved while the kernel looked; it says to try again.
            for _ in 0..3 {
                match openat2(&self.folder, path, flags, Mode::empty(), within) {
                    Err(Errno::AGAIN) => {}
                    result => return result,
                }
            }
            return Err(Errno::AGAIN);
        }
        self.resolve_by_steps(path, flags)
    }

    /// Without openat2: folder by folder, following no link.
    fn resolve_by_steps(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut names = path.split(|&byte| byte == b'/').peekable();
        let mut folder: Option<OwnedFd> = None;
        while let Some(name) = names.next() {
            if name == b".." {
                return Err(Errno::XDEV);
            }
            let here = folder.as_ref().unwrap_or(&self.folder).as_fd();
            if names.peek().is_none() {
                let file = openat(here, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
                // A link can be looked at without being followed.
                let mode = fstat(&file)?.st_mode;
                return match FileType::from_raw_mode(mode) {
                    FileType::Symlink => Err(Errno::LOOP),
                    _ => Ok(file),
                };
            }
            let step = OFlags::DIRECTORY | OFlags::NOFOLLOW | LOOK;
            folder = Some(openat(here, name, step, Mode::empty())?);
        }
        Err(Errno::NOENT)
    }
}

/// What an open file is, and its stamp.
///
/// # Errors
/// As fstat(2).
pub fn stamp_of(file: impl AsFd) -> io::Result<(Kind, Stamp)> {
    let status = fstat(file)?;
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    };
    let stamp = Stamp {
        device: status.st_dev,
        inode: status.st_ino,
        size_bytes: status.st_size as u64,
        modified_ns: i128::from(status.st_mtime) * 1_000_000_000 + i128::from(status.st_mtime_nsec),
    };
    Ok((kind, stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Both ways must refuse what leads out, so both are put to the same folder.
    fn roots() -> (tempfile::TempDir, [Root; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "inside").unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        symlink("../secret", root.join("up")).unwrap();
        symlink("/etc/passwd", root.join("far")).unwrap();
        symlink("../..", root.join("a/out")).unwrap();
        let mut by_steps = Root::open(&root).unwrap();
        by_steps.kernel_resolves = false;
        (folder, [Root::open(&root).unwrap(), by_steps])
    }

    #[test]
    fn no_path_leads_out_of_the_root() {
        let (_folder, roots) = roots();
        for root in &roots {
            assert!(root.open_file(b"a/file").is_ok());
            for out in [
                &b"up"[..],
                b"far",
                b"a/out/secret",
                b"../secret",
                b"a/../../secret",
            ] {
                assert!(root.open_file(out).is_err(), "{root:?} {out:?}");
                assert!(root.look(out).is_err());
            }
        }
    }
}
