//! An entry of the cache: a file's content or descriptor, and the head of its response.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::io::Errno;

use super::content::Content;
use super::version::{FileKind, FileVersion, file_version};
use perpacket_http::coding::{Coding, CodingSet};
use perpacket_http::{content_type, date};
use perpacket_linux::root_folder::RootFolder;

/// A file, ready to send.
#[derive(Debug)]
pub struct Entry {
    /// The head of a 200, up to and including `Date: `.
    pub head: Box<[u8]>,
    /// The content.
    pub body: Body,
    /// The version of the file in this entry.
    pub version: FileVersion,
    /// Its entity tag, quotes included.
    pub etag: Box<str>,
    /// Last change, in seconds since 1970.
    pub modified_s: i64,
    pub content_type: &'static str,
    pub coding: Coding,
    /// Codings of the compressed files beside it.
    pub siblings: CodingSet,
    /// When the entry was last compared with the file on disk, in milliseconds of the worker's
    /// clock.
    pub checked_ms: AtomicU64,
}

/// A file's content.
#[derive(Clone, Debug)]
pub enum Body {
    Memory(Arc<Content>),
    /// An open file, too large for the cache.
    File(Arc<OwnedFd>),
}

/// The reason why a file cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// It does not exist, or is outside the root.
    Missing,
    /// This user may not read it.
    Forbidden,
    /// It is a folder, and the path does not end in a slash.
    Folder,
    /// Descriptors or memory are exhausted now.
    Exhausted,
    /// The disk failed.
    Failed,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::XDEV
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::NXIO
                | Errno::NODEV,
            ) => Self::Missing,
            Some(Errno::ACCESS | Errno::PERM) => Self::Forbidden,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => Self::Exhausted,
            _ => Self::Failed,
        }
    }
}

/// Number of attempts to read a file that another process changes meanwhile.
const TRIES: usize = 3;

/// The file that is served for a folder.
const INDEX: &[u8] = b"index.html";

/// The path of a file relative to the root, for a normalized path and a coding.
pub fn file_path(path: &[u8], coding: Coding) -> Vec<u8> {
    let mut file = path.strip_prefix(b"/").unwrap_or(path).to_vec();
    if file.is_empty() || file.ends_with(b"/") {
        file.extend_from_slice(INDEX);
    }
    file.extend_from_slice(coding.extension().as_bytes());
    file
}

impl Entry {
    /// Reads a file with a normalized path. Files of up to `memory_limit_bytes` are read into memory.
    ///
    /// # Errors
    /// The file cannot be served.
    pub fn load(
        root: &RootFolder,
        path: &[u8],
        coding: Coding,
        memory_limit_bytes: u64,
    ) -> Result<Self, FileError> {
        let name = file_path(path, coding);
        let mut tries = 0;
        let (version, body) = loop {
            tries += 1;
            let file = File::from(root.open_file(&name)?);
            let (kind, version) = file_version(&file)?;
            match kind {
                FileKind::File => {}
                FileKind::Folder if coding == Coding::Identity => return Err(FileError::Folder),
                FileKind::Folder | FileKind::Other => return Err(FileError::Missing),
            }
            if version.size_bytes > memory_limit_bytes {
                break (version, Body::File(Arc::new(file.into())));
            }
            match read_whole(&file, version, tries == TRIES)? {
                Some(content) => break (version, Body::Memory(content)),
                None if tries < TRIES => {}
                None => return Err(FileError::Exhausted),
            }
        };
        let siblings = match coding {
            Coding::Identity => siblings_of(root, path),
            _ => CodingSet::default().with(coding),
        };
        Self::new(path, coding, siblings, version, body)
    }

    fn new(
        path: &[u8],
        coding: Coding,
        siblings: CodingSet,
        version: FileVersion,
        body: Body,
    ) -> Result<Self, FileError> {
        let name = file_path(path, Coding::Identity);
        let content_type = content_type::content_type(&name);
        let modified_s = version.modified_ns.div_euclid(1_000_000_000) as i64;
        let etag = format!(
            "\"{:x}-{:x}-{:x}\"",
            version.inode, version.size_bytes, version.modified_ns
        );
        let mut head = Vec::with_capacity(320);
        let written = write!(
            head,
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n",
            version.size_bytes
        );
        let entry = Self {
            head: Box::default(),
            body,
            version,
            etag: etag.into_boxed_str(),
            modified_s,
            content_type,
            coding,
            siblings,
            checked_ms: AtomicU64::new(0),
        };
        written
            .and_then(|()| entry.write_validators(&mut head))
            .map_err(|_| FileError::Failed)?;
        head.extend_from_slice(b"Accept-Ranges: bytes\r\nDate: ");
        Ok(Self {
            head: head.into_boxed_slice(),
            ..entry
        })
    }

