//! The system calls that have no safe wrapper: perf events, their ioctls, and the memory they
//! share with the kernel.

#![expect(
    unsafe_code,
    reason = "perf_event_open, its ioctls and its ring buffer have no safe wrapper"
)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr, perf_event_mmap_page};
use rustix::mm::{MapFlags, ProtFlags};

/// Opens an event for all processes on one processor, in the group of `leader` if there is one.
pub fn open(attr: &perf_event_attr, cpu: u32, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut attr = *attr;
    let cpu = i32::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` is a live, initialized structure whose size field is its size; the call has
    // no other memory effects.
    let fd = unsafe {
        perf::perf_event_open(&raw mut attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC.into())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    On,
    Off,
}

/// The ioctl argument that means the event's whole group (`PERF_IOC_FLAG_GROUP`).
const WHOLE_GROUP: u32 = 1;

/// Turns an event and its group on or off.
pub fn switch(event: &OwnedFd, switch: Switch) -> io::Result<()> {
    let event = event.as_raw_fd();
    // SAFETY: both requests take a flag by value and touch no memory of ours.
    let result = unsafe {
        match switch {
            Switch::On => perf::ioctls::ENABLE(event, WHOLE_GROUP),
            Switch::Off => perf::ioctls::DISABLE(event, WHOLE_GROUP),
        }
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The memory an event shares with the kernel: one page of control data, then the ring.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<c_void>,
    length: usize,
}

impl Shared {
    /// Maps `length` bytes of an event: a page more than the ring, which is a power of two of pages.
    pub fn map(event: &OwnedFd, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address the kernel chooses overlaps nothing of ours; it is
        // unmapped in `drop` and reached through this structure alone.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event,
                0,
            )?
        };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    /// Where in the mapping the ring begins and how long it is.
    pub fn layout(&self) -> (usize, usize) {
        let page = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping begins with this structure and is at least a page long; these two
        // fields are constant after the mapping is made.
        let (offset, size) = unsafe {
            (
                ptr::read_volatile(&raw const (*page).data_offset),
                ptr::read_volatile(&raw const (*page).data_size),
            )
        };
        (offset as usize, size as usize)
    }

    /// How far the kernel has written, in bytes since the beginning. What lies before is readable.
    pub fn head(&self) -> u64 {
        let page = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: `data_head` is an aligned u64 inside the mapping, which lives as long as `self`;
        // kernel and we access it as an atomic, as the kernel's documentation of the ring asks.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) }.load(Ordering::Acquire)
    }

    /// Tells the kernel how far we have read.
    pub fn set_tail(&self, tail: u64) {
        let page = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: as for `head`; only we write `data_tail`.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_tail) }.store(tail, Ordering::Release);
    }

    /// Appends `length` bytes from `start` in the mapping to `out`; false if they lie outside it.
    pub fn copy(&self, start: usize, length: usize, out: &mut Vec<u8>) -> bool {
        if start
            .checked_add(length)
            .is_none_or(|end| end > self.length)
        {
            return false;
        }
        let from = self.base.as_ptr().cast::<u8>();
        out.reserve(length);
        // SAFETY: the source range was checked to lie in the mapping; the destination has room for
        // it, does not overlap it, and its length grows only over what was written. The kernel
        // does not write between tail and head, the only range that callers ask for.
        unsafe {
            let end = out.as_mut_ptr().add(out.len());
            ptr::copy_nonoverlapping(from.add(start), end, length);
            out.set_len(out.len() + length);
        }
        true
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: base and length are those of our own mapping, and nothing borrows from it now.
        // An error would mean they were not, and there is nobody to tell.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.length) };
    }
}

/// Whether the kernel answers to `io_uring_setup`. Nothing is set up.
pub fn io_uring_is_there() -> io::Result<()> {
    // SAFETY: the null pointer is in the place of a structure that the kernel checks before use: it
    // answers EFAULT or EINVAL where the call exists.
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_setup, 0_u32, ptr::null_mut::<c_void>()) };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM) if result < 0 => Err(error),
        _ => Ok(()),
    }
}
