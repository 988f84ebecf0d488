//! A stream on its way to one client: packets, their numbers and times, and where they go.
//!
//! Whoever paces (an event loop or a thread) says when; this says what, and sends it.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wire::rtcp::{self, SenderReport};
use crate::wire::{HEADER_BYTES, Header, rtsp};
use socket2::SockAddr;

use super::blocks::Block;
use super::counters::{Counters, count};
use super::library::Medium;
use super::outgoing::Outgoing;
use perpacket_linux::udp::{Piece, SendBatch};

/// Most packets in one send: the kernel cuts at most 64 segments from at most 64 KiB.
pub(super) const BATCH_LIMIT: usize = 40;

/// The name in reports (RFC 3550, section 6.5.1).
const CANONICAL_NAME: &str = "perpacket";

/// Times in a row that a receiver's port may be closed before the stream is given up.
const REFUSAL_LIMIT: u32 = 10;

/// Where a client wants its packets.
#[derive(Debug)]
pub(super) enum Sink {
    /// In datagrams to the client's RTP port.
    Datagrams {
        /// A socket of its own connected to that port, or one for all who have none.
        socket: Arc<UdpSocket>,
        /// The port, where the socket is not connected to it.
        to: Option<SockAddr>,
        /// The client's RTCP port.
        reports: SocketAddr,
        /// Answers that the port is closed since the client was last heard.
        refusals: u32,
        /// The kernel cuts batches into datagrams.
        segments: bool,
    },
    /// In frames on the RTSP connection.
    Frames {
        /// The connection.
        outgoing: Arc<Mutex<Outgoing>>,
        /// The channels of RTP and RTCP.
        channels: (u8, u8),
    },
}

/// How a send ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The packets left, or were dropped because the client's socket had no room.
    Done,
    /// The client is gone.
    Gone,
    /// The file was cut short beneath its mapping.
    Broken,
}

/// Room that sends use again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    headers: Vec<[u8; HEADER_BYTES]>,
    parts: Vec<Piece>,
}

/// A stream of one session.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) medium: Arc<Medium>,
    pub(super) sink: Sink,
    pub(super) ssrc: u32,
    /// Sequence number of the next packet.
    pub(super) sequence: u16,
    /// The next packet's number in the medium.
    pub(super) next: u64,
    /// Where to stop: the number after the last packet to send.
    pub(super) end: u64,
    /// What is added to the medium's timestamps.
    base: u32,
    /// When packet `first` was due, on the monotonic clock.
    epoch_ns: u64,
    first: u64,
    packets: u32,
    payload_bytes: u32,
    counters: Arc<Counters>,
}

/// What a stream draws at random when it starts (RFC 3550, section 5.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
}

