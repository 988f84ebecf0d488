//! The part of a file that is in memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct cachestat_range` of include/uapi/linux/mman.h.
#[repr(C)]
struct CacheRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of include/uapi/linux/mman.h.
#[repr(C)]
#[derive(Default)]
struct CacheState {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The number of the system call cachestat(2). It is the same on all architectures. Linux has it
/// since 6.5.
const SYS_CACHESTAT: libc::c_long = 451;

/// The number of pages in `offset..offset + length` that are in memory.
///
/// # Errors
/// The kernel or the file system does not report it.
pub fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<u64> {
    let range = CacheRange { offset, length };
    let mut state = CacheState::default();
    // SAFETY: both structures outlive the call and have the kernel's layout.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut state,
            0u32,
        )
    };
    match result {
        0 => Ok(state.cached),
        _ => Err(io::Error::last_os_error()),
    }
}
