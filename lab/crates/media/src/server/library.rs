//! The media of the root folder. All clients of a file share one medium.
//!
//! A medium belongs to a file, not to a name. After a file is replaced, playing streams continue
//! with the old file, and new clients receive the new file.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use crate::wire::layout::PROBE_BYTES;
use crate::wire::{LayoutError, PacketLayout};
use perpacket_linux::mapped_file::MappedFile;
use perpacket_linux::root_folder::RootFolder;
use rustix::fs::{Access, AtFlags, accessat};
use thiserror::Error;

use super::block::BlockTable;
use super::disk::Ahead;
use perpacket_linux::mailbox::lock;

/// Number of bytes that the first attempt of detection reads from each end of a file. They are
/// enough for most files.
const FIRST_PROBE_BYTES: usize = 64 * 1024;

/// An open file that can be streamed.
#[derive(Debug)]
pub(super) struct Medium {
    /// Path of the file, relative to the root folder.
    pub(super) name: String,
    /// Packets and their due times.
    pub(super) layout: PacketLayout,
    pub(super) file: File,
    /// The mapped file, in `mapped` buffering.
    pub(super) mapping: Option<MappedFile>,
    /// Parts in memory or being read.
    pub(super) blocks: Arc<BlockTable>,
    /// What an emulated disk with a rate has read ahead.
    pub(super) ahead: Mutex<Ahead>,
}

/// The last medium of a name. The file is closed while no stream uses it, but the cache may still
/// own blocks of it for the next stream.
#[derive(Debug)]
struct Entry {
    identity: Identity,
    layout: PacketLayout,
    medium: Weak<Medium>,
    blocks: Weak<BlockTable>,
}

/// Changes when the content of a name changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

/// The reason why a medium cannot be opened.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    #[error("{name}: {error}")]
    Missing { name: String, error: io::Error },
    #[error("{name}: not a regular file")]
    NotAFile { name: String },
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// The media of a root folder.
#[derive(Debug)]
pub(super) struct Library {
    root: RootFolder,
    maps_files: bool,
    known: Mutex<HashMap<String, Entry>>,
}

impl Library {
    pub(super) fn new(root: &Path, maps_files: bool) -> io::Result<Self> {
        Ok(Self {
            root: RootFolder::open(root)?,
            maps_files,
            known: Mutex::default(),
        })
    }

    /// Checks that this process may read the root folder.
    pub(super) fn check_access(&self) -> io::Result<()> {
        let access = Access::READ_OK | Access::EXEC_OK;
        Ok(accessat(self.root.folder(), ".", access, AtFlags::EACCESS)?)
    }

    /// Opens a medium, or returns the open one. This reads from the disk, so event loops must not
    /// call it.
    pub(super) fn open(&self, name: &str) -> Result<Arc<Medium>, OpenError> {
        let missing = |error: io::Error| OpenError::Missing {
            name: name.to_owned(),
            error,
        };
        let file = self.root.open_file(name.as_bytes()).map_err(missing)?;
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
        let (layout, blocks) = match self.find(name, identity) {
            Some((Some(medium), ..)) => return Ok(medium),
            Some((None, layout, blocks)) => (layout, blocks),
            None => {
                let layout = detect(&file, name, metadata.len(), FIRST_PROBE_BYTES)
                    .or_else(|_| detect(&file, name, metadata.len(), PROBE_BYTES))?;
                (layout, None)
            }
        };
        let mapped_bytes = usize::try_from(layout.offset + layout.bytes).unwrap_or(0);
        let mapping = (self.maps_files && !layout.swaps_bytes)
            .then(|| MappedFile::new(&file, mapped_bytes))
            .transpose()
            .map_err(missing)?;
        let medium = Arc::new(Medium {
            name: name.to_owned(),
            layout,
            file,
            mapping,
            blocks: blocks.unwrap_or_else(|| Arc::new(BlockTable::new(&layout))),
            ahead: Mutex::default(),
        });
        self.remember(identity, &medium);
        Ok(medium)
    }

    fn find(&self, name: &str, identity: Identity) -> Option<Found> {
        let known = lock(&self.known);
        let entry = known.get(name).filter(|known| known.identity == identity)?;
        Some((entry.medium.upgrade(), entry.layout, entry.blocks.upgrade()))
    }

    fn remember(&self, identity: Identity, medium: &Arc<Medium>) {
        let mut known = lock(&self.known);
        // The cleanup runs only at powers of two, so that the mean cost of an opening is constant.
        if known.len() >= 64 && known.len().is_power_of_two() {
            known.retain(|_, known| known.blocks.strong_count() > 0);
        }
        let entry = Entry {
            identity,
            layout: medium.layout,
            medium: Arc::downgrade(medium),
            blocks: Arc::downgrade(&medium.blocks),
        };
        known.insert(medium.name.clone(), entry);
    }
}

/// The medium and the blocks of a file if they are in use, and the layout of the file.
type Found = (Option<Arc<Medium>>, PacketLayout, Option<Arc<BlockTable>>);

/// Detects the layout of a file from its two ends.
fn detect(file: &File, name: &str, bytes: u64, ends: usize) -> Result<PacketLayout, OpenError> {
    let missing = |error: io::Error| OpenError::Missing {
        name: name.to_owned(),
        error,
    };
    let end = bytes.min(ends as u64) as usize;
    let (mut head, mut tail) = (vec![0; end], vec![0; end]);
    file.read_exact_at(&mut head, 0).map_err(missing)?;
    let tail_start = bytes - end as u64;
    file.read_exact_at(&mut tail, tail_start).map_err(missing)?;
    Ok(PacketLayout::detect(name, bytes, &head, &tail)?)
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
    fn files_outside_the_root_are_not_opened() {
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
    fn a_name_has_one_medium_until_its_file_is_replaced() {
        let path = folder("library-identity");
        fs::write(path.join("a.pcmu"), [0; 160]).unwrap();
        let library = Library::new(&path, false).unwrap();
        let first = library.open("a.pcmu").unwrap();
        assert!(Arc::ptr_eq(&first, &library.open("a.pcmu").unwrap()));
        fs::write(path.join("b.pcmu"), [0; 320]).unwrap();
        fs::rename(path.join("b.pcmu"), path.join("a.pcmu")).unwrap();
        let second = library.open("a.pcmu").unwrap();
        assert_eq!((first.layout.bytes, second.layout.bytes), (160, 320));
        fs::remove_dir_all(path).unwrap();
    }
}
