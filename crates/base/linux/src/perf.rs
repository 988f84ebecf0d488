//! Perf events of one CPU, and the ring of samples that they share with the kernel
//! (perf_event_open(2)).

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys as perf;
pub use perf_event_open_sys::bindings;
use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr, perf_event_mmap_page};
use rustix::mm::{MapFlags, ProtFlags};

/// An event of all processes on one CPU.
#[derive(Debug)]
pub struct Event {
    file: File,
}

impl Event {
    /// Opens an event, in the group of `leader` if there is one.
    ///
    /// # Errors
    /// The errors of perf_event_open(2).
    pub fn open(attr: &perf_event_attr, cpu: usize, leader: Option<&Self>) -> io::Result<Self> {
        let mut attr = *attr;
        let cpu = i32::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let group = leader.map_or(-1, |leader| leader.file.as_raw_fd());
        // SAFETY: `attr` is an initialised structure, and its size field is its size. The kernel
        // writes only that field.
        let fd = unsafe {
            perf::perf_event_open(&raw mut attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC.into())
        };
        crate::check(fd)?;
        // SAFETY: the descriptor is new and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { file: fd.into() })
    }

    /// Starts the counts of the event and its group.
    ///
    /// # Errors
    /// The errors of ioctl(2).
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the request passes a flag by value and accesses no memory of this process.
        crate::check(unsafe { perf::ioctls::ENABLE(self.file.as_raw_fd(), WHOLE_GROUP) }).map(drop)
    }

    /// Sets the counts of the event and its group to zero.
    ///
    /// # Errors
    /// The errors of ioctl(2).
    pub fn reset(&self) -> io::Result<()> {
        // SAFETY: as for `enable`.
        crate::check(unsafe { perf::ioctls::RESET(self.file.as_raw_fd(), WHOLE_GROUP) }).map(drop)
    }

    /// Stops the event and its group.
    ///
    /// # Errors
    /// The errors of ioctl(2).
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: as for `enable`.
        crate::check(unsafe { perf::ioctls::DISABLE(self.file.as_raw_fd(), WHOLE_GROUP) }).map(drop)
    }

    /// Reads the counts of the group into `bytes`, in the format of the attributes.
    ///
    /// # Errors
    /// The errors of read(2).
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(bytes)
    }
}

/// The ioctl argument that means the event's whole group (`PERF_IOC_FLAG_GROUP`).
const WHOLE_GROUP: u32 = 1;

/// Number of pages of the largest ring. They are enough for half a second of deep call chains at 2
/// kHz.
const PAGES: usize = 128;

/// Smallest number of pages of a ring.
const MIN_PAGES: usize = 4;

/// The ring of an event's samples.
///
/// The mapping begins with a page of control data. The ring begins at `data_offset`, which is not
/// always one page. Head and tail only grow. See include/uapi/linux/perf_event.h.
#[derive(Debug)]
pub struct SampleRing {
    mapping: Mapping,
    start: usize,
    size: usize,
    tail: u64,
}

impl SampleRing {
    /// Maps an event's ring. The ring is smaller if the user may not lock so much memory
    /// (/proc/sys/kernel/perf_event_mlock_kb).
    ///
    /// # Errors
    /// The errors of mmap(2).
    pub fn map(event: &Event) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let mut pages = PAGES;
        let mapping = loop {
            match Mapping::new(event, (pages + 1) * page_bytes) {
                Ok(mapping) => break mapping,
                Err(_) if pages > MIN_PAGES => pages /= 2,
                Err(error) => return Err(error),
            }
        };
        let (start, size) = mapping.layout();
        if !size.is_power_of_two() {
            return Err(io::Error::other("the kernel's ring has no size"));
        }
        Ok(Self {
            mapping,
            start,
            size,
            tail: 0,
        })
    }

    /// Appends to `out` everything that the kernel has written since the last call.
    ///
    /// # Errors
    /// Head and size of the ring contradict each other.
    pub fn drain(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let head = self.mapping.head();
        let (first, second) = pieces(self.tail, head, self.size)
            .ok_or_else(|| io::Error::other("the kernel's ring was overrun"))?;
        let read = self.mapping.copy(self.start + first.0, first.1, out)
            && self.mapping.copy(self.start, second, out);
        if !read {
            return Err(io::Error::other(
                "the kernel's ring is larger than its mapping",
            ));
        }
        self.tail = head;
        self.mapping.set_tail(head);
        Ok(())
    }
}

