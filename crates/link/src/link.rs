//! The loop that carries frames.
//!
//! One thread serves both ways, because a second one would want a second processor. Frames that are
//! due go first, in order of their times over both ways; then frames are read, until one is due
//! again or there are none. The loop sleeps until a little before the next frame is due, for a
//! sleeper never wakes on time, and spins for the rest, reading meanwhile. How much before, it learns
//! from how late it woke: the mean and twice the mean deviation, as TCP does for its timer
//! (RFC 6298). Buffers are used again,
//! so that a link that has seen its busiest moment allocates nothing.

use std::collections::VecDeque;
use std::ops::{ControlFlow, RangeInclusive};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::device::Device;
use crate::direction::{Direction, Settings, Verdict};
use crate::error::LinkError;
use crate::place::{Address, Place};
use crate::processor;
use crate::report::{Dropped, Errors, LATE_US, OneWay, Report, SCHEMA};

/// Room for a frame: the MTU of 1500 bytes, an Ethernet header, two VLAN tags, rounded up.
const FRAME_BYTES: usize = 1536;

/// Frames on the way in one direction beyond which the link refuses more: 96 MiB of buffers, or
/// 0.4 s of full frames at 2 Gb/s.
const MOST_FLYING: usize = 65_536;

/// Frames read from one device before the other gets its turn.
const BATCH_FRAMES: usize = 32;

/// Least and most time before the next frame is due that the thread wakes to spin. In between it is
/// what the last wake-ups tell: a sleeping processor of a virtual machine takes 100 us to come back,
/// one that has other work a tenth of it.
const SPIN_NS: RangeInclusive<u64> = 5_000..=200_000;

/// One part in so many of the time may be spun: without a limit, a link that wakes late and has a
/// frame due every 60 us (200 Mb/s) would spin all the time, take the processor from the hosts that
/// share it, and never learn that it could wake earlier.
const SPIN_PART: u64 = 4;

/// Wake-ups that weigh in on that time: each counts one in so many.
const WAKES: u64 = 16;

/// How long a link that finds no time to sleep goes on before it looks at its interrupt.
const LOOK_NS: u64 = 10_000_000;

/// Longest error the histogram tells apart from longer ones: ten seconds.
const LONGEST_ERROR_NS: u64 = 10_000_000_000;

/// The two hosts a link joins.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Where the left device stands, and its address if the link is to give it one.
    pub left: (Place, Option<Address>),
    /// The same of the right device.
    pub right: (Place, Option<Address>),
}

/// A frame in memory.
struct Frame {
    bytes: Box<[u8]>,
    length: usize,
    due_ns: u64,
}

/// One way: what it decides, what is on it, and what it did.
struct Way {
    settings: Settings,
    direction: Direction,
    flying: VecDeque<Frame>,
    packets: u64,
    bytes: u64,
    dropped: Dropped,
    errors_ns: Histogram<u64>,
    late_packets: u64,
}

/// What ended a sleep before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// A frame can be read, or it is worth a look.
    Frame,
    /// Somebody wants a report.
    Interrupt,
}

/// A link between two hosts. Its devices vanish with it.
pub struct Link {
    /// Left and right.
    devices: [Device; 2],
    /// Way 0 goes from device 0 to device 1, way 1 back.
    ways: [Way; 2],
    free: Vec<Box<[u8]>>,
    processors: Vec<usize>,
    runs_first: bool,
    since_ns: u64,
    spun_ns: u64,
    /// What may be spun now.
    allowance_ns: u64,
    wakes: Wakes,
}

/// How late the thread wakes from a sleep of set length.
#[derive(Debug)]
struct Wakes {
    mean_ns: u64,
    deviation_ns: u64,
}

impl Wakes {
    /// Learn from one wake-up.
    fn learn(&mut self, late_ns: u64) {
        // One wake-up that another guest delayed by milliseconds says nothing of the next.
        let late_ns = late_ns.min(*SPIN_NS.end());
        let deviation_ns = late_ns.abs_diff(self.mean_ns);
        self.deviation_ns = (self.deviation_ns * (WAKES - 1) + deviation_ns) / WAKES;
        self.mean_ns = (self.mean_ns * (WAKES - 1) + late_ns) / WAKES;
    }

    /// How long before a time to wake.
    fn lead_ns(&self) -> u64 {
        let lead_ns = self.mean_ns + 2 * self.deviation_ns;
        lead_ns.clamp(*SPIN_NS.start(), *SPIN_NS.end())
    }
}