/// Takes a lock that every holder leaves whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// A stream at the start of its medium.
    pub(super) fn new(
        medium: Arc<Medium>,
        sink: Sink,
        origin: Origin,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            end: medium.media.packets(),
            medium,
            sink,
            ssrc: origin.ssrc,
            sequence: origin.sequence,
            next: 0,
            base: origin.timestamp,
            epoch_ns: 0,
            first: 0,
            packets: 0,
            payload_bytes: 0,
            counters,
        }
    }

    /// Moves to another place; timestamps go on from where they are (RFC 2326, section 12.33 and
    /// appendix B).
    pub(super) fn seek(&mut self, first: u64, end: u64) {
        let media = &self.medium.media;
        let jump = media
            .timestamp(first)
            .wrapping_sub(media.timestamp(self.next));
        self.base = self.base.wrapping_sub(jump);
        (self.next, self.end, self.first) = (first, end, first);
    }

    /// Says when the next packet is due; the others follow from it.
    pub(super) fn start(&mut self, now_ns: u64) {
        (self.epoch_ns, self.first) = (now_ns, self.next);
    }

    /// When a packet is due, on the monotonic clock.
    #[inline]
    pub(super) fn due_ns(&self, packet: u64) -> u64 {
        let media = &self.medium.media;
        self.epoch_ns + media.time_ns(packet) - media.time_ns(self.first)
    }

    /// The next packet's timestamp.
    pub(super) fn timestamp(&self) -> u32 {
        self.base
            .wrapping_add(self.medium.media.timestamp(self.next))
    }

    /// Sends the next packets, which the block must hold, and counts how late they left.
    pub(super) fn send(
        &mut self,
        block: &Block,
        packets: usize,
        now_ns: u64,
        scratch: &mut Scratch,
    ) -> Sent {
        self.prepare(packets, scratch);
        let sent = match &self.sink {
            Sink::Datagrams { .. } => self.send_datagrams(block, packets, scratch),
            Sink::Frames { .. } => self.send_frames(block, packets, scratch),
        };
        if sent != Sent::Done {
            return sent;
        }
        let mut early = 0;
        for number in self.next..self.next + packets as u64 {
            match now_ns.checked_sub(self.due_ns(number)) {
                Some(late_ns) => self.counters.lateness.add(late_ns, 1),
                None => early += 1,
            }
        }
        if early > 0 {
            self.counters.lateness.add(0, early);
        }
        let media = &self.medium.media;
        let end = media.position(self.next + packets as u64).min(media.bytes);
        let bytes = end - media.position(self.next);
        self.next += packets as u64;
        self.sequence = self.sequence.wrapping_add(packets as u16);
        self.packets = self.packets.wrapping_add(packets as u32);
        self.payload_bytes = self.payload_bytes.wrapping_add(bytes as u32);
        self.counters.packets.fetch_add(packets as u64, Relaxed);
        self.counters.bytes.fetch_add(bytes, Relaxed);
        sent
    }

    fn prepare(&self, packets: usize, scratch: &mut Scratch) {
        let media = &self.medium.media;
        scratch.headers.clear();
        scratch.headers.extend((0..packets).map(|place| {
            let number = self.next + place as u64;
            let header = Header {
                // Sound that starts after silence is marked (RFC 3551, section 4.1).
                marker: number == self.first && media.payload.kind == "audio",
                payload_type: media.payload.number,
                sequence: self.sequence.wrapping_add(place as u16),
                timestamp: self.base.wrapping_add(media.timestamp(number)),
                ssrc: self.ssrc,
            };
            header.to_bytes()
        }));
    }

    fn send_datagrams(&mut self, block: &Block, packets: usize, scratch: &mut Scratch) -> Sent {
        let Sink::Datagrams {
            socket,
            to,
            refusals,
            segments,
            ..
        } = &mut self.sink
        else {
            return Sent::Gone;
        };
        let media = &self.medium.media;
        let mut place = 0;
        while place < packets {
            let batch = if *segments { packets - place } else { 1 };
            let mut gather = SendBatch::new(&mut scratch.parts);
            for (number, header) in scratch.headers.iter().enumerate().skip(place).take(batch) {
                gather.add(header);
                block.add(self.next + number as u64, media, &mut gather);
            }
            let segment = (HEADER_BYTES + media.packet_bytes as usize) as u16;
            count(&self.counters.sends);
            match gather.send(socket.as_fd(), to.as_ref(), (batch > 1).then_some(segment)) {
                Ok(_) => place += batch,
                // The answer to an earlier packet: this one has not left yet.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    *refusals += 1;
                    if *refusals >= REFUSAL_LIMIT {
                        count(&self.counters.unreachable);
                        return Sent::Gone;
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return Sent::Broken,
                // A device or kernel that cannot cut: from now on one by one.
                Err(error) if batch > 1 && cannot_segment(&error) => *segments = false,
                // No room, no route, no buffers: a packet in a queue would only be later still.
                Err(_) => {
                    self.counters.dropped.fetch_add(batch as u64, Relaxed);
                    place += batch;
                }
            }
        }
        Sent::Done
    }

    fn send_frames(&mut self, block: &Block, packets: usize, scratch: &Scratch) -> Sent {
        let Sink::Frames { outgoing, channels } = &self.sink else {
            return Sent::Gone;
        };
        let media = &self.medium.media;
        let mut outgoing = lock(outgoing);
        for place in 0..packets {
            let payload = block.payload(self.next + place as u64, media);
            let head = rtsp::frame_head(channels.0, (HEADER_BYTES + payload.len()) as u16);
            if !outgoing.push_frame(&[&head, &scratch.headers[place], payload]) {
                count(&self.counters.dropped);
            }
        }
        count(&self.counters.sends);
        match outgoing.flush() {
            Ok(()) => Sent::Done,
            Err(_) => Sent::Gone,
        }
    }

    /// Sends a report on what was sent, with this moment on both clocks.
    pub(super) fn report(&self, reports: &UdpSocket, now_ns: u64, unix_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.epoch_ns);
        let media = &self.medium.media;
        let clock_hz = u128::from(media.payload.clock_hz);
        let ticks = (u128::from(elapsed_ns) * clock_hz / 1_000_000_000) as u32;
        let report = SenderReport {
            ssrc: self.ssrc,
            ntp: rtcp::ntp_from_unix_ns(unix_ns),
            timestamp: self
                .base
                .wrapping_add(media.timestamp(self.first))
                .wrapping_add(ticks),
            packets: self.packets,
            payload_bytes: self.payload_bytes,
        };
        self.control(reports, &report.to_bytes(CANONICAL_NAME));
        count(&self.counters.sender_reports);
    }

    /// Says that the stream has ended.
    pub(super) fn goodbye(&self, reports: &UdpSocket) {
        self.control(reports, &rtcp::goodbye(self.ssrc, CANONICAL_NAME));
    }

    fn control(&self, reports: &UdpSocket, bytes: &[u8]) {
        match &self.sink {
            Sink::Datagrams {
                reports: address, ..
            } => {
                // A report that is lost is followed by another.
                let _ = reports.send_to(bytes, address);
            }
            Sink::Frames { outgoing, channels } => {
                let head = rtsp::frame_head(channels.1, bytes.len() as u16);
                let mut outgoing = lock(outgoing);
                outgoing.push_frame(&[&head, bytes]);
                // A connection that failed is found out by its reader.
                let _ = outgoing.flush();
            }
        }
    }

    /// The client was heard: earlier answers that its port is closed are forgiven.
    pub(super) fn heard(&mut self) {
        if let Sink::Datagrams { refusals, .. } = &mut self.sink {
            *refusals = 0;
        }
    }
}

/// Whether an error says that segmentation, not sending, is impossible.
fn cannot_segment(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE)
    )
}