/// The bytes between tail and head in a ring of `size` bytes. Returns offset and length of the part
/// before the ring's end, and the length of the part at the ring's start. `None` if there are more
/// bytes than the ring has.
fn pieces(tail: u64, head: u64, size: usize) -> Option<((usize, usize), usize)> {
    let length = usize::try_from(head.checked_sub(tail)?).ok()?;
    if length > size {
        return None;
    }
    let offset = (tail & (size as u64 - 1)) as usize;
    let first = length.min(size - offset);
    Some(((offset, first), length - first))
}

/// The memory that an event shares with the kernel: a page of control data, then the ring.
#[derive(Debug)]
struct Mapping {
    base: NonNull<c_void>,
    length: usize,
}

impl Mapping {
    fn new(event: &Event, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event.file.as_fd(),
                0,
            )?
        };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    fn page(&self) -> *mut perf_event_mmap_page {
        self.base.as_ptr().cast()
    }

    /// Offset and length of the ring.
    fn layout(&self) -> (usize, usize) {
        let page = self.page();
        // SAFETY: the mapping begins with this structure and is at least a page long; the kernel
        // does not change these two fields.
        let (offset, size) = unsafe {
            (
                ptr::read_volatile(&raw const (*page).data_offset),
                ptr::read_volatile(&raw const (*page).data_size),
            )
        };
        (offset as usize, size as usize)
    }

    /// The end of the data that the kernel has written, in bytes since the start.
    fn head(&self) -> u64 {
        let page = self.page();
        // SAFETY: `data_head` is an aligned u64 in the mapping; both sides access it atomically, as
        // the kernel's documentation of the ring demands.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) }.load(Ordering::Acquire)
    }

    /// Reports to the kernel how far this process has read.
    fn set_tail(&self, tail: u64) {
        let page = self.page();
        // SAFETY: as for `head`; only we write `data_tail`.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_tail) }.store(tail, Ordering::Release);
    }

    /// Appends `length` bytes from `start` in the mapping to `out`. Returns false if the range is
    /// outside the mapping. The range must be between tail and head.
    fn copy(&self, start: usize, length: usize, out: &mut Vec<u8>) -> bool {
        if start
            .checked_add(length)
            .is_none_or(|end| end > self.length)
        {
            return false;
        }
        let from = self.base.as_ptr().cast::<u8>();
        out.reserve(length);
        // SAFETY: the source is in the mapping, and the kernel does not write between tail and
        // head. The destination has room and does not overlap the source. Its new length includes
        // only bytes that were written.
        unsafe {
            let end = out.as_mut_ptr().add(out.len());
            ptr::copy_nonoverlapping(from.add(start), end, length);
            out.set_len(out.len() + length);
        }
        true
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the range, and nothing borrows from it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_that_wrap_are_two_pieces() {
        assert_eq!(pieces(4096 - 8, 4096 + 16, 4096), Some(((4088, 8), 16)));
        assert_eq!(pieces(8192, 8192 + 24, 4096), Some(((0, 24), 0)));
        assert_eq!(pieces(0, 4096, 4096), Some(((0, 4096), 0)));
    }

    #[test]
    fn a_head_more_than_a_ring_ahead_is_an_error() {
        assert_eq!(pieces(0, 4097, 4096), None);
        assert_eq!(pieces(5, 4, 4096), None);
    }

    proptest! {
        #[test]
        fn pieces_cover_exactly_what_was_written(tail in 0_u64..1 << 40, length in 0_usize..=65_536) {
            let ((offset, first), second) = pieces(tail, tail + length as u64, 65_536).unwrap();
            prop_assert_eq!(first + second, length);
            prop_assert!(offset + first <= 65_536 && second <= offset);
        }
    }
}