    /// Writes the fields that 200, 206 and 304 have in common.
    ///
    /// # Errors
    /// No error: writing to memory does not fail.
    pub fn write_validators(&self, head: &mut Vec<u8>) -> io::Result<()> {
        head.extend_from_slice(b"Last-Modified: ");
        head.extend_from_slice(&date::format_date(self.modified_s));
        write!(head, "\r\nETag: {}\r\n", self.etag)?;
        if self.coding != Coding::Identity {
            write!(head, "Content-Encoding: {}\r\n", self.coding.name())?;
        }
        if !self.siblings.is_empty() {
            head.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
        Ok(())
    }

    /// Whether the file on disk is still this version.
    pub fn is_current(&self, root: &RootFolder, path: &[u8]) -> bool {
        let same = root
            .open_path(&file_path(path, self.coding))
            .and_then(file_version)
            .is_ok_and(|(kind, version)| kind == FileKind::File && version == self.version);
        same && (self.coding != Coding::Identity || siblings_of(root, path) == self.siblings)
    }

    /// Memory that the entry uses in the cache, in bytes: content, head, and the entry itself.
    pub fn memory_bytes(&self) -> u64 {
        let body_bytes = match &self.body {
            Body::Memory(content) => content.len() as u64,
            Body::File(_) => 0,
        };
        body_bytes + self.head.len() as u64 + 512
    }
}

/// The codings of the compressed files beside a file.
fn siblings_of(root: &RootFolder, path: &[u8]) -> CodingSet {
    let is_file = |coding: &Coding| {
        root.open_path(&file_path(path, *coding))
            .and_then(file_version)
            .is_ok_and(|(kind, _)| kind == FileKind::File)
    };
    Coding::COMPRESSED
        .into_iter()
        .filter(is_file)
        .fold(CodingSet::default(), CodingSet::with)
}

/// The content of a file, up to the length that the file had when it was opened. A growing file,
/// such as a log, is served up to that length.
///
/// `None` if the file became shorter, has no length (procfs), or was overwritten while it was read.
/// The last attempt accepts an overwritten file.
fn read_whole(
    file: &File,
    version: FileVersion,
    is_last_try: bool,
) -> io::Result<Option<Arc<Content>>> {
    let size = usize::try_from(version.size_bytes).map_err(io::Error::other)?;
    let content = Content::filled(size, |bytes| {
        file.take(version.size_bytes).read_to_end(bytes).map(|_| ())
    })?;
    // Read a byte beyond the end, to detect files whose length the kernel does not store (procfs).
    let has_more = file.read_at(&mut [0], version.size_bytes)? > 0;
    let (_, after) = file_version(file)?;
    let has_grown = after.size_bytes > version.size_bytes;
    let has_length = has_grown || !has_more;
    let is_stable = has_grown || after == version || is_last_try;
    let is_whole = content.len() == size && has_length && is_stable;
    Ok(is_whole.then(|| Arc::new(content)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_entry_is_current_until_its_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.html"), "one").unwrap();
        let root = RootFolder::open(folder.path()).unwrap();
        let entry = Entry::load(&root, b"/a.html", Coding::Identity, 100).unwrap();
        assert!(entry.is_current(&root, b"/a.html"));
        assert!(matches!(&entry.body, Body::Memory(content) if ***content == *b"one"));
        fs::write(folder.path().join("a.html.gz"), "zipped").unwrap();
        assert!(!entry.is_current(&root, b"/a.html"), "it has a sibling now");
        fs::remove_file(folder.path().join("a.html")).unwrap();
        assert!(!entry.is_current(&root, b"/a.html"));
    }

    #[test]
    fn folders_and_missing_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        let root = RootFolder::open(folder.path()).unwrap();
        let rejection = |path: &[u8]| Entry::load(&root, path, Coding::Identity, 9).unwrap_err();
        assert_eq!(rejection(b"/sub"), FileError::Folder);
        assert_eq!(rejection(b"/sub/"), FileError::Missing);
        assert_eq!(rejection(b"/none"), FileError::Missing);
    }
}
