//! Blocks: parts of a medium in memory, about a second each, in whole packets.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, Weak};

use perpacket_linux::udp::SendBatch;

use super::library::Medium;
use super::mailbox::Requester;
use crate::wire::PacketLayout;

/// Limits of a block's size in bytes. Within these limits, a block contains a second of the medium.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 8 * 1024..=1024 * 1024;

/// The blocks of one medium that are in memory or being read.
#[derive(Debug)]
pub(super) struct BlockTable {
    /// Packets in a block.
    pub(super) packets: u64,
    pub(super) slots: Mutex<HashMap<(u64, Storage), Slot>>,
}

/// The memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Storage {
    /// A copy.
    Copied,
    /// Pages of the mapped file.
    Mapped,
}

/// The state of a block.
#[derive(Debug)]
pub(super) enum Slot {
    /// A reader thread is reading the block for these connections.
    Loading(Vec<Requester>),
    /// The block is in memory. Streams or the cache own it.
    Ready(Weak<Block>),
}

/// A part of a medium in memory.
#[derive(Debug)]
pub(super) struct Block {
    first_packet: u64,
    packet_bytes: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Copied(Vec<u8>),
    Mapped {
        medium: Arc<Medium>,
        offset: usize,
        length: usize,
    },
}

impl BlockTable {
    pub(super) fn new(layout: &PacketLayout) -> Self {
        let bytes = (layout.rate_bps() / 8).clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        Self {
            packets: (bytes / u64::from(layout.packet_bytes)).max(1),
            slots: Mutex::default(),
        }
    }

    /// The index of a packet's block.
    #[inline]
    pub(super) fn index_of(&self, packet: u64) -> u64 {
        packet / self.packets
    }
}

impl Block {
    /// The number of complete packets from `packet` on, but not more than `limit`.
    #[inline]
    pub(super) fn packets_from(&self, packet: u64, layout: &PacketLayout, limit: usize) -> usize {
        let length = match &self.content {
            Content::Copied(bytes) => bytes.len(),
            Content::Mapped { length, .. } => *length,
        };
        let is_complete = |count: &usize| {
            let number = packet + *count as u64;
            let bytes = layout.bytes_of(number);
            bytes > 0 && self.offset_of(number) + bytes <= length
        };
        (0..limit).take_while(is_complete).count()
    }

    #[inline]
    fn offset_of(&self, packet: u64) -> usize {
        (packet - self.first_packet) as usize * self.packet_bytes
    }

    /// Adds the payload of a packet to a batch.
    #[inline]
    pub(super) fn add<'a>(&'a self, packet: u64, layout: &PacketLayout, batch: &mut SendBatch<'a>) {
        match &self.content {
            Content::Copied(_) => batch.add(self.payload(packet, layout)),
            Content::Mapped { medium, offset, .. } => {
                if let Some(mapping) = &medium.mapping {
                    let length = layout.bytes_of(packet);
                    batch.add_mapped(mapping, offset + self.offset_of(packet), length);
                }
            }
        }
    }

    /// The payload of a packet. It is empty in mapped storage, because a slice of mapped pages
    /// would become invalid if the file shrank.
    #[inline]
    pub(super) fn payload(&self, packet: u64, layout: &PacketLayout) -> &[u8] {
        let Content::Copied(bytes) = &self.content else {
            return &[];
        };
        let start = self.offset_of(packet);
        let payload = bytes.get(start..start + layout.bytes_of(packet));
        payload.unwrap_or_default()
    }

    /// Reads packets into memory. Reads fewer packets if the file ends before them.
    pub(super) fn read(medium: &Medium, first_packet: u64, packets: u64) -> io::Result<Self> {
        let layout = &medium.layout;
        let (offset, length) = layout.file_range(first_packet, packets);
        let mut content = vec![0; length as usize];
        let mut filled = 0;
        while filled < content.len() {
            let at = offset + filled as u64;
            match medium.file.read_at(&mut content[filled..], at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        content.truncate(filled);
        if layout.swaps_bytes {
            for sample in content.chunks_exact_mut(2) {
                sample.swap(0, 1);
            }
        }
        Ok(Self {
            first_packet,
            packet_bytes: layout.packet_bytes as usize,
            content: Content::Copied(content),
        })
    }

    /// Loads the mapped pages of packets.
    pub(super) fn map(medium: &Arc<Medium>, first_packet: u64, packets: u64) -> io::Result<Self> {
        let (offset, length) = medium.layout.file_range(first_packet, packets);
        let (offset, length) = (offset as usize, length as usize);
        let mapping = medium.mapping.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        mapping.populate(offset, length)?;
        Ok(Self {
            first_packet,
            packet_bytes: medium.layout.packet_bytes as usize,
            content: Content::Mapped {
                medium: Arc::clone(medium),
                offset,
                length,
            },
        })
    }

    /// Bytes of memory that the block owns; 0 in mapped storage.
    pub(super) fn owned_bytes(&self) -> usize {
        match &self.content {
            Content::Copied(bytes) => bytes.len(),
            Content::Mapped { .. } => 0,
        }
    }
}
