//! Waits for events of an epoll instance, with a timeout in nanoseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Whether the kernel has no `epoll_pwait2` (before Linux 5.11), or a seccomp filter forbids it.
static LACKS_PWAIT2: AtomicBool = AtomicBool::new(false);

/// Appends the ready events, as many as `events` has room for. Returns when there is one, when the
/// time is up, or after a signal. Without a timeout there is no limit of time.
///
/// # Errors
/// The errors of epoll_wait(2) except an interruption.
pub fn wait(
    epoll: impl AsFd,
    events: &mut Vec<Event>,
    timeout: Option<&Timespec>,
) -> io::Result<()> {
    let epoll = epoll.as_fd();
    let result = if LACKS_PWAIT2.load(Ordering::Relaxed) {
        wait_by_poll(epoll, events, timeout)
    } else {
        match epoll::wait(epoll, spare_capacity(events), timeout) {
            Err(Errno::NOSYS | Errno::PERM) => {
                LACKS_PWAIT2.store(true, Ordering::Relaxed);
                wait_by_poll(epoll, events, timeout)
            }
            result => result.map(drop),
        }
    };
    match result {
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// As [`wait`], on every kernel. An epoll instance is itself a descriptor that becomes readable, and
/// ppoll(2) has a timeout in nanoseconds. The precision is the same; the cost is a second system call.
fn wait_by_poll(
    epoll: BorrowedFd<'_>,
    events: &mut Vec<Event>,
    timeout: Option<&Timespec>,
) -> Result<(), Errno> {
    poll(&mut [PollFd::new(&epoll, PollFlags::IN)], timeout)?;
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
    use rustix::event::epoll::{CreateFlags, EventData, EventFlags};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    const BOTH: [bool; 2] = [false, true];

    fn run(old: bool, epoll: impl AsFd, events: &mut Vec<Event>, timeout: Option<&Timespec>) {
        if old {
            wait_by_poll(epoll.as_fd(), events, timeout).unwrap();
        } else {
            wait(epoll, events, timeout).unwrap();
        }
    }

    #[test]
    fn both_ways_report_the_same_events() {
        let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        for (number, (_, theirs)) in pairs.iter().enumerate() {
            let data = EventData::new_u64(number as u64 + 7);
            epoll::add(&poll, theirs, data, EventFlags::IN).unwrap();
        }
        let zero = Timespec::default();
        for old in BOTH {
            let mut events = Vec::with_capacity(8);
            run(old, &poll, &mut events, Some(&zero));
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
        let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 1_300_000,
        };
        for old in BOTH {
            let begin = Instant::now();
            run(old, &poll, &mut Vec::with_capacity(1), Some(&timeout));
            assert!(begin.elapsed() >= Duration::from_nanos(1_300_000));
        }
    }
}
