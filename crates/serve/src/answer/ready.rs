//! Whole responses, for files that many ask for within the same second.
//!
//! Of the response to a plain request nothing changes but its date. So what is asked for often is
//! put together once a second, head and body in one piece, and sent by reference: there is nothing
//! to write, and the kernel has nothing to gather.

use std::sync::{Arc, Weak};

use crate::files::content::Content;
use crate::files::entry::{Body, Entry};

/// Files that have such a response at a time: two that share a place have to take turns.
const PLACES: usize = 64;

/// From so many requests within a second on, copying the body once is worth it.
const OFTEN: u32 = 8;

/// Largest body of such a response, in bytes: with larger ones the head does not matter.
const LARGEST_BYTES: usize = 1 << 16;

/// One worker's responses. What they take is bounded by [`PLACES`] times [`LARGEST_BYTES`].
#[derive(Debug)]
pub struct Ready {
    places: [Place; PLACES],
}

#[derive(Debug, Default)]
struct Place {
    entry: Weak<Entry>,
    second: i64,
    asked: u32,
    response: Option<Arc<Content>>,
}

impl Ready {
    /// None yet.
    pub fn new() -> Self {
        Self {
            places: std::array::from_fn(|_| Place::default()),
        }
    }

    /// The response with a file in this second, if it is asked for often enough.
    ///
    /// `write_head` writes the head for a body of so many bytes; head and body are a whole number
    /// of cache lines, see [`crate::files::content`].
    #[inline]
    pub fn response(
        &mut self,
        entry: &Arc<Entry>,
        second: i64,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Arc<Content>> {
        let place = &mut self.places[place_of(entry)];
        if place.second != second {
            place.start(entry, second);
        } else if place.entry.as_ptr() != Arc::as_ptr(entry) {
            return None;
        }
        if let Some(response) = &place.response {
            return Some(Arc::clone(response));
        }
        place.asked += 1;
        if place.asked != OFTEN {
            return None;
        }
        place.response = put_together(entry, write_head);
        place.response.clone()
    }
}

impl Place {
    /// Gives the place to a file for a second.
    fn start(&mut self, entry: &Arc<Entry>, second: i64) {
        if self.entry.as_ptr() != Arc::as_ptr(entry) {
            self.entry = Arc::downgrade(entry);
        }
        self.second = second;
        self.asked = 0;
        self.response = None;
    }
}

/// Where a file's response is: entries are apart by some hundred bytes.
#[inline]
fn place_of(entry: &Arc<Entry>) -> usize {
    let address = Arc::as_ptr(entry).addr();
    (address >> 7 ^ address >> 13) % PLACES
}

#[cold]
fn put_together(entry: &Entry, write_head: impl FnOnce(&mut Vec<u8>)) -> Option<Arc<Content>> {
    let Body::Memory(body) = &entry.body else {
        return None;
    };
    if body.len() > LARGEST_BYTES {
        return None;
    }
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
    use crate::http::coding::Coding;
    use std::fs;

    fn entry(size: usize) -> Arc<Entry> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![b'x'; size]).unwrap();
        let root = Root::open(folder.path()).unwrap();
        Arc::new(Entry::load(&root, b"/a", Coding::Plain, 1 << 20).unwrap())
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
        let (mut ready, entry) = (Ready::new(), entry(3));
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
        let mut ready = Ready::new();
        let mut entries: Vec<_> = (0..=PLACES).map(|size| entry(size + 1)).collect();
        entries.sort_by_key(place_of);
        let [first, second] = entries
            .windows(2)
            .find(|two| place_of(&two[0]) == place_of(&two[1]))
            .and_then(|two| <&[_; 2]>::try_from(two).ok())
            .unwrap();
        assert!(asked(&mut ready, first, 1, OFTEN).is_some());
        assert!(asked(&mut ready, second, 1, 2 * OFTEN).is_none());
        assert!(asked(&mut ready, first, 1, 1).is_some());
        let other = asked(&mut ready, second, 2, OFTEN).unwrap();
        assert_eq!(other.len() as u64, 2 + second.stamp.size_bytes);
    }

    #[test]
    fn large_files_and_those_that_are_gone_take_no_memory() {
        let mut ready = Ready::new();
        let large = entry(LARGEST_BYTES + 1);
        assert!(asked(&mut ready, &large, 1, 3 * OFTEN).is_none());
        let small = entry(5);
        let response = asked(&mut ready, &small, 2, OFTEN).unwrap();
        assert_eq!(Arc::strong_count(&small), 1);
        assert_eq!(Arc::strong_count(&response), 2);
    }
}
