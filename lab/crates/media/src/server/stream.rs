//! The stream of one session: its packets, their numbers and times, and their destination.
//!
//! An event loop or a thread decides when packets are sent. This module makes and sends them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use crate::wire::rtcp::{self, SenderReport};
use crate::wire::{HEADER_BYTES, Header, rtsp};
use perpacket_linux::udp::{Piece, SendBatch};
use socket2::SockAddr;

use super::block::Block;
use super::counters::{Counters, count};
use super::library::Medium;
use super::outgoing::Outgoing;
use perpacket_linux::mailbox::lock;

/// The maximum number of packets in one send. The kernel segments at most 64 KiB into at most 64
/// datagrams.
pub(super) const BATCH_LIMIT: usize = 40;

/// The canonical name in reports (RFC 3550, section 6.5.1).
const CANONICAL_NAME: &str = "perpacket";

/// The stream ends after this many consecutive refusals by a closed port.
const REFUSAL_LIMIT: u32 = 10;

/// The destination of the packets.
#[derive(Debug)]
pub(super) enum Destination {
    /// Datagrams to the client's RTP port.
    Datagrams {
        /// A socket that is connected to the port, or the shared socket.
        socket: Arc<UdpSocket>,
        /// The destination address, if the socket is the shared one.
        to: Option<SockAddr>,
        /// The client's RTCP port.
        reports: SocketAddr,
        /// Refusals since the last message of the client.
        refusals: u32,
        /// Whether the kernel segments a batch into datagrams.
        segments: bool,
    },
    /// Interleaved frames on the RTSP connection.
    Frames {
        /// The connection.
        outgoing: Arc<Mutex<Outgoing>>,
        /// The channels of RTP and RTCP.
        channels: (u8, u8),
    },
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The packets were sent, or dropped because the socket was full.
    Done,
    /// The client receives no more packets.
    Gone,
    /// The mapped file shrank.
    Broken,
}

/// Buffers that all sends of a thread reuse.
#[derive(Debug, Default)]
pub(super) struct SendBuffers {
    headers: Vec<[u8; HEADER_BYTES]>,
    parts: Vec<Piece>,
}

/// The stream of a session.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) medium: Arc<Medium>,
    pub(super) destination: Destination,
    pub(super) ssrc: u32,
    /// Sequence number of the next packet.
    pub(super) sequence: u16,
    /// Number of the next packet in the medium.
    pub(super) next: u64,
    /// The number that follows the last packet to send.
    pub(super) end: u64,
    /// Offset of the timestamps.
    base: u32,
    /// Due time of packet `first` on the monotonic clock.
    epoch_ns: u64,
    first: u64,
    packets: u32,
    payload_bytes: u32,
    counters: Arc<Counters>,
}

/// The random values of a new stream (RFC 3550, section 5.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct RtpStart {
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
}

