//! Buffers from which the kernel picks one when bytes arrive.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, munmap};

use crate::memory::map;

/// Number of buffers. It must be a power of two.
const BUFFERS: u16 = 256;

/// Size of one buffer in bytes. If more bytes arrive, they use another buffer.
pub const BUFFER_BYTES: usize = 16_384;

/// The group of these buffers. There is only one group.
pub const GROUP: u16 = 0;

const POOL_BYTES: usize = BUFFERS as usize * BUFFER_BYTES;

/// Bytes of the ring that lists free buffers for the kernel.
const RING_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();

/// The buffers of a ring. Dropping this leaves them mapped, see [`Self::free`].
pub struct Buffers {
    memory: NonNull<u8>,
    entries: NonNull<BufRingEntry>,
    tail: u16,
}

impl Buffers {
    /// Maps buffers and registers them for receives of [`GROUP`].
    ///
    /// # Errors
    /// There is not enough memory, or the kernel is older than 5.19.
    pub fn new(submitter: &Submitter<'_>) -> io::Result<Self> {
        let memory = map(POOL_BYTES, MapFlags::PRIVATE)?;
        let entries = map(RING_BYTES, MapFlags::PRIVATE)?;
        // SAFETY: the entries are a mapping of their own, aligned to a page, of this many entries,
        // and stay mapped as long as the ring exists.
        unsafe {
            submitter.register_buf_ring_with_flags(entries.as_ptr() as u64, BUFFERS, GROUP, 0)?;
        }
        let mut buffers = Self {
            memory,
            entries,
            tail: 0,
        };
        for number in 0..BUFFERS {
            buffers.provide(number);
        }
        Ok(buffers)
    }

    /// Appends the bytes that the kernel received into a buffer to `received`, and returns the
    /// buffer to the kernel.
    pub fn copy_out(&mut self, number: u16, count: usize, received: &mut Vec<u8>) {
        let offset = usize::from(number % BUFFERS) * BUFFER_BYTES;
        // SAFETY: the buffer is within the pool; the kernel filled `count` bytes of it and does not
        // touch it again before it is provided anew.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(offset), count.min(BUFFER_BYTES))
        };
        received.extend_from_slice(bytes);
        self.provide(number);
    }

    /// Provides the kernel with a buffer.
    fn provide(&mut self, number: u16) {
        let place = usize::from(self.tail & (BUFFERS - 1));
        let offset = usize::from(number % BUFFERS) * BUFFER_BYTES;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `place` is within the mapping of entries, which only this thread writes. The
        // tail is an aligned u16 in the first entry, and the kernel reads it atomically.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(self.memory.as_ptr().add(offset) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Unmaps the memory.
    ///
    /// # Safety
    /// No receive is under way, and nobody uses the buffers again.
    pub unsafe fn free(&mut self, submitter: &Submitter<'_>) {
        // SAFETY: by the contract the kernel touches neither mapping, and we own them.
        unsafe {
            let _ = munmap(self.memory.as_ptr().cast(), POOL_BYTES);
            if submitter.unregister_buf_ring(GROUP).is_ok() {
                let _ = munmap(self.entries.as_ptr().cast(), RING_BYTES);
            }
        }
    }
}
