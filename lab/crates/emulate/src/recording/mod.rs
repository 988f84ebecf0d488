//! The stream of an emulated processor's accesses in a file.
//!
//! # Format, versions 1 and 2
//!
//! A recording has the eight bytes `ppemurec`, the version as `u32`, the filter as `u32` (0 none, 1
//! lines and pages, 2 words), in version 2 the number of processors as `u32`, and then chunks. Version
//! 1 has the accesses of one processor. Numbers are little-endian. A chunk is its length in bytes as
//! `u32`, the CRC-32 of its bytes as `u32`, and its bytes. The first byte is its type:
//!
//! | type | content |
//! |---|---|
//! | `1` | events |
//! | `2` | a window that has ended: JSON of [`Facts`](crate::Facts) |
//! | `3` | the end of the recording, without content |
//!
//! The first byte of an event has a tag in bits 0 and 1 and a size in bits 2 and 3. Its upper four
//! bits are the lowest four bits of the event's value. The size determines whether 0, 1, 2 or 4
//! more bytes follow with the higher bits.
//!
//! | tag | value |
//! |---|---|
//! | 0 | fetch of an instruction: difference from the last line fetched |
//! | 1 | load or store: difference from the last line of data |
//! | 2 | the row of the accesses that follow |
//! | 3 | bits 0 to 2 an [operation](Operation), the rest its argument |
//!
//! In version 2, a [detail](Detail) precedes an access whose processor, direction or words differ from
//! those of the access before it.
//!
//! A difference d is stored in zigzag form: 2d if d is not negative, else -2d - 1. Each chunk
//! begins with line 0, row 0 and the detail 0, so chunks are independent.
//!
//! The filter drops accesses that can change neither a first level of at least [`FIRST_SETS`] sets
//! nor a translation buffer of at least [`BUFFER_SETS`] sets (see
//! [`Filter`](perpacket_memory::Filter)). The filter of words drops accesses to the words of a line
//! that the same processor has accessed in the same direction, if no other access to the line and no
//! other line of the same index came between them.

mod read;
mod repeated_words;
mod write;

pub use read::{Chunk, Event, Events, Recording, RecordingError};
pub use write::Recorder;

const MAGIC: [u8; 8] = *b"ppemurec";
const VERSION: u32 = 1;
/// The version of a recording of several processors.
const SEVERAL: u32 = 2;

const EVENTS: u8 = 1;
const WINDOW: u8 = 2;
const END: u8 = 3;

/// Number of sets of the smallest first level to which a filtered recording applies.
pub const FIRST_SETS: u32 = 64;
/// Number of sets of the smallest translation buffer to which a filtered recording applies.
pub const BUFFER_SETS: u32 = 16;

/// Bytes of events after which a chunk ends.
const CHUNK_BYTES: usize = 1 << 18;

const INSTRUCTION: u64 = 0;
const DATA: u64 = 1;
const ROW: u64 = 2;
const OPERATION: u64 = 3;

/// Bytes of an event by its size.
const LENGTHS: [usize; 4] = [1, 2, 3, 5];
/// Bits of an event's value by its size.
const VALUE_BITS: [u32; 4] = [4, 12, 20, 36];

/// Events besides accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// This many instructions ran in the current row.
    Instructions = 0,
    /// A frame arrived.
    Received = 1,
    /// A frame left.
    Sent = 2,
    /// The processor dropped its translations.
    Flush = 3,
    /// A device wrote the line of that number.
    DeviceLine = 4,
    /// A device wrote the lines after the one that it wrote last. The argument is their number.
    DeviceLines = 5,
    /// A window's mark: see [`Mark`].
    Mark = 6,
    /// The details of the accesses that follow: see [`Detail`].
    Detail = 7,
}

/// What an access of one of several processors has besides its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// The processor.
    pub processor: u8,
    /// Whether an access of data is a store.
    pub is_store: bool,
    /// The words of the line that it accesses.
    pub words: u8,
}

impl Detail {
    const fn number(self) -> u64 {
        self.words as u64 | (self.is_store as u64) << 8 | (self.processor as u64) << 9
    }

    const fn from_number(number: u64) -> Self {
        Self {
            processor: (number >> 9) as u8,
            is_store: number >> 8 & 1 == 1,
            words: number as u8,
        }
    }
}

/// Stages of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The caches are empty; nothing is counted yet.
    Attach = 0,
    /// Counting starts.
    Start = 1,
    /// Counting ends.
    Stop = 2,
}

/// The accesses that a recording omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFilter {
    /// No accesses are omitted.
    None,
    /// The accesses that a filter of lines or a filter of pages drops.
    LinesAndPages,
    /// Repeated accesses of a processor to words that no other processor accesses between them.
    Words,
}

/// The zigzag form of d: 2d if d is not negative, else -2d - 1.
const fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

const fn from_zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
