//! Events that other threads send to an event loop.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use super::block::Block;
use super::library::{Medium, OpenError};

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

/// A queue of events. An event descriptor wakes the event loop.
#[derive(Debug)]
pub(super) struct Mailbox {
    events: Mutex<Vec<Event>>,
    descriptor: OwnedFd,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            events: Mutex::default(),
            descriptor: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Adds an event and wakes the event loop.
    pub(super) fn post(&self, event: Event) {
        lock(&self.events).push(event);
        self.wake();
    }

    /// Wakes the event loop without an event.
    pub(super) fn wake(&self) {
        // The only possible error is a full counter, and then the loop wakes too.
        let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// Removes all events.
    pub(super) fn drain(&self) -> Vec<Event> {
        let mut count = [0; 8];
        // The read fails if nothing was posted since the last call.
        let _ = rustix::io::read(&self.descriptor, &mut count);
        std::mem::take(&mut *lock(&self.events))
    }

    /// Readable when there are events.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Locks a mutex, even if it is poisoned. No code panics in the middle of a change while it has a
/// lock of the server, so the data of a poisoned lock are valid.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
