//! A file in memory that only the kernel reads.
//!
//! If a file shrinks while it is mapped, its last pages vanish. An access to them would kill the
//! process, so this module neither reads them nor makes a slice of them. The kernel reads the pages
//! for [`SendBatch`](crate::udp::SendBatch) and returns `EFAULT` if they have vanished.
//! [`MappedFile::populate`] detects this before a send.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

#[derive(Debug)]
pub struct MappedFile {
    start: *mut c_void,
    length: usize,
}

// SAFETY: user space neither writes nor reads the mapping; the kernel may read it from any thread.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the first `length` bytes of a file.
    ///
    /// # Errors
    /// The errors of mmap(2).
    pub fn new(file: &File, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let mapped = Self { start, length };
        // SAFETY: advice on our own mapping changes no content.
        unsafe { madvise(start, length, Advice::Sequential)? };
        Ok(mapped)
    }

    /// Address and length of the part of `offset..offset + length` that is in the mapping.
    pub(crate) fn part(&self, offset: usize, length: usize) -> (*mut c_void, usize) {
        let offset = offset.min(self.length);
        let length = length.min(self.length - offset);
        // SAFETY: the offset is within the mapping, or one past it.
        (unsafe { self.start.byte_add(offset) }, length)
    }

    /// Reads pages into memory and waits for the disk.
    ///
    /// # Errors
    /// The file shrank, or cannot be read.
    pub fn populate(&self, offset: usize, length: usize) -> io::Result<()> {
        let page = rustix::param::page_size();
        let start = offset.min(self.length) / page * page;
        let end = offset.saturating_add(length).min(self.length);
        if end <= start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (at, length) = self.part(start, end - start);
        // SAFETY: the range is within the mapping, and populating changes no content.
        unsafe { Ok(madvise(at, length, Advice::LinuxPopulateRead)?) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more. If the call failed, the memory would stay
        // mapped.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