impl Link {
    /// Make both devices and bring them up.
    ///
    /// # Errors
    ///
    /// A setting out of range, a namespace that is not there, a device that cannot be made.
    pub fn open(
        ends: &Ends,
        left_to_right: Settings,
        right_to_left: Settings,
        seed: u64,
        processors: &[usize],
    ) -> Result<Self, LinkError> {
        left_to_right.check()?;
        right_to_left.check()?;
        Ok(Self {
            devices: [
                Device::open(&ends.left.0, ends.left.1)?,
                Device::open(&ends.right.0, ends.right.1)?,
            ],
            ways: [
                Way::new(left_to_right, seed)?,
                Way::new(right_to_left, !seed)?,
            ],
            free: Vec::new(),
            processors: processors.to_vec(),
            runs_first: false,
            since_ns: processor::now_ns(),
            spun_ns: 0,
            allowance_ns: 0,
            wakes: Wakes {
                mean_ns: *SPIN_NS.end() / 2,
                deviation_ns: 0,
            },
        })
    }

    /// Carry frames on the calling thread until `asked` breaks or the time is over, and say what
    /// was done. The thread is bound to the link's processors and made prompt.
    ///
    /// Whenever `interrupt` becomes readable, what it holds is read and `asked` gets a report.
    /// What is on the way at the end is not delivered.
    ///
    /// # Errors
    ///
    /// Processors that do not exist; a failure of the kernel in waiting.
    pub fn run(
        &mut self,
        duration: Option<Duration>,
        interrupt: BorrowedFd<'_>,
        mut asked: impl FnMut(Report) -> ControlFlow<()>,
    ) -> Result<Report, LinkError> {
        processor::bind(&self.processors)?;
        self.runs_first = processor::hurry();
        self.since_ns = processor::now_ns();
        let end_ns = duration.map_or(u64::MAX, |time| {
            let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.since_ns.saturating_add(time_ns)
        });
        let mut looked_ns = self.since_ns;
        let mut now_ns = self.since_ns;
        let mut spinning = false;
        while now_ns < end_ns {
            let delivered = self.deliver();
            let read = [self.receive(0), self.receive(1)];
            let moved = delivered + read[0] + read[1];
            let before_ns = now_ns;
            now_ns = processor::now_ns();
            self.count_spin(now_ns - before_ns, moved == 0 && spinning);
            let due_ns = self.next_due_ns().min(end_ns);
            let lead_ns = self.wakes.lead_ns().min(self.allowance_ns);
            let rest_ns = due_ns.saturating_sub(now_ns.saturating_add(lead_ns));
            let busy = read.contains(&BATCH_FRAMES) || rest_ns == 0;
            spinning = busy;
            if busy && now_ns < looked_ns + LOOK_NS {
                continue;
            }
            let time = (due_ns < u64::MAX || busy)
                .then(|| processor::span(if busy { 0 } else { rest_ns }));
            let wake_ns = now_ns + rest_ns;
            let ready = self.sleep(time, interrupt)?;
            let slept_until_ns = processor::now_ns();
            self.count_spin(slept_until_ns - now_ns, false);
            now_ns = slept_until_ns;
            if ready.is_none() && !busy {
                self.wakes.learn(now_ns.saturating_sub(wake_ns));
            }
            looked_ns = now_ns;
            if ready == Some(Ready::Interrupt) {
                let _ = rustix::io::read(interrupt, &mut [0; 64]);
                if asked(self.report()).is_break() {
                    break;
                }
            }
        }
        Ok(self.report())
    }

    /// Count time that was spun or earns an allowance to.
    fn count_spin(&mut self, time_ns: u64, spun: bool) {
        self.allowance_ns = (self.allowance_ns + time_ns / SPIN_PART).min(*SPIN_NS.end());
        if spun {
            self.spun_ns += time_ns;
            self.allowance_ns = self.allowance_ns.saturating_sub(time_ns);
        }
    }

    /// When the next frame of either way is due.
    fn next_due_ns(&self) -> u64 {
        self.ways.iter().map(Way::due_ns).min().unwrap_or(u64::MAX)
    }

