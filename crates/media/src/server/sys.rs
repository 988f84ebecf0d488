//! The calls that have no safe wrapper for what is needed here: sending from memory that a file is
//! mapped into, mapping it, and asking what the process used.
//!
//! A file that is cut short while it is mapped makes its pages vanish: touching them would kill the
//! process. So nothing here touches them or makes a slice of them; the kernel reads them for
//! `sendmsg`, which answers `EFAULT`, and `MADV_POPULATE_READ` tries them out in a reader's thread.
#![expect(
    unsafe_code,
    reason = "mapped files may vanish, so they are never slices"
)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use socket2::SockAddr;

use super::counters::{ContextSwitches, PageFaults};

/// Room for the one control message that a send may carry: its head and two bytes, aligned.
const CONTROL_BYTES: usize = 24;

/// What the process used since it started.
pub(super) struct Usage {
    /// Seconds of processor time.
    pub(super) cpu_s: f64,
    /// Page faults.
    pub(super) page_faults: PageFaults,
    /// Context switches.
    pub(super) context_switches: ContextSwitches,
}

/// Asks the kernel what the process used (`getrusage(2)`).
pub(super) fn usage() -> Usage {
    // SAFETY: all zeros are a valid value, and the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Usage {
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        page_faults: PageFaults {
            minor: usage.ru_minflt as u64,
            major: usage.ru_majflt as u64,
        },
        context_switches: ContextSwitches {
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
        },
    }
}

/// Bytes somewhere in memory, given to the kernel to read.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Part(libc::iovec);

// SAFETY: a part's pointer is followed only during the send of the batch it was added to, while what
// it points to is borrowed; between batches it is only room.
unsafe impl Send for Part {}

/// A batch to send, whose parts live at least as long as it does.
pub(super) struct Gather<'a> {
    parts: &'a mut Vec<Part>,
}

impl<'a> Gather<'a> {
    /// An empty batch that uses `parts` for room.
    pub(super) fn new(parts: &'a mut Vec<Part>) -> Self {
        parts.clear();
        Self { parts }
    }

    /// Adds bytes of ours.
    pub(super) fn add(&mut self, bytes: &'a [u8]) {
        self.parts.push(Part(libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        }));
    }

    /// Adds bytes of a mapping; fewer where the mapping ends.
    pub(super) fn add_mapped(&mut self, mapping: &'a Mapping, offset: usize, length: usize) {
        let offset = offset.min(mapping.length);
        let length = length.min(mapping.length - offset);
        self.parts.push(Part(libc::iovec {
            // SAFETY: the offset is within the mapping, which lives as long as the batch.
            iov_base: unsafe { mapping.start.byte_add(offset) },
            iov_len: length,
        }));
    }

    /// Sends the batch without waiting, to an address unless the socket is connected;
    /// `segment_bytes` cuts it into
    /// datagrams of that size (UDP generic segmentation offload, `udp(7)`).
    ///
    /// # Errors
    /// As `sendmsg(2)`: `EFAULT` for a mapping whose file was cut short.
    pub(super) fn send(
        self,
        socket: BorrowedFd<'_>,
        to: Option<&SockAddr>,
        segment_bytes: Option<u16>,
    ) -> io::Result<usize> {
        let mut control = Control([0; CONTROL_BYTES]);
        // SAFETY: all zeros are a valid message header.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.parts.as_mut_ptr().cast();
        message.msg_iovlen = self.parts.len();
        if let Some(to) = to {
            message.msg_name = to.as_ptr().cast_mut().cast();
            message.msg_namelen = to.len();
        }
        if let Some(segment) = segment_bytes {
            control.0[0..8].copy_from_slice(&(16usize + 2).to_ne_bytes());
            control.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
            control.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
            control.0[16..18].copy_from_slice(&segment.to_ne_bytes());
            message.msg_control = ptr::from_mut(&mut control).cast();
            message.msg_controllen = CONTROL_BYTES;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the header points to parts, an address and control data that outlive the call; the kernel
        // only reads them, and answers with an error where memory behind a part is gone.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// A control message, aligned as the kernel expects its head.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// A file in memory, only ever read by the kernel.
#[derive(Debug)]
pub(super) struct Mapping {
    start: *mut c_void,
    length: usize,
}

// SAFETY: the mapping is never written nor read from user space; the kernel may read it from any
// thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file.
    pub(super) fn new(file: &File, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing of ours.
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
        // SAFETY: advice on our own mapping changes no content.
        unsafe { madvise(start, length, Advice::Sequential)? };
        Ok(Self { start, length })
    }

    /// Brings pages into memory, waiting for the disk: from a reader's thread.
    ///
    /// # Errors
    /// The file was cut short, or cannot be read.
    pub(super) fn populate(&self, offset: usize, length: usize) -> io::Result<()> {
        let page = rustix::param::page_size();
        let start = offset.min(self.length) / page * page;
        let end = (offset + length).min(self.length);
        if end <= start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the range is within the mapping, and populating changes no content.
        unsafe {
            let at = self.start.byte_add(start);
            Ok(madvise(at, end - start, Advice::LinuxPopulateRead)?)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more; failure would leave it mapped.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
