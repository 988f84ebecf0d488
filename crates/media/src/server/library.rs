//! The files beneath the root, opened once however many clients watch them.
//!
//! A medium is known by its file's identity, not by its name: when a file is replaced, streams that
//! play go on from the old one and the next client gets the new one.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use crate::wire::media::PROBE_BYTES;
use crate::wire::{Media, MediaError};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use thiserror::Error;

use super::blocks::{Blocks, lock};
use perpacket_linux::mapped_file::MappedFile;

/// How much of each end of a file is looked at first: enough for most.
const FIRST_PROBE_BYTES: usize = 64 * 1024;

/// A file that can be streamed, open.
#[derive(Debug)]
pub(super) struct Medium {
    /// The file's name beneath the root.
    pub(super) name: String,
    /// What it is and when its bytes are due.
    pub(super) media: Media,
    /// The file.
    pub(super) file: File,
    /// The file in memory, where it is to be served from there.
    pub(super) mapping: Option<MappedFile>,
    /// Its parts in memory or on their way there.
    pub(super) blocks: Arc<Blocks>,
}

/// What the library knows of a name. The cache may own blocks of a medium that no stream uses: the
/// file is then closed, and its next stream uses the same blocks.
#[derive(Debug)]
struct Known {
    identity: Identity,
    media: Media,
    medium: Weak<Medium>,
    blocks: Weak<Blocks>,
}

/// Tells one content of a name from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

/// Why there is no medium of a name.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    /// No file beneath the root.
    #[error("{name}: {error}")]
    Missing { name: String, error: io::Error },
    /// A folder, a pipe or a device.
    #[error("{name}: not a regular file")]
    NotAFile { name: String },
    /// It cannot be streamed.
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// The open media of one root.
#[derive(Debug)]
pub(super) struct Library {
    root: OwnedFd,
    maps_files: bool,
    known: Mutex<HashMap<String, Known>>,
}

impl Library {
    /// The library of a folder.
    pub(super) fn new(root: &Path, maps_files: bool) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            root: openat(CWD, root, flags, Mode::empty())?,
            maps_files,
            known: Mutex::default(),
        })
    }

    /// Opens a medium, or finds it open. Reads from the disk: not for an event loop.
    pub(super) fn open(&self, name: &str) -> Result<Arc<Medium>, OpenError> {
        let missing = |error: io::Error| OpenError::Missing {
            name: name.to_owned(),
            error,
        };
        // A pipe must not make the open wait for a writer. Links are followed beneath the root.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = openat2(&self.root, name, flags, Mode::empty(), resolve)
            .map_err(|error| missing(error.into()))?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(missing)?;
        if !metadata.is_file() {
            return Err(OpenError::NotAFile {
                name: name.to_owned(),
            });
        }
        let identity = Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
        };
        let (media, blocks) = match self.find(name, identity) {
            Some((Some(medium), ..)) => return Ok(medium),
            Some((None, media, Some(blocks))) => (media, blocks),
            Some((None, media, None)) => (media, Arc::new(Blocks::new(&media))),
            None => {
                let media = probe(&file, name, metadata.len(), FIRST_PROBE_BYTES)
                    .or_else(|_| probe(&file, name, metadata.len(), PROBE_BYTES))?;
                (media, Arc::new(Blocks::new(&media)))
            }
        };
        let mapped_bytes = usize::try_from(media.offset + media.bytes).unwrap_or(0);
        let mapping = (self.maps_files && !media.swaps_bytes)
            .then(|| MappedFile::new(&file, mapped_bytes))
            .transpose()
            .map_err(missing)?;
        let medium = Arc::new(Medium {
            name: name.to_owned(),
            media,
            file,
            mapping,
            blocks,
        });
        self.remember(identity, &medium);
        Ok(medium)
    }

    fn find(
        &self,
        name: &str,
        identity: Identity,
    ) -> Option<(Option<Arc<Medium>>, Media, Option<Arc<Blocks>>)> {
        let known = lock(&self.known);
        let found = known.get(name).filter(|known| known.identity == identity)?;
        Some((found.medium.upgrade(), found.media, found.blocks.upgrade()))
    }

    fn remember(&self, identity: Identity, medium: &Arc<Medium>) {
        let mut known = lock(&self.known);
        // Forgetting at powers of two keeps the cost of each opening constant on average.
        if known.len() >= 64 && known.len().is_power_of_two() {
            known.retain(|_, known| known.blocks.strong_count() > 0);
        }
        let entry = Known {
            identity,
            media: medium.media,
            medium: Arc::downgrade(medium),
            blocks: Arc::downgrade(&medium.blocks),
        };
        known.insert(medium.name.clone(), entry);
    }
}

/// Tells what a file is from its two ends.
fn probe(file: &File, name: &str, bytes: u64, ends: usize) -> Result<Media, OpenError> {
    let missing = |error: io::Error| OpenError::Missing {
        name: name.to_owned(),
        error,
    };
    let end = bytes.min(ends as u64) as usize;
    let (mut head, mut tail) = (vec![0; end], vec![0; end]);
    file.read_exact_at(&mut head, 0).map_err(missing)?;
    let tail_start = bytes - end as u64;
    file.read_exact_at(&mut tail, tail_start).map_err(missing)?;
    Ok(Media::recognize(name, bytes, &head, &tail)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("perpacket-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn nothing_outside_the_root_is_opened() {
        let path = folder("library-root");
        fs::create_dir(path.join("media")).unwrap();
        fs::write(path.join("secret.pcmu"), [0; 160]).unwrap();
        fs::write(path.join("media/a.pcmu"), [0; 160]).unwrap();
        std::os::unix::fs::symlink("../secret.pcmu", path.join("media/link.pcmu")).unwrap();
        let library = Library::new(&path.join("media"), false).unwrap();
        assert!(library.open("a.pcmu").is_ok());
        for name in [
            "../secret.pcmu",
            "link.pcmu",
            "/etc/passwd",
            "",
            ".",
            "missing.ts",
        ] {
            assert!(library.open(name).is_err(), "{name}");
        }
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_name_is_opened_once_until_its_file_is_replaced() {
        let path = folder("library-identity");
        fs::write(path.join("a.pcmu"), [0; 160]).unwrap();
        let library = Library::new(&path, false).unwrap();
        let first = library.open("a.pcmu").unwrap();
        assert!(Arc::ptr_eq(&first, &library.open("a.pcmu").unwrap()));
        fs::write(path.join("b.pcmu"), [0; 320]).unwrap();
        fs::rename(path.join("b.pcmu"), path.join("a.pcmu")).unwrap();
        let second = library.open("a.pcmu").unwrap();
        assert_eq!((first.media.bytes, second.media.bytes), (160, 320));
        fs::remove_dir_all(path).unwrap();
    }
}
