//! A queue between threads whose receiver waits for a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// A queue of messages. An event descriptor wakes the receiver.
#[derive(Debug)]
pub struct Mailbox<T> {
    messages: Mutex<Vec<T>>,
    descriptor: OwnedFd,
}

impl<T> Mailbox<T> {
    /// # Errors
    /// No descriptor is free.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            messages: Mutex::default(),
            descriptor: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Adds a message and wakes the receiver.
    pub fn post(&self, message: T) {
        lock(&self.messages).push(message);
        self.wake();
    }

    /// Wakes the receiver without a message.
    pub fn wake(&self) {
        // The only possible error is a full counter, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// Removes and returns all messages.
    pub fn drain(&self) -> Vec<T> {
        // The read fails if nothing was posted since the last call.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        std::mem::take(&mut *lock(&self.messages))
    }

    /// Readable when there are messages.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Locks a mutex, even if it is poisoned. For data that no code leaves half changed when it panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
