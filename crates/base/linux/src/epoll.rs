//! An epoll instance whose waits have a timeout in nanoseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub use rustix::event::epoll::{Event, EventFlags};

/// Every change of a connection, once (edge-triggered).
pub const EDGES: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// Whether the kernel has no `epoll_pwait2` (before Linux 5.11), or a seccomp filter forbids it.
static LACKS_PWAIT2: AtomicBool = AtomicBool::new(false);

/// An epoll instance. Each descriptor that it watches has a number, which its events contain.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// # Errors
    /// No descriptor is free.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a descriptor.
    ///
    /// # Errors
    /// The errors of epoll_ctl(2).
    pub fn add(&self, source: impl AsFd, number: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(
            &self.0,
            source,
            EventData::new_u64(number),
            flags,
        )?)
    }

    /// Watches a descriptor for other events.
    ///
    /// # Errors
    /// The errors of epoll_ctl(2).
    pub fn modify(&self, source: impl AsFd, number: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(
            &self.0,
            source,
            EventData::new_u64(number),
            flags,
        )?)
    }

    /// Appends the ready events, as many as `events` has room for. Returns when there is one, when the
    /// time is up, or after a signal. Without a limit, there is no limit of time.
    ///
    /// # Errors
    /// The errors of epoll_wait(2) except an interruption.
    pub fn wait(&self, events: &mut Vec<Event>, limit: Option<Duration>) -> io::Result<()> {
        let timeout = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let result = if LACKS_PWAIT2.load(Ordering::Relaxed) {
            wait_by_poll(&self.0, events, timeout.as_ref())
        } else {
            match epoll::wait(&self.0, spare_capacity(events), timeout.as_ref()) {
                Err(Errno::NOSYS | Errno::PERM) => {
                    LACKS_PWAIT2.store(true, Ordering::Relaxed);
                    wait_by_poll(&self.0, events, timeout.as_ref())
                }
                result => result.map(drop),
            }
        };
        match result {
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// As [`Epoll::wait`], on every kernel. An epoll instance is itself a descriptor that becomes readable, and
/// ppoll(2) has a timeout in nanoseconds. The precision is the same; the cost is a second system call.
fn wait_by_poll(
    epoll: &OwnedFd,
    events: &mut Vec<Event>,
    timeout: Option<&Timespec>,
) -> Result<(), Errno> {
    poll(&mut [PollFd::new(epoll, PollFlags::IN)], timeout)?;
    let room = events.spare_capacity_mut();
    let size = i32::try_from(room.len()).unwrap_or(i32::MAX);
    // SAFETY: the kernel writes at most `size` events to memory of this length, in the layout of
    // `Event`. Their number is the result.
    unsafe {
        let to = room.as_mut_ptr().cast();
        let count = libc::epoll_wait(epoll.as_raw_fd(), to, size, 0);
        let count = usize::try_from(count).map_err(|_| last_error())?;
        events.set_len(events.len() + count);
    }
    Ok(())
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    const BOTH: [bool; 2] = [false, true];

    fn run(old: bool, epoll: &Epoll, events: &mut Vec<Event>, limit_ns: Option<u32>) {
        if old {
            let timeout = limit_ns.map(|nanoseconds| Timespec {
                tv_sec: 0,
                tv_nsec: nanoseconds.into(),
            });
            wait_by_poll(&epoll.0, events, timeout.as_ref()).unwrap();
        } else {
            let limit = limit_ns.map(|nanoseconds| Duration::from_nanos(nanoseconds.into()));
            epoll.wait(events, limit).unwrap();
        }
    }

    #[test]
    fn both_ways_report_the_same_events() {
        let poll = Epoll::new().unwrap();
        let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        for (number, (_, theirs)) in pairs.iter().enumerate() {
            poll.add(theirs, number as u64 + 7, EventFlags::IN).unwrap();
        }
        for old in BOTH {
            let mut events = Vec::with_capacity(8);
            run(old, &poll, &mut events, Some(0));
            assert!(events.is_empty());
        }
        for (ours, _) in &pairs {
            (&*ours).write_all(b"x").unwrap();
        }
        for old in BOTH {
            let mut events = Vec::with_capacity(8);
            run(old, &poll, &mut events, None);
            let mut data: Vec<_> = events.iter().map(|event| event.data.u64()).collect();
            data.sort_unstable();
            assert_eq!(data, [7, 8], "old kernel: {old}");
            // No more events than the vector has room for.
            let mut events = Vec::with_capacity(1);
            run(old, &poll, &mut events, None);
            assert_eq!(events.len(), 1, "old kernel: {old}");
        }
    }

    #[test]
    fn no_way_returns_before_the_time_is_up() {
        let poll = Epoll::new().unwrap();
        for old in BOTH {
            let begin = Instant::now();
            run(old, &poll, &mut Vec::with_capacity(1), Some(1_300_000));
            assert!(begin.elapsed() >= Duration::from_nanos(1_300_000));
        }
    }
}
