//! Whole responses with files that clients request many times within the same second.
//!
//! Two responses to plain requests for a file differ only in their date. Therefore, if a response
//! is requested often, the server builds it once a second, with head and body in one piece, and
//! sends it by reference. This saves the formatting, and the kernel gathers no pieces.

use std::sync::{Arc, Weak};

use crate::files::content::Content;
use crate::files::entry::{Body, Entry};

/// Maximum number of files with a prebuilt response at a time.
const SLOTS: u64 = 64;

/// With this many requests or more in a second, copying the body once saves time.
const THRESHOLD: u32 = 8;

/// Largest body of a prebuilt response, in bytes. With a larger body, the cost of a head is
/// negligible.
const LARGEST_BYTES: u64 = 1 << 16;

/// The responses of the current second.
#[derive(Debug)]
pub struct PrebuiltResponses {
    second: i64,
    slots: Box<[Slot]>,
}

/// A slot for one file. In each second, it belongs to the first file that hashes to it.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// A weak reference: it reserves the entry's address, which is the key, but does not keep the
    /// file in memory.
    entry: Weak<Entry>,
    requests: u32,
    response: Option<Arc<Content>>,
}

impl PrebuiltResponses {
    /// Prebuilt responses whose bodies have at most `limit_bytes` in total. A response of an
    /// earlier second that is still being sent is not counted.
    pub fn new(limit_bytes: u64) -> Self {
        let slots = (limit_bytes / LARGEST_BYTES).min(SLOTS);
        Self {
            second: 0,
            slots: vec![Slot::default(); slots as usize].into(),
        }
    }

    /// Counts a request for a file. Returns the prebuilt response if the file is requested often
    /// enough.
    ///
    /// `write_head` writes a head and pads it, so that the response is a whole number of cache
    /// lines, see [`crate::files::content`].
    #[inline]
    pub fn response(
        &mut self,
        entry: &Arc<Entry>,
        second: i64,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Arc<Content>> {
        if self.slots.is_empty() {
            return None;
        }
        if self.second != second {
            self.second = second;
            self.slots.fill_with(Slot::default);
        }
        let slot = &mut self.slots[hash(entry) % self.slots.len()];
        if slot.entry.as_ptr() != Arc::as_ptr(entry) && !slot.assign(entry) {
            return None;
        }
        if let Some(response) = &slot.response {
            return Some(Arc::clone(response));
        }
        slot.requests += 1;
        if slot.requests == THRESHOLD {
            slot.response = build(entry, write_head);
        }
        slot.response.clone()
    }
}

impl Slot {
    /// Assigns the slot to a file, if it is free and the file is small enough.
    fn assign(&mut self, entry: &Arc<Entry>) -> bool {
        let is_small =
            matches!(&entry.body, Body::Memory(body) if body.len() as u64 <= LARGEST_BYTES);
        let is_assigned = self.requests == 0 && is_small;
        if is_assigned {
            self.entry = Arc::downgrade(entry);
        }
        is_assigned
    }
}

/// A hash of an entry's address. Entries are at least a hundred bytes apart, so the lowest bits of
/// their addresses carry no information.
#[inline]
fn hash(entry: &Arc<Entry>) -> usize {
    let address = Arc::as_ptr(entry).addr();
    address >> 7 ^ address >> 13
}

#[cold]
fn build(entry: &Entry, write_head: impl FnOnce(&mut Vec<u8>)) -> Option<Arc<Content>> {
    let Body::Memory(body) = &entry.body else {
        return None;
    };
    let mut head = Vec::with_capacity(512);
    write_head(&mut head);
    let response = Content::filled(head.len() + body.len(), |bytes| {
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(body);
        Ok(())
    });
    // If memory is exhausted, head and body are sent in two pieces.
    response.ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpacket_http::coding::Coding;
    use perpacket_linux::root_folder::RootFolder;
    use std::fs;

    fn entry(size: usize) -> Arc<Entry> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![b'x'; size]).unwrap();
        let root = RootFolder::open(folder.path()).unwrap();
        Arc::new(Entry::load(&root, b"/a", Coding::Identity, 1 << 20).unwrap())
    }

    /// The result of the last of `times` requests for a file.
    fn requested(
        prebuilt: &mut PrebuiltResponses,
        entry: &Arc<Entry>,
        second: i64,
        times: u32,
    ) -> Option<Arc<Content>> {
        let write = |head: &mut Vec<u8>| head.extend_from_slice(format!("{second}:").as_bytes());
        (0..times)
            .map(|_| prebuilt.response(entry, second, write))
            .last()?
    }

    #[test]
    fn a_response_is_built_once_a_second_for_a_file_that_is_requested_often() {
        let (mut prebuilt, entry) = (PrebuiltResponses::new(1 << 20), entry(3));
        assert!(requested(&mut prebuilt, &entry, 1, THRESHOLD - 1).is_none());
        let first = requested(&mut prebuilt, &entry, 1, 1).unwrap();
        assert_eq!(**first, *b"1:xxx");
        assert!(Arc::ptr_eq(
            &first,
            &requested(&mut prebuilt, &entry, 1, 9).unwrap()
        ));
        assert!(requested(&mut prebuilt, &entry, 2, THRESHOLD - 1).is_none());
        assert_eq!(**requested(&mut prebuilt, &entry, 2, 1).unwrap(), *b"2:xxx");
        assert_eq!(**first, *b"1:xxx", "a response under way does not change");
    }

    #[test]
    fn another_file_in_the_same_slot_has_no_response_until_the_next_second() {
        let mut prebuilt = PrebuiltResponses::new(LARGEST_BYTES);
        let (first, second) = (entry(3), entry(4));
        assert!(requested(&mut prebuilt, &first, 1, THRESHOLD).is_some());
        assert!(requested(&mut prebuilt, &second, 1, 2 * THRESHOLD).is_none());
        assert!(requested(&mut prebuilt, &first, 1, 1).is_some());
        assert_eq!(
            **requested(&mut prebuilt, &second, 2, THRESHOLD).unwrap(),
            *b"2:xxxx"
        );
    }

    #[test]
    fn a_file_that_is_too_large_uses_no_slot() {
        let mut prebuilt = PrebuiltResponses::new(LARGEST_BYTES);
        let (large, small) = (entry(LARGEST_BYTES as usize + 1), entry(5));
        assert!(requested(&mut prebuilt, &large, 1, 3 * THRESHOLD).is_none());
        assert!(requested(&mut prebuilt, &small, 1, THRESHOLD).is_some());
    }

    #[test]
    fn a_prebuilt_response_ends_with_its_second_and_keeps_no_file_in_memory() {
        let mut prebuilt = PrebuiltResponses::new(1 << 20);
        let (old, new) = (entry(5), entry(6));
        let response = requested(&mut prebuilt, &old, 1, THRESHOLD).unwrap();
        assert_eq!(Arc::strong_count(&old), 1);
        assert!(requested(&mut prebuilt, &new, 2, 1).is_none());
        assert_eq!(Arc::strong_count(&response), 1);
    }

    #[test]
    fn without_memory_no_response_is_prebuilt() {
        assert!(requested(&mut PrebuiltResponses::new(0), &entry(3), 1, 2 * THRESHOLD).is_none());
    }
}
