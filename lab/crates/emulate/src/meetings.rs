//! How often the packets of a TCP connection and its application meet on one processor.
//!
//! A packet of a connection is processed on the processor that its interrupt, or packet steering,
//! selects. The application calls TCP on its own processor. If both are one processor, the lines of
//! the socket do not move between two.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A function of the kernel whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// The card's driver looks for frames.
    Poll,
    /// TCP processes a packet of the socket that is the first argument.
    Packet,
    /// TCP stores a packet, because the application holds the lock of the socket.
    Backlog,
    /// The application sends or receives.
    Call,
}

/// The functions of igb and TCP (net/ipv4/tcp_ipv4.c, net/ipv4/tcp.c). Until Linux 6.4, `sendfile`
/// calls `tcp_sendpage`.
const FUNCTIONS: [(&str, Event); 6] = [
    ("igb_poll", Event::Poll),
    ("tcp_v4_do_rcv", Event::Packet),
    ("tcp_add_backlog", Event::Backlog),
    ("tcp_sendmsg", Event::Call),
    ("tcp_sendpage", Event::Call),
    ("tcp_recvmsg", Event::Call),
];

impl Event {
    /// The event that the first instruction of a function is.
    #[must_use]
    pub fn of(function: &str) -> Option<Self> {
        let entry = FUNCTIONS.iter().find(|(name, _)| *name == function);
        entry.map(|(_, event)| *event)
    }

    /// The event with that number.
    #[must_use]
    pub const fn numbered(number: usize) -> Option<Self> {
        match number {
            0 => Some(Self::Poll),
            1 => Some(Self::Packet),
            2 => Some(Self::Backlog),
            3 => Some(Self::Call),
            _ => None,
        }
    }
}

/// The counts of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Met {
    /// Packets of connections that TCP received.
    pub packets: u64,
    /// Packets that had to wait for the application to release the socket.
    pub backlogged: u64,
    /// Calls by which applications sent or received, on connections with an earlier packet.
    pub calls: u64,
    /// Those of them on the processor that received the connection's last packet.
    pub met: u64,
}

/// The last packet of a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    processor: usize,
    /// Packets that wait for the application.
    waiting: u32,
}

/// The sockets, and the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meetings {
    sockets: FxHashMap<u64, Last>,
    pub(crate) counts: Met,
}

impl Meetings {
    /// A function of the kernel begins on a processor, with that socket as its first argument.
    pub(crate) fn happens(&mut self, event: Event, socket: u64, processor: usize) {
        match event {
            Event::Poll => {}
            Event::Packet => {
                let last = self.sockets.entry(socket).or_default();
                if last.waiting > 0 {
                    // It was counted when it began to wait.
                    last.waiting -= 1;
                } else {
                    last.processor = processor;
                    self.counts.packets += 1;
                }
            }
            Event::Backlog => {
                let last = self.sockets.entry(socket).or_default();
                (last.processor, last.waiting) = (processor, last.waiting + 1);
                self.counts.packets += 1;
                self.counts.backlogged += 1;
            }
            Event::Call => {
                if let Some(last) = self.sockets.get(&socket) {
                    self.counts.calls += 1;
                    self.counts.met += u64::from(last.processor == processor);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_meets_the_last_packet_of_its_socket() {
        let mut meetings = Meetings::default();
        for (event, socket, processor) in [
            (Event::Call, 7, 0),
            (Event::Packet, 7, 0),
            (Event::Call, 7, 0),
            (Event::Packet, 8, 1),
            (Event::Call, 8, 0),
            // The packet waits on processor 1, and the application processes it on processor 0.
            (Event::Backlog, 7, 1),
            (Event::Packet, 7, 0),
            (Event::Call, 7, 0),
        ] {
            meetings.happens(event, socket, processor);
        }
        let expected = Met {
            packets: 3,
            backlogged: 1,
            calls: 3,
            met: 1,
        };
        assert_eq!(meetings.counts, expected);
    }

    #[test]
    fn every_event_has_a_number() {
        for (name, event) in FUNCTIONS {
            assert_eq!(Event::of(name), Some(event));
            assert_eq!(Event::numbered(event as usize), Some(event));
        }
        assert_eq!(Event::of("tcp_v4_rcv"), None);
        assert_eq!(Event::numbered(4), None);
    }
}
