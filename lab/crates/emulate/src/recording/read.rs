//! Reads a recording.

use perpacket_memory::{Line, MAX_PROCESSORS, Side};
use thiserror::Error;

use super::{
    DATA, Detail, END, EVENTS, INSTRUCTION, LENGTHS, MAGIC, Mark, ROW, RecordFilter, SEVERAL,
    VALUE_BITS, VERSION, WINDOW, from_zigzag,
};
use crate::window::Facts;

/// The reason why a recording cannot be replayed.
#[derive(Debug, Error)]
#[allow(
    missing_docs,
    reason = "the message of each variant explains its fields"
)]
pub enum RecordingError {
    /// The file is not a recording.
    #[error("no recording of an emulated machine: expected the bytes `ppemurec` at its start")]
    Format,
    /// The recording has another version of the format.
    #[error("recording of format {version}: expected {VERSION} or {SEVERAL}")]
    Version { version: u32 },
    /// The file ends early.
    #[error("truncated at byte {offset}: expected a chunk that marks the end")]
    Truncated { offset: usize },
    /// A chunk was changed, or has no known type.
    #[error("damaged chunk at byte {offset}: expected {expected}")]
    Damaged {
        offset: usize,
        expected: &'static str,
    },
    /// A configuration needs accesses that were not recorded.
    #[error(
        "{what}: the recording lacks the repeated accesses that this needs; expected {expected}"
    )]
    Filtered {
        what: String,
        expected: &'static str,
    },
    /// The window lacks frames of one direction, so nothing can be computed per packet of this
    /// direction.
    #[error("the window lacks frames sent or frames received")]
    NoFrames,
    /// The window names no connections that a bulk sender serves in turn.
    #[error("this is not a recording of a bulk sender")]
    NoConnections,
    /// It has the accesses of several processors, and one is needed.
    #[error("a recording of several processors: expected one of a single processor")]
    Several,
    /// A parameter is out of its range.
    #[error(transparent)]
    Parameter(#[from] perpacket_memory::ParameterError),
}

impl RecordingError {
    /// The next step.
    #[must_use]
    pub const fn next_step(&self) -> &'static str {
        match self {
            Self::Format => "name a file that `--record` wrote",
            Self::Version { .. } | Self::Damaged { .. } => "record again",
            Self::Truncated { .. } => {
                "record again; the run ended or the disk was full before the recording was complete"
            }
            Self::Filtered { .. } => {
                "record again with these caches: the recording then has every access"
            }
            Self::NoFrames | Self::NoConnections | Self::Several => {
                "record a bulk sender: `perpacket emulate --server bulk --record FILE`"
            }
            Self::Parameter(_) => "change the parameter",
        }
    }
}

/// A recording in memory.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    bytes: &'a [u8],
    filter: RecordFilter,
    processors: usize,
}

/// A part of a recording.
#[derive(Clone, Debug)]
pub enum Chunk<'a> {
    /// Events.
    Events(Events<'a>),
    /// A window that has ended.
    Window(Box<Facts>),
}

/// Bytes before the chunks in version 1. Version 2 has four more.
const HEAD_BYTES: usize = 16;

const MOST_PROCESSORS: u32 = MAX_PROCESSORS as u32;

impl<'a> Recording<'a> {
    /// A recording from the bytes of its file.
    ///
    /// # Errors
    ///
    /// The bytes are not a recording, or the recording has another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, RecordingError> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(RecordingError::Format);
        }
        let truncated = RecordingError::Truncated {
            offset: bytes.len(),
        };
        let (Some(version), Some(filter)) = (number(bytes, 8), number(bytes, 12)) else {
            return Err(truncated);
        };
        let processors = match version {
            VERSION => 0,
            SEVERAL => match number(bytes, HEAD_BYTES) {
                Some(processors @ 1..=MOST_PROCESSORS) => processors as usize,
                Some(_) => {
                    return Err(RecordingError::Damaged {
                        offset: HEAD_BYTES,
                        expected: "1 to 8 processors",
                    });
                }
                None => return Err(truncated),
            },
            _ => return Err(RecordingError::Version { version }),
        };
        let filter = match (filter, processors) {
            (0, _) => RecordFilter::None,
            (1, 0) => RecordFilter::LinesAndPages,
            (2, 1..) => RecordFilter::Words,
            _ => {
                return Err(RecordingError::Damaged {
                    offset: 12,
                    expected: "a known filter",
                });
            }
        };
        Ok(Self {
            bytes,
            filter,
            processors,
        })
    }

    /// The number of processors whose accesses it has, if it is a recording of several processors.
    #[must_use]
    pub fn processors(&self) -> Option<usize> {
        (self.processors > 0).then_some(self.processors)
    }

    /// The accesses that the recording omits.
    #[must_use]
    pub const fn filter(&self) -> RecordFilter {
        self.filter
    }

    /// The chunks of the recording, in order. After an error there are no more chunks.
    pub fn chunks(&self) -> impl Iterator<Item = Result<Chunk<'a>, RecordingError>> + use<'a> {
        let bytes = self.bytes;
        let mut offset = Some(match self.processors {
            0 => HEAD_BYTES,
            _ => HEAD_BYTES + 4,
        });
        std::iter::from_fn(move || {
            let begin = offset.take()?;
            match chunk_at(bytes, begin) {
                Ok(None) => None,
                Ok(Some((chunk, end))) => {
                    offset = Some(end);
                    Some(Ok(chunk))
                }
                Err(error) => Some(Err(error)),
            }
        })
    }
}

