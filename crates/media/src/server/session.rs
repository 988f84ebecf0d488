//! What the server remembers of a connection and of the session on it.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use crate::wire::rtsp::Request;

use super::blocks::Block;
use super::library::Medium;
use super::outgoing::Outgoing;
use super::stream::{Stream, lock};
use super::threads::Runner;

/// An RTSP connection.
pub(super) struct Connection {
    pub(super) socket: Arc<TcpStream>,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// Bytes that came and are not yet understood.
    pub(super) incoming: Vec<u8>,
    pub(super) outgoing: Arc<Mutex<Outgoing>>,
    /// A request that waits until its medium is open.
    pub(super) waiting: Option<Request>,
    /// The medium last described, kept open for the SETUP that follows.
    pub(super) described: Option<Arc<Medium>>,
    pub(super) session: Option<Box<Session>>,
    /// When something was last heard, on the monotonic clock.
    pub(super) heard_ns: u64,
}

/// A client's session: one stream of one medium.
pub(super) struct Session {
    pub(super) name: String,
    /// The medium's name, which requests must agree with.
    pub(super) medium: String,
    pub(super) ssrc: u32,
    pub(super) carrier: Carrier,
    pub(super) state: State,
    /// Packets the client said it lost so far.
    pub(super) reported_lost: u64,
    /// The file ended before the medium.
    pub(super) cut_short: bool,
    /// When the next sender report is due.
    pub(super) report_ns: u64,
}

/// What a session is doing (RFC 2326, appendix A.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Set up, or paused, or at the end.
    Ready,
    /// To be sent as soon as its first data have come.
    Starting,
    /// Being sent.
    Playing,
}

/// Who sends.
pub(super) enum Carrier {
    /// The event loop, from blocks that come ahead of their time.
    Loop {
        stream: Box<Stream>,
        ahead: VecDeque<(u64, Option<Arc<Block>>)>,
        /// The stream is due and its block has not come.
        starved: bool,
    },
    /// A thread of its own, or two.
    Threads {
        stream: Arc<Mutex<Stream>>,
        runner: Option<Runner>,
    },
}

impl Session {
    /// Looks at the stream, or changes it.
    pub(super) fn with<R>(&mut self, act: impl FnOnce(&mut Stream) -> R) -> R {
        match &mut self.carrier {
            Carrier::Loop { stream, .. } => act(stream),
            Carrier::Threads { stream, .. } => act(&mut lock(stream)),
        }
    }

    /// Whether it is being sent, or will be.
    pub(super) fn is_playing(&self) -> bool {
        self.state != State::Ready
    }

    /// Sends no more.
    pub(super) fn halt(&mut self) {
        match &mut self.carrier {
            Carrier::Loop { ahead, starved, .. } => {
                ahead.clear();
                *starved = false;
            }
            // Dropping the runner tells its threads to stop.
            Carrier::Threads { runner, .. } => *runner = None,
        }
        self.state = State::Ready;
    }
}
