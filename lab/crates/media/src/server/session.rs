//! The state of a connection and of its session.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use crate::wire::rtsp::Request;

use super::block::Block;
use super::library::Medium;
use super::outgoing::Outgoing;
use super::stream::Stream;
use super::threads::StreamThreads;
use perpacket_linux::mailbox::lock;

/// An RTSP connection.
pub(super) struct Connection {
    pub(super) socket: Arc<TcpStream>,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// Bytes received and not yet parsed.
    pub(super) incoming: Vec<u8>,
    pub(super) outgoing: Arc<Mutex<Outgoing>>,
    /// The request that waits for its medium.
    pub(super) waiting: Option<Request>,
    /// The last described medium. It stays open for the SETUP that follows.
    pub(super) described: Option<Arc<Medium>>,
    pub(super) session: Option<Box<Session>>,
    /// Time of the last message on the monotonic clock.
    pub(super) last_message_ns: u64,
}

/// A session: one stream of one medium.
pub(super) struct Session {
    pub(super) name: String,
    /// Name of the medium. The URI of every request must name it.
    pub(super) medium: String,
    pub(super) ssrc: u32,
    pub(super) sender: Sender,
    pub(super) state: State,
    /// Lost packets according to the last receiver report.
    pub(super) reported_lost: u64,
    /// Whether the file shrank while it was sent.
    pub(super) cut_short: bool,
    /// Due time of the next sender report.
    pub(super) report_ns: u64,
}

/// The state of a session (RFC 2326, appendix A.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Set up, paused or at the end.
    Ready,
    /// Waits for its first block.
    Starting,
    /// Sends packets.
    Playing,
}

/// The sender of the packets.
pub(super) enum Sender {
    /// The event loop, from blocks that are read ahead.
    EventLoop {
        stream: Box<Stream>,
        ahead: VecDeque<(u64, Option<Arc<Block>>)>,
        /// Whether a packet is due but its block has not been read.
        starved: bool,
    },
    /// The stream's own threads.
    Threads {
        stream: Arc<Mutex<Stream>>,
        threads: Option<StreamThreads>,
    },
}

impl Session {
    /// Calls a function with the stream.
    pub(super) fn with<R>(&mut self, act: impl FnOnce(&mut Stream) -> R) -> R {
        match &mut self.sender {
            Sender::EventLoop { stream, .. } => act(stream),
            Sender::Threads { stream, .. } => act(&mut lock(stream)),
        }
    }

    /// Whether the session plays or is about to play.
    pub(super) fn is_playing(&self) -> bool {
        self.state != State::Ready
    }

    /// Stops sending.
    pub(super) fn halt(&mut self) {
        match &mut self.sender {
            Sender::EventLoop { ahead, starved, .. } => {
                ahead.clear();
                *starved = false;
            }
            Sender::Threads { stream, threads } => {
                // Dropping the threads stops them. The lock waits for a send that is under way, so
                // that no packet follows the response to PAUSE.
                *threads = None;
                drop(lock(stream));
            }
        }
        self.state = State::Ready;
    }
}
