//! Reads an event's ring buffer: bytes in, whole records out.
//!
//! The ring begins at `data_offset`, which is not always one page; a record may wrap around its
//! end; head and tail only ever grow. See `include/uapi/linux/perf_event.h` of Linux.

use std::io;
use std::os::fd::OwnedFd;

use crate::capture::sys::Shared;

/// Pages of a ring that is tried first: half a second of deep call chains at 2 kHz.
const PAGES: usize = 128;

/// Fewest pages worth having.
const FEWEST_PAGES: usize = 4;

/// Bytes of a record's header: type, mode and size.
pub const HEADER_BYTES: usize = 8;

/// The ring of one event.
#[derive(Debug)]
pub struct Ring {
    shared: Shared,
    start: usize,
    size: usize,
    tail: u64,
}

impl Ring {
    /// Maps an event's ring, smaller where the user may lock less memory
    /// (`/proc/sys/kernel/perf_event_mlock_kb`).
    pub fn map(event: &OwnedFd) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let mut pages = PAGES;
        let shared = loop {
            match Shared::map(event, (pages + 1) * page_bytes) {
                Ok(shared) => break shared,
                Err(_) if pages > FEWEST_PAGES => pages /= 2,
                Err(error) => return Err(error),
            }
        };
        let (start, size) = shared.layout();
        if !size.is_power_of_two() {
            return Err(io::Error::other("the kernel's ring has no size"));
        }
        Ok(Self {
            shared,
            start,
            size,
            tail: 0,
        })
    }

    /// Appends everything the kernel has written since the last call to `out`, and frees it.
    pub fn take(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let head = self.shared.head();
        let (first, second) = pieces(self.tail, head, self.size)
            .ok_or_else(|| io::Error::other("the kernel's ring was overrun"))?;
        let read = self.shared.copy(self.start + first.0, first.1, out)
            && self.shared.copy(self.start, second, out);
        if !read {
            return Err(io::Error::other(
                "the kernel's ring is larger than its mapping",
            ));
        }
        self.tail = head;
        self.shared.set_tail(head);
        Ok(())
    }
}

/// What lies between tail and head in a ring of `size` bytes: place and length of the part before
/// the ring's end, and length of the part from its beginning. None if head is a ring ahead.
fn pieces(tail: u64, head: u64, size: usize) -> Option<((usize, usize), usize)> {
    let length = usize::try_from(head.checked_sub(tail)?).ok()?;
    if length > size {
        return None;
    }
    let place = (tail & (size as u64 - 1)) as usize;
    let first = length.min(size - place);
    Some(((place, first), length - first))
}

/// Cuts bytes into records: for each the place of its header and its length. Ends at the first
/// record that is not whole, which a ring read between head and tail never has.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = usize::from(u16::from_ne_bytes(rest.get(6..8)?.try_into().ok()?));
        if size < HEADER_BYTES {
            return None;
        }
        let (record, after) = rest.split_at_checked(size)?;
        rest = after;
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_that_wraps_is_read_in_two_pieces() {
        assert_eq!(pieces(4096 - 8, 4096 + 16, 4096), Some(((4088, 8), 16)));
        assert_eq!(pieces(8192, 8192 + 24, 4096), Some(((0, 24), 0)));
        assert_eq!(pieces(0, 4096, 4096), Some(((0, 4096), 0)));
    }

    #[test]
    fn a_head_more_than_a_ring_ahead_is_no_data() {
        assert_eq!(pieces(0, 4097, 4096), None);
        assert_eq!(pieces(5, 4, 4096), None);
    }

    proptest! {
        #[test]
        fn pieces_cover_just_what_was_written(tail in 0_u64..1 << 40, length in 0_usize..=65_536) {
            let ((place, first), second) = pieces(tail, tail + length as u64, 65_536).unwrap();
            prop_assert_eq!(first + second, length);
            prop_assert!(place + first <= 65_536 && second <= place);
        }

        #[test]
        fn no_bytes_break_the_cutter(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let cut: usize = records(&bytes).map(<[u8]>::len).sum();
            prop_assert!(cut <= bytes.len());
        }
    }
}
