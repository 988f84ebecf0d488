//! System calls that no crate in use wraps safely. All `unsafe` code of this crate stands in this
//! file and in `sys/ring`, which wraps an io_uring.
#![expect(
    unsafe_code,
    reason = "each call is wrapped here, with its reason to be sound"
)]

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use crate::counters::Counters;

pub mod ring;

/// Counters that forked processes share with their parent.
#[derive(Debug)]
pub struct CounterTable {
    base: NonNull<Counters>,
    workers: usize,
}

// SAFETY: the table is a slice of atomics, which any thread may use; it is unmapped only by drop.
unsafe impl Send for CounterTable {}
// SAFETY: as above.
unsafe impl Sync for CounterTable {}

impl CounterTable {
    /// Counters for so many workers, all zero.
    ///
    /// # Errors
    /// No memory.
    pub fn new(workers: usize) -> io::Result<Self> {
        let bytes = workers.max(1) * size_of::<Counters>();
        let base = map(bytes, libc::MAP_SHARED)?;
        Ok(Self {
            base,
            workers: workers.max(1),
        })
    }
}

/// Zeroed memory, aligned to a page; `sharing` says whether forked processes see each other's.
fn map<T>(bytes: usize, sharing: c_int) -> io::Result<NonNull<T>> {
    // SAFETY: an anonymous mapping at no given address touches no memory of ours.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            sharing | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)
}

impl Deref for CounterTable {
    type Target = [Counters];

    fn deref(&self) -> &[Counters] {
        // SAFETY: the mapping has room for `workers` counters, is aligned to a page, and its zero
        // bytes are valid atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.workers) }
    }
}

impl Drop for CounterTable {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and nobody borrows it any more.
        unsafe {
            libc::munmap(
                self.base.as_ptr().cast(),
                self.workers * size_of::<Counters>(),
            )
        };
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Page faults without disk.
    pub minor_faults: u64,
    /// Page faults with disk.
    pub major_faults: u64,
    /// Times it waited.
    pub voluntary_switches: u64,
    /// Times it was put off the CPU.
    pub involuntary_switches: u64,
}

impl Usage {
    /// CPU time in both modes, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Page faults of both kinds.
    pub fn faults(&self) -> u64 {
        self.minor_faults + self.major_faults
    }

    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }
}

/// What this process, all its threads, has used.
pub fn own_usage() -> Usage {
    usage(libc::RUSAGE_SELF)
}

/// What this process's ended and waited-for children have used.
pub fn ended_children_usage() -> Usage {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(who: c_int) -> Usage {
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure it is given; all zero bytes are valid before that.
    let raw = unsafe {
        libc::getrusage(who, raw.as_mut_ptr());
        raw.assume_init()
    };
    let nanoseconds =
        |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Usage {
        user_ns: nanoseconds(raw.ru_utime),
        system_ns: nanoseconds(raw.ru_stime),
        minor_faults: raw.ru_minflt as u64,
        major_faults: raw.ru_majflt as u64,
        voluntary_switches: raw.ru_nvcsw as u64,
        involuntary_switches: raw.ru_nivcsw as u64,
    }
}

/// Forks. `None` in the child.
///
/// The child has only the calling thread: it must not wait for any other.
///
/// # Errors
/// No memory or too many processes.
pub fn fork() -> io::Result<Option<i32>> {
    // SAFETY: glibc makes its allocator usable after a fork, and the caller keeps away from locks
    // that another thread may have held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

/// Ends this process at once, without running what the parent registered for its own end.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit does not return and touches no memory.
    unsafe { libc::_exit(status) }
}

/// Becomes another user in all threads, for good: groups, group and user.
///
/// # Errors
/// Not permitted.
pub fn become_user(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: a count of zero needs no list; the others take numbers alone. glibc changes all
    // threads.
    let results = unsafe {
        [
            libc::setgroups(0, ptr::null()),
            libc::setresgid(group, group, group),
            libc::setresuid(user, user, user),
        ]
    };
    match results.iter().any(|&result| result != 0) {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// cachestat(2)'s range and answer, `include/uapi/linux/mman.h`.
#[repr(C)]
struct CacheRange {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct CacheState {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// cachestat's number, the same on all architectures; since Linux 6.5.
const SYS_CACHESTAT: libc::c_long = 451;

/// How many pages of a part of a file are in memory.
///
/// # Errors
/// The kernel or the file system does not tell.
pub fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<u64> {
    let range = CacheRange { offset, length };
    let mut state = CacheState::default();
    // SAFETY: both structures live through the call and have the kernel's layout.
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
