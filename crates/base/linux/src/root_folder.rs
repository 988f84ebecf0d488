//! A folder of files that clients may name, and opening files beneath it.
//!
//! The kernel resolves a path with `openat2` and RESOLVE_BENEATH: neither `..` nor a symbolic link
//! leads out of the root, even if a folder is moved at the same time. If the kernel has no
//! `openat2` (before Linux 5.6) or a seccomp filter forbids it, [`RootFolder`] opens each folder of the
//! path in turn and follows no links.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// An open folder, as the root of paths.
#[derive(Debug)]
pub struct RootFolder {
    folder: OwnedFd,
    kernel_resolves: bool,
}

/// Flags to open files for reading. NONBLOCK: opening a pipe must not block the server.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// Flags to open a path without the file's content.
const STAT: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

impl RootFolder {
    /// Opens the folder.
    ///
    /// # Errors
    /// The folder is missing, not a folder, or not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty())?;
        let probe = openat2(&folder, ".", STAT, Mode::empty(), ResolveFlags::BENEATH);
        Ok(Self {
            folder,
            kernel_resolves: probe.is_ok(),
        })
    }

    /// The folder's descriptor.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Opens a file for reading. `path` must be relative and normalized.
    ///
    /// # Errors
    /// The errors of open(2). `EXDEV` or `ELOOP` for a path that leads out of the root.
    pub fn open_file(&self, path: &[u8]) -> io::Result<OwnedFd> {
        Ok(self.resolve(path, READ)?)
    }

    /// Opens a path only to read its status.
    ///
    /// # Errors
    /// The errors of [`Self::open_file`].
    pub fn open_path(&self, path: &[u8]) -> io::Result<OwnedFd> {
        Ok(self.resolve(path, STAT)?)
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        if self.kernel_resolves {
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            // With EAGAIN, a folder was moved at the same time (openat2(2)), so try again.
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

    /// Resolves a path without openat2: opens folder by folder and follows no links.
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
                // With O_PATH, open(2) opens a link itself instead of following it.
                let mode = fstat(&file)?.st_mode;
                return match FileType::from_raw_mode(mode) {
                    FileType::Symlink => Err(Errno::LOOP),
                    _ => Ok(file),
                };
            }
            let step = OFlags::DIRECTORY | OFlags::NOFOLLOW | STAT;
            folder = Some(openat(here, name, step, Mode::empty())?);
        }
        Err(Errno::NOENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// One root for each way of resolving paths.
    fn roots() -> (tempfile::TempDir, [RootFolder; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "inside").unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        symlink("../secret", root.join("up")).unwrap();
        symlink("/etc/passwd", root.join("far")).unwrap();
        symlink("../..", root.join("a/out")).unwrap();
        let mut by_steps = RootFolder::open(&root).unwrap();
        by_steps.kernel_resolves = false;
        (folder, [RootFolder::open(&root).unwrap(), by_steps])
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
                assert!(root.open_path(out).is_err());
            }
        }
    }
}