impl Stream {
    pub(super) fn new(
        medium: Arc<Medium>,
        destination: Destination,
        origin: RtpStart,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            end: medium.layout.packets(),
            medium,
            destination,
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

    /// Moves to another packet. Timestamps continue without a gap (RFC 2326, appendix B).
    pub(super) fn seek(&mut self, first: u64, end: u64) {
        let layout = &self.medium.layout;
        let jump = layout
            .timestamp(first)
            .wrapping_sub(layout.timestamp(self.next));
        self.base = self.base.wrapping_sub(jump);
        (self.next, self.end, self.first) = (first, end, first);
    }

    /// Sets the due time of the next packet. The due times of all others follow from it.
    pub(super) fn start(&mut self, now_ns: u64) {
        (self.epoch_ns, self.first) = (now_ns, self.next);
    }

    /// Due time of a packet on the monotonic clock.
    #[inline]
    pub(super) fn due_ns(&self, packet: u64) -> u64 {
        let layout = &self.medium.layout;
        self.epoch_ns + layout.time_ns(packet) - layout.time_ns(self.first)
    }

    /// Timestamp of the next packet.
    pub(super) fn timestamp(&self) -> u32 {
        self.base
            .wrapping_add(self.medium.layout.timestamp(self.next))
    }

    /// Sends the next packets and counts their lateness. The block must contain these packets.
    pub(super) fn send(
        &mut self,
        block: &Block,
        packets: usize,
        now_ns: u64,
        buffers: &mut SendBuffers,
    ) -> SendOutcome {
        self.prepare(packets, buffers);
        let sent = match &self.destination {
            Destination::Datagrams { .. } => self.send_datagrams(block, packets, buffers),
            Destination::Frames { .. } => self.send_frames(block, packets, buffers),
        };
        if sent != SendOutcome::Done {
            return sent;
        }
        let numbers = self.next..self.next + packets as u64;
        let late_ns = numbers.map(|number| now_ns.saturating_sub(self.due_ns(number)));
        self.counters.lateness.add(late_ns);
        let layout = &self.medium.layout;
        let end = layout
            .offset_of(self.next + packets as u64)
            .min(layout.bytes);
        let bytes = end - layout.offset_of(self.next);
        self.next += packets as u64;
        self.sequence = self.sequence.wrapping_add(packets as u16);
        self.packets = self.packets.wrapping_add(packets as u32);
        self.payload_bytes = self.payload_bytes.wrapping_add(bytes as u32);
        self.counters.packets.fetch_add(packets as u64, Relaxed);
        self.counters.bytes.fetch_add(bytes, Relaxed);
        sent
    }

    fn prepare(&self, packets: usize, buffers: &mut SendBuffers) {
        let layout = &self.medium.layout;
        buffers.headers.clear();
        buffers.headers.extend((0..packets).map(|offset| {
            let number = self.next + offset as u64;
            let header = Header {
                // The first packet of audio after silence is marked (RFC 3551, section 4.1).
                marker: number == self.first && layout.payload.media_type == "audio",
                payload_type: layout.payload.payload_type,
                sequence: self.sequence.wrapping_add(offset as u16),
                timestamp: self.base.wrapping_add(layout.timestamp(number)),
                ssrc: self.ssrc,
            };
            header.to_bytes()
        }));
    }

    fn send_datagrams(
        &mut self,
        block: &Block,
        packets: usize,
        buffers: &mut SendBuffers,
    ) -> SendOutcome {
        let Destination::Datagrams {
            socket,
            to,
            refusals,
            segments,
            ..
        } = &mut self.destination
        else {
            return SendOutcome::Gone;
        };
        let layout = &self.medium.layout;
        let mut offset = 0;
        while offset < packets {
            let batch = if *segments { packets - offset } else { 1 };
            let mut batch_pieces = SendBatch::new(&mut buffers.parts);
            for (number, header) in buffers.headers.iter().enumerate().skip(offset).take(batch) {
                batch_pieces.add(header);
                block.add(self.next + number as u64, layout, &mut batch_pieces);
            }
            let segment = (HEADER_BYTES + layout.packet_bytes as usize) as u16;
            count(&self.counters.sends);
            match batch_pieces.send(socket.as_fd(), to.as_ref(), (batch > 1).then_some(segment)) {
                Ok(_) => offset += batch,
                // The error is an ICMP error for an earlier packet. This packet was not sent.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    *refusals += 1;
                    if *refusals >= REFUSAL_LIMIT {
                        count(&self.counters.unreachable);
                        return SendOutcome::Gone;
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                    return SendOutcome::Broken;
                }
                // Without segmentation offload, send single packets from now on.
                Err(error) if batch > 1 && cannot_segment(&error) => *segments = false,
                // The socket is full, or there is no route. If the packet were queued, it would
                // arrive too late.
                Err(_) => {
                    self.counters.dropped.fetch_add(batch as u64, Relaxed);
                    offset += batch;
                }
            }
        }
        SendOutcome::Done
    }

    fn send_frames(&mut self, block: &Block, packets: usize, buffers: &SendBuffers) -> SendOutcome {
        let Destination::Frames { outgoing, channels } = &self.destination else {
            return SendOutcome::Gone;
        };
        let layout = &self.medium.layout;
        let mut outgoing = lock(outgoing);
        for offset in 0..packets {
            let payload = block.payload(self.next + offset as u64, layout);
            let head = rtsp::frame_header(channels.0, (HEADER_BYTES + payload.len()) as u16);
            if !outgoing.push_frame(&[&head, &buffers.headers[offset], payload]) {
                count(&self.counters.dropped);
            }
        }
        count(&self.counters.sends);
        match outgoing.flush() {
            Ok(()) => SendOutcome::Done,
            Err(_) => SendOutcome::Gone,
        }
    }

    /// Sends a sender report with the current time on both clocks.
    pub(super) fn report(&self, reports: &UdpSocket, now_ns: u64, unix_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.epoch_ns);
        let layout = &self.medium.layout;
        let clock_hz = u128::from(layout.payload.clock_hz);
        let ticks = (u128::from(elapsed_ns) * clock_hz / 1_000_000_000) as u32;
        let report = SenderReport {
            ssrc: self.ssrc,
            ntp: rtcp::ntp_from_unix_ns(unix_ns),
            timestamp: self
                .base
                .wrapping_add(layout.timestamp(self.first))
                .wrapping_add(ticks),
            packets: self.packets,
            payload_bytes: self.payload_bytes,
        };
        self.send_rtcp(reports, &report.to_bytes(CANONICAL_NAME));
        count(&self.counters.sender_reports);
    }

    /// Sends the goodbye of the stream.
    pub(super) fn send_goodbye(&self, reports: &UdpSocket) {
        self.send_rtcp(reports, &rtcp::goodbye(self.ssrc, CANONICAL_NAME));
    }

    fn send_rtcp(&self, reports: &UdpSocket, bytes: &[u8]) {
        match &self.destination {
            Destination::Datagrams {
                reports: address, ..
            } => {
                // If a report is lost, the next one replaces it.
                let _ = reports.send_to(bytes, address);
            }
            Destination::Frames { outgoing, channels } => {
                let head = rtsp::frame_header(channels.1, bytes.len() as u16);
                let mut outgoing = lock(outgoing);
                outgoing.push_frame(&[&head, bytes]);
                // If the flush fails, the next read notices it and closes the connection.
                let _ = outgoing.flush();
            }
        }
    }

    /// Resets the count of refusals: the client is alive.
    pub(super) fn reset_refusals(&mut self) {
        if let Destination::Datagrams { refusals, .. } = &mut self.destination {
            *refusals = 0;
        }
    }
}

/// Whether an error means that the kernel or the device cannot segment.
fn cannot_segment(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE)
    )
}
