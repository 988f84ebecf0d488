//! Whole responses, for files that many ask for within the same second.
//!
//! Of the response to a plain request nothing changes but its date. So what is asked for often is
//! put together once a second, head and body in one piece, and sent by reference: there is nothing
//! to write, and the kernel has nothing to gather.

use std::sync::{Arc, Weak};

use crate::files::content::Content;
use crate::files::entry::{Body, Entry};

/// Most files that have such a response at a time.
const PLACES: u64 = 64;

/// From so many requests within a second on, copying the body once is worth it.
const OFTEN: u32 = 8;

/// Largest body of such a response, in bytes: with larger ones the head does not matter.
const LARGEST_BYTES: u64 = 1 << 16;

/// One worker's responses of this second.
#[derive(Debug)]
pub struct Ready {
    second: i64,
    places: Box<[Place]>,
}

/// Taken by the first file that is asked for in a second.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Keeps the address from being another's meanwhile, not the file.
    entry: Weak<Entry>,
    asked: u32,
    response: Option<Arc<Content>>,
}

impl Ready {
    /// None yet, and never bodies of more than so many bytes, beside what is still being sent.
    pub fn new(most_bytes: u64) -> Self {
        let places = (most_bytes / LARGEST_BYTES).min(PLACES);
        Self {
            second: 0,
            places: vec![Place::default(); places as usize].into(),
        }
    }

    /// The response with a file in this second, if it is asked for often enough.
    ///
    /// `write_head` writes the head for the whole body, so that both are a whole number of cache
    /// lines, see [`crate::files::content`].
    #[inline]
    pub fn response(
        &mut self,
        entry: &Arc<Entry>,
        second: i64,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Arc<Content>> {
        if self.places.is_empty() {
            return None;
        }
        if self.second != second {
            self.second = second;
            self.places.fill_with(Place::default);
        }
        let place = &mut self.places[hash(entry) % self.places.len()];
        if place.entry.as_ptr() != Arc::as_ptr(entry) && !place.take(entry) {
            return None;
        }
        if let Some(response) = &place.response {
            return Some(Arc::clone(response));
        }
        place.asked += 1;
        if place.asked == OFTEN {
            place.response = put_together(entry, write_head);
        }
        place.response.clone()
    }
}

impl Place {
    /// Gives the place to a file, if it is free and the file is small enough.
    fn take(&mut self, entry: &Arc<Entry>) -> bool {
        let is_small =
            matches!(&entry.body, Body::Memory(body) if body.len() as u64 <= LARGEST_BYTES);
        let takes = self.asked == 0 && is_small;
        if takes {
            self.entry = Arc::downgrade(entry);
        }
        takes
    }
}

/// Entries are apart by some hundred bytes.
#[inline]
fn hash(entry: &Arc<Entry>) -> usize {
    let address = Arc::as_ptr(entry).addr();
    address >> 7 ^ address >> 13
}

#[cold]
fn put_together(entry: &Entry, write_head: impl FnOnce(&mut Vec<u8>)) -> Option<Arc<Content>> {
    let Body::Memory(body) = &entry.body else {
        return None;
    };
    let mut head = Vec::with_capacity(512);
    write_head(&mut head);
    let whole = Content::filled(head.len() + body.len(), |bytes| {
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(body);
        Ok(())
    });
    // Without memory it is sent in two pieces, as always.
    whole.ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::root::Root;
    use perpacket_http::coding::Coding;
    use std::fs;

    fn entry(size: usize) -> Arc<Entry> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![b'x'; size]).unwrap();
        let root = Root::open(folder.path()).unwrap();
        Arc::new(Entry::load(&root, b"/a", Coding::Identity, 1 << 20).unwrap())
    }

    /// What is ready for the last of so many requests.
    fn asked(
        ready: &mut Ready,
        entry: &Arc<Entry>,
        second: i64,
        times: u32,
    ) -> Option<Arc<Content>> {
        let write = |head: &mut Vec<u8>| head.extend_from_slice(format!("{second}:").as_bytes());
        (0..times)
            .map(|_| ready.response(entry, second, write))
            .last()?
    }

    #[test]
    fn it_is_put_together_once_a_second_for_what_is_asked_for_often() {
        let (mut ready, entry) = (Ready::new(1 << 20), entry(3));
        assert!(asked(&mut ready, &entry, 1, OFTEN - 1).is_none());
        let first = asked(&mut ready, &entry, 1, 1).unwrap();
        assert_eq!(**first, *b"1:xxx");
        assert!(Arc::ptr_eq(
            &first,
            &asked(&mut ready, &entry, 1, 9).unwrap()
        ));
        assert!(asked(&mut ready, &entry, 2, OFTEN - 1).is_none());
        assert_eq!(**asked(&mut ready, &entry, 2, 1).unwrap(), *b"2:xxx");
        assert_eq!(**first, *b"1:xxx", "still as it was for who has it");
    }

    #[test]
    fn another_file_in_the_same_place_gets_none_until_the_next_second() {
        let mut ready = Ready::new(LARGEST_BYTES);
        let (first, second) = (entry(3), entry(4));
        assert!(asked(&mut ready, &first, 1, OFTEN).is_some());
        assert!(asked(&mut ready, &second, 1, 2 * OFTEN).is_none());
        assert!(asked(&mut ready, &first, 1, 1).is_some());
        assert_eq!(**asked(&mut ready, &second, 2, OFTEN).unwrap(), *b"2:xxxx");
    }

    #[test]
    fn a_file_that_is_too_large_takes_no_place() {
        let mut ready = Ready::new(LARGEST_BYTES);
        let (large, small) = (entry(LARGEST_BYTES as usize + 1), entry(5));
        assert!(asked(&mut ready, &large, 1, 3 * OFTEN).is_none());
        assert!(asked(&mut ready, &small, 1, OFTEN).is_some());
    }

    #[test]
    fn what_was_ready_is_gone_with_its_second_and_keeps_no_file() {
        let mut ready = Ready::new(1 << 20);
        let (old, new) = (entry(5), entry(6));
        let response = asked(&mut ready, &old, 1, OFTEN).unwrap();
        assert_eq!(Arc::strong_count(&old), 1);
        assert!(asked(&mut ready, &new, 2, 1).is_none());
        assert_eq!(Arc::strong_count(&response), 1);
    }

    #[test]
    fn without_room_there_is_none() {
        assert!(asked(&mut Ready::new(0), &entry(3), 1, 2 * OFTEN).is_none());
    }
}