    /// Sleep until something is ready or the time, if there is one, is over.
    fn sleep(
        &self,
        time: Option<Timespec>,
        interrupt: BorrowedFd<'_>,
    ) -> Result<Option<Ready>, LinkError> {
        let mut waiting = [
            PollFd::from_borrowed_fd(self.devices[0].descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.devices[1].descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(interrupt, PollFlags::IN),
        ];
        match poll(&mut waiting, time.as_ref()) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Some(Ready::Frame)),
            Err(error) => return Err(LinkError::Wait(error.into())),
        }
        for (device, state) in self.devices.iter().zip(&waiting) {
            if state.revents().intersects(PollFlags::ERR | PollFlags::HUP) {
                return Err(LinkError::Gone {
                    device: device.name().to_owned(),
                });
            }
        }
        Ok(Some(if waiting[2].revents().is_empty() {
            Ready::Frame
        } else {
            Ready::Interrupt
        }))
    }

    /// Deliver all that is due, in order of its times; how many frames there were.
    fn deliver(&mut self) -> usize {
        let mut now_ns = processor::now_ns();
        let mut count = 0;
        loop {
            let first = usize::from(self.ways[1].due_ns() < self.ways[0].due_ns());
            if self.ways[first].due_ns() > now_ns {
                return count;
            }
            let Some(frame) = self.ways[first].flying.pop_front() else {
                return count;
            };
            let to = self.devices[1 - first].descriptor();
            let written = rustix::io::write(to, &frame.bytes[..frame.length]);
            now_ns = processor::now_ns();
            self.ways[first].delivered(&frame, written.is_ok(), now_ns);
            self.free.push(frame.bytes);
            count += 1;
        }
    }

    /// Read frames from a device until there are none, the other's turn comes or a frame is due;
    /// how many there were.
    fn receive(&mut self, from: usize) -> usize {
        for count in 0..BATCH_FRAMES {
            let mut bytes = self
                .free
                .pop()
                .unwrap_or_else(|| vec![0; FRAME_BYTES].into_boxed_slice());
            let Ok(length) = rustix::io::read(self.devices[from].descriptor(), &mut bytes[..])
            else {
                self.free.push(bytes);
                return count;
            };
            let arrival_ns = processor::now_ns();
            if let Some(bytes) = self.ways[from].admit(bytes, length, arrival_ns) {
                self.free.push(bytes);
            }
            if self.next_due_ns() <= arrival_ns {
                return count + 1;
            }
        }
        BATCH_FRAMES
    }

    /// What was done until now.
    fn report(&mut self) -> Report {
        let [left, right] = &mut self.devices;
        let left_to_right = self.ways[0].report(left);
        let right_to_left = self.ways[1].report(right);
        Report {
            schema: SCHEMA,
            elapsed_s: (processor::now_ns() - self.since_ns) as f64 / 1e9,
            kept: left_to_right.kept() && right_to_left.kept(),
            left_to_right,
            right_to_left,
            cpu_s: processor::used_s(),
            spin_s: self.spun_ns as f64 / 1e9,
            runs_first: self.runs_first,
        }
    }
}

impl Way {
    fn new(settings: Settings, seed: u64) -> Result<Self, LinkError> {
        let mut errors_ns = Histogram::new_with_bounds(1, LONGEST_ERROR_NS, 3)?;
        errors_ns.auto(false);
        Ok(Self {
            direction: Direction::new(&settings, seed),
            settings,
            flying: VecDeque::new(),
            packets: 0,
            bytes: 0,
            dropped: Dropped::default(),
            errors_ns,
            late_packets: 0,
        })
    }

    /// When the next frame is due, the end of time if there is none.
    fn due_ns(&self) -> u64 {
        self.flying.front().map_or(u64::MAX, |frame| frame.due_ns)
    }

    /// Send a frame on its way, or give its buffer back.
    fn admit(&mut self, bytes: Box<[u8]>, length: usize, arrival_ns: u64) -> Option<Box<[u8]>> {
        if self.flying.len() >= MOST_FLYING {
            self.dropped.not_kept += 1;
            return Some(bytes);
        }
        match self.direction.admit(arrival_ns, length) {
            Verdict::Deliver { due_ns } => {
                self.flying.push_back(Frame {
                    bytes,
                    length,
                    due_ns,
                });
                return None;
            }
            Verdict::Full => self.dropped.queue += 1,
            Verdict::Lost => self.dropped.loss += 1,
        }
        Some(bytes)
    }

    /// Count a frame that was written, or that the device refused.
    fn delivered(&mut self, frame: &Frame, taken: bool, now_ns: u64) {
        if !taken {
            self.dropped.not_kept += 1;
            return;
        }
        let error_ns = now_ns.saturating_sub(frame.due_ns);
        self.packets += 1;
        self.bytes += frame.length as u64;
        self.errors_ns.saturating_record(error_ns);
        self.late_packets += u64::from(error_ns as f64 > LATE_US * 1e3);
    }

    fn report(&self, from: &mut Device) -> OneWay {
        OneWay {
            settings: self.settings,
            packets: self.packets,
            bytes: self.bytes,
            dropped: Dropped {
                not_kept: self.dropped.not_kept + from.unread_drops().unwrap_or(0),
                ..self.dropped
            },
            delay_error_us: Errors::of(&self.errors_ns),
            late_packets: self.late_packets,
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Link")
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_wakes_as_early_as_it_has_been_late() {
        let mut wakes = Wakes {
            mean_ns: 100_000,
            deviation_ns: 0,
        };
        for _ in 0..1000 {
            wakes.learn(30_000);
        }
        assert!((30_000..40_000).contains(&wakes.lead_ns()), "{wakes:?}");
        for _ in 0..1000 {
            wakes.learn(50_000_000);
        }
        assert_eq!(wakes.lead_ns(), *SPIN_NS.end());
    }
}