fn number(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The chunk at an offset and the offset after it; `None` for the end of the recording.
fn chunk_at(bytes: &[u8], offset: usize) -> Result<Option<(Chunk<'_>, usize)>, RecordingError> {
    let truncated = || RecordingError::Truncated {
        offset: bytes.len(),
    };
    let damaged = |expected| RecordingError::Damaged { offset, expected };
    let length = number(bytes, offset).ok_or_else(truncated)? as usize;
    let checksum = number(bytes, offset + 4).ok_or_else(truncated)?;
    let begin = offset + 8;
    let content = bytes.get(begin..begin + length).ok_or_else(truncated)?;
    if crc32fast::hash(content) != checksum {
        return Err(damaged("its checksum"));
    }
    let chunk = match content.split_first() {
        Some((&EVENTS, events)) => Chunk::Events(Events::new(events)),
        Some((&WINDOW, json)) => {
            let facts = serde_json::from_slice(json).map_err(|_| damaged("a window as JSON"))?;
            Chunk::Window(Box::new(facts))
        }
        Some((&END, [])) => return Ok(None),
        _ => return Err(damaged("a known type")),
    };
    Ok(Some((chunk, begin + length)))
}

/// One event of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An access.
    Access(Side, Line),
    /// The row of the events that follow.
    Row(usize),
    /// Instructions of the current row.
    Instructions(u64),
    /// A frame arrived.
    Received,
    /// A frame left.
    Sent,
    /// The processor dropped its translations.
    Flush,
    /// A device wrote lines: the first, and how many.
    DeviceWrite(Line, u32),
    /// A stage of a window.
    Mark(Mark),
    /// The details of the accesses that follow.
    Detail(Detail),
}

/// The events of one chunk.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    bytes: &'a [u8],
    last: [i64; 2],
    last_device_line: u32,
}

impl<'a> Events<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            last: [0; 2],
            last_device_line: 0,
        }
    }

    #[inline]
    fn access(&mut self, side: Side, value: u64) -> Event {
        let last = &mut self.last[side as usize];
        *last = last.wrapping_add(from_zigzag(value));
        Event::Access(side, Line(*last as u32))
    }

    fn operation(&mut self, value: u64) -> Option<Event> {
        let argument = value >> 3;
        Some(match value & 7 {
            0 => Event::Instructions(argument),
            1 => Event::Received,
            2 => Event::Sent,
            3 => Event::Flush,
            4 => {
                self.last_device_line = argument as u32;
                Event::DeviceWrite(Line(self.last_device_line), 1)
            }
            5 => {
                let first = self.last_device_line.wrapping_add(1);
                self.last_device_line = self.last_device_line.wrapping_add(argument as u32);
                Event::DeviceWrite(Line(first), argument as u32)
            }
            6 => Event::Mark(match argument {
                0 => Mark::Attach,
                1 => Mark::Start,
                2 => Mark::Stop,
                _ => return None,
            }),
            7 => Event::Detail(Detail::from_number(argument)),
            _ => return None,
        })
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    /// The next event. An undefined event ends the chunk, even with a correct checksum.
    #[inline]
    fn next(&mut self) -> Option<Event> {
        // Read eight bytes at once if the chunk has them, so that the usual case needs one check.
        let word = match self.bytes.first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => {
                let mut bytes = [0; 8];
                bytes[..self.bytes.len()].copy_from_slice(self.bytes);
                u64::from_le_bytes(bytes)
            }
        };
        let size = (word >> 2) as usize & 3;
        let value = (word >> 4) & ((1 << VALUE_BITS[size]) - 1);
        self.bytes = self.bytes.get(LENGTHS[size]..)?;
        match word & 3 {
            INSTRUCTION => Some(self.access(Side::Instruction, value)),
            DATA => Some(self.access(Side::Data, value)),
            ROW => Some(Event::Row(value as usize)),
            _ => self.operation(value),
        }
    }
}
