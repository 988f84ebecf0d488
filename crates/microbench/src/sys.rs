//! What the kernel offers and no safe wrapper gives: mappings, and processes that share them.
#![expect(
    unsafe_code,
    reason = "mapping memory, advising the kernel about it and forking have no safe wrapper"
)]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU32;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::error::BenchError;

/// Alignment from which the kernel can use large pages, on x86-64 and on most of arm64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Words of one's own, straight from the kernel and zero at first.
#[derive(Debug)]
pub struct Words {
    mapping: NonNull<u64>,
    mapped_bytes: usize,
    start: NonNull<u64>,
    length: usize,
}

impl Words {
    /// `length` words. With `huge`, the kernel is asked for large pages, which it may not have.
    pub fn new(length: usize, huge: bool) -> Result<Self, BenchError> {
        let spare_bytes = if huge { HUGE_PAGE_BYTES } else { 0 };
        let mapped_bytes = length
            .saturating_mul(size_of::<u64>())
            .saturating_add(spare_bytes);
        let mapping: NonNull<u64> = map(mapped_bytes, MapFlags::PRIVATE)?.cast();
        let mut start = mapping;
        if huge {
            // SAFETY: the range is the mapping just made. Advice changes no content; a kernel that
            // knows no huge pages refuses it, and then the pages are ordinary ones.
            let _ =
                unsafe { madvise(mapping.as_ptr().cast(), mapped_bytes, Advice::LinuxHugepage) };
            // SAFETY: less than `spare_bytes` further, so `length` words are still in the mapping.
            start = unsafe { mapping.byte_add(mapping.as_ptr().align_offset(HUGE_PAGE_BYTES) * 8) };
        }
        Ok(Self {
            mapping,
            mapped_bytes,
            start,
            length,
        })
    }
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: `start` begins `length` words of a mapping, aligned to a page, readable, initialised
        // by the kernel, private to this value and alive until it is dropped.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as for `deref`, and writable; `&mut self` makes the reference the only one.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and no reference outlives the value.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// A lock with a cache line pair of its own, so that no two locks move together.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Slot {
    /// What the lock says; the ring gives it its meaning.
    pub state: AtomicU32,
}

/// Locks that processes forked later share with this one; all zero at first.
#[derive(Debug)]
pub struct Slots {
    start: NonNull<Slot>,
    length: usize,
}

// SAFETY: a slot is an atomic, which any thread may use through a shared reference, and the mapping
// lives as long as the value.
unsafe impl Sync for Slots {}

impl Slots {
    pub fn new(length: usize) -> Result<Self, BenchError> {
        let start = map(length * size_of::<Slot>(), MapFlags::SHARED)?.cast();
        Ok(Self { start, length })
    }
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        // SAFETY: `start` is a mapping of `length` slots, aligned to a page; zero is a valid state;
        // it is changed through the atomics alone, by whichever process.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`; children have mappings of their own.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length * size_of::<Slot>()) };
    }
}

fn map(bytes: usize, sharing: MapFlags) -> Result<NonNull<libc::c_void>, BenchError> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: an anonymous mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, sharing) }
        .map_err(|error| BenchError::Memory {
            bytes,
            source: error.into(),
        })?;
    NonNull::new(start).ok_or_else(|| BenchError::Memory {
        bytes,
        source: io::ErrorKind::OutOfMemory.into(),
    })
}

/// A forked process, which is waited for when dropped: whoever drops it has told it to end.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
}

impl Child {
    /// Forks a process that does `work` and ends.
    ///
    /// `work` must use only what it finds: no allocation, no lock of the standard library, since
    /// another thread may have held one at the time of the fork.
    pub fn fork(work: impl FnOnce()) -> io::Result<Self> {
        // SAFETY: the child runs `work`, which by contract takes no lock and allocates nothing, and
        // then `_exit`, which runs no destructors and no handlers of the parent.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // Without a parent nobody would open this child's lock again.
                let _ = rustix::process::set_parent_process_death_signal(Some(
                    rustix::process::Signal::KILL,
                ));
                work();
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(0) }
            }
            number => Pid::from_raw(number)
                .map(|pid| Self { pid })
                .ok_or_else(|| io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        while matches!(
            waitpid(Some(self.pid), WaitOptions::empty()),
            Err(rustix::io::Errno::INTR)
        ) {}
    }
}
