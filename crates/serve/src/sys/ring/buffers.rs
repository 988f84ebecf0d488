//! Buffers that the kernel picks from when bytes arrive.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use crate::sys::map;

/// How many there are: a power of two.
const BUFFERS: u16 = 256;

/// Size of one, in bytes. Whoever sends more is read again.
pub const BUFFER_BYTES: usize = 16_384;

/// The group of these buffers: the only one.
pub const GROUP: u16 = 0;

/// Bytes of all buffers.
const POOL_BYTES: usize = BUFFERS as usize * BUFFER_BYTES;

/// Bytes of the ring that tells the kernel of them.
const RING_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();

/// The buffers of a ring. They stay mapped when this is dropped, see [`Self::free`].
pub struct Buffers {
    memory: NonNull<u8>,
    entries: NonNull<BufRingEntry>,
    tail: u16,
}

impl Buffers {
    /// Buffers that a ring has for reads of [`GROUP`].
    ///
    /// # Errors
    /// No memory, or a kernel before 5.19.
    pub fn new(submitter: &Submitter<'_>) -> io::Result<Self> {
        let memory = map(POOL_BYTES, libc::MAP_PRIVATE)?;
        let entries = map(RING_BYTES, libc::MAP_PRIVATE)?;
        // SAFETY: the entries are a mapping of their own, aligned to a page, of this many entries,
        // and stay mapped as long as the ring is there.
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

    /// Appends what the kernel put into a buffer, and gives the buffer back.
    pub fn take(&mut self, number: u16, count: usize, received: &mut Vec<u8>) {
        let offset = usize::from(number % BUFFERS) * BUFFER_BYTES;
        // SAFETY: the buffer lies within the pool, the kernel filled `count` bytes of it and does
        // not touch it again before it is provided anew.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(offset), count.min(BUFFER_BYTES))
        };
        received.extend_from_slice(bytes);
        self.provide(number);
    }

    /// Gives the kernel a buffer.
    fn provide(&mut self, number: u16) {
        let place = usize::from(self.tail & (BUFFERS - 1));
        let offset = usize::from(number % BUFFERS) * BUFFER_BYTES;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `place` is within the mapping of entries, which only this thread writes; the
        // tail is an aligned u16 in the first entry that the kernel reads atomically.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(self.memory.as_ptr().add(offset) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No read is under way, and the buffers are not used again.
    pub unsafe fn free(&mut self, submitter: &Submitter<'_>) {
        // SAFETY: by the above the kernel touches neither mapping any more, and nobody else has
        // them.
        unsafe {
            libc::munmap(self.memory.as_ptr().cast(), POOL_BYTES);
            if submitter.unregister_buf_ring(GROUP).is_ok() {
                libc::munmap(self.entries.as_ptr().cast(), RING_BYTES);
            }
        }
    }
}
