//! Events that other threads send to an event loop.

use super::block::Block;
use super::library::{Medium, OpenError};
use std::sync::Arc;

/// An event for the connection of a token.
#[derive(Debug)]
pub(super) enum Event {
    /// A block was read; `None` if the read failed.
    Block {
        token: u64,
        index: u64,
        block: Option<Arc<Block>>,
    },
    /// A medium was opened.
    Opened {
        token: u64,
        result: Result<Arc<Medium>, OpenError>,
    },
    /// The connection has more input than one call reads.
    ReadAgain { token: u64 },
    /// The threads of a stream have ended.
    Ended { token: u64, run: u64, failed: bool },
}

/// The connection that receives an event.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) token: u64,
}

/// The mailbox of an event loop.
pub(super) type Mailbox = perpacket_linux::mailbox::Mailbox<Event>;
