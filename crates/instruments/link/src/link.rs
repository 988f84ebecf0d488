//! The loop that carries frames.
//!
//! One thread serves both directions, because a second one would need a second CPU. It first
//! delivers the frames that are due, in order of their times over both directions, then reads
//! frames until a frame is due or none is left. A sleeping thread wakes late, so it sleeps only
//! until a little before the next frame is due, and then spins and reads frames. It estimates this
//! margin from its lateness so far, as the mean plus twice the mean deviation, similar to TCP's
//! timer (RFC 6298). Buffers are reused. So a link allocates memory only when more frames are in
//! flight than ever before.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{ControlFlow, RangeInclusive};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hdrhistogram::Histogram;
use perpacket_linux::clock::{monotonic_ns, thread_cpu_ns};
use perpacket_linux::interface::Interface;
use perpacket_linux::{affinity, scheduling};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::address::Address;
use crate::device::Device;
use crate::error::LinkError;
use crate::report::{Dropped, Errors, LATE_US, OneWay, Report, SCHEMA};
use crate::schedule::{DirectionSpec, Schedule, Verdict};

/// Bytes of the longest frame: the largest packet of IPv4, an Ethernet header and two VLAN tags.
const LONGEST_FRAME_BYTES: usize = 65_535 + 14 + 8;

/// Initial size of a buffer: a frame with an MTU of 1500 bytes. A buffer grows for longer frames.
const BUFFER_BYTES: usize = 1536;

/// Maximum number of frames in flight in one direction.
const IN_FLIGHT_FRAMES: usize = 65_536;

/// Maximum number of bytes in flight in one direction: 0.4 s of full frames at 2 Gb/s.
const IN_FLIGHT_BYTES: usize = IN_FLIGHT_FRAMES * BUFFER_BYTES;

/// Number of frames read from one device before the other device is read.
const BATCH_FRAMES: usize = 32;

/// The thread wakes some time before a frame is due, and then spins. These are the shortest and the
/// longest such time. A sleeping CPU of a virtual machine wakes in 100 us. A CPU that runs other
/// threads needs a tenth of that.
const LEAD_NS: RangeInclusive<u64> = 5_000..=200_000;

/// At most 1/`SPIN_PART` of the time is spent spinning. Without a limit, a link that wakes late and
/// has a frame due every 60 us (200 Mb/s) would spin all the time. It would take the CPU from the
/// hosts that share it. It would also never sleep, and so never estimate its lateness.
const SPIN_PART: u64 = 4;

/// Weight of one wake-up in the mean, as a divisor.
const WAKE_WEIGHT: u64 = 16;

/// Longest time between two checks of the descriptor `interrupt` while the link does not sleep.
const POLL_INTERVAL_NS: u64 = 10_000_000;

/// Largest error that the histogram resolves: ten seconds.
const LONGEST_ERROR_NS: u64 = 10_000_000_000;

/// One end of a link: the TAP device to create, and the address of the device, if any.
pub type End = (Interface, Option<Address>);

/// A frame in flight.
struct Frame {
    bytes: Vec<u8>,
    due_ns: u64,
}

/// One direction: its schedule, its frames in flight and its counts.
struct Direction {
    settings: DirectionSpec,
    schedule: Schedule,
    in_flight: VecDeque<Frame>,
    in_flight_bytes: usize,
    packets: u64,
    bytes: u64,
    dropped: Dropped,
    errors_ns: Histogram<u64>,
    late_packets: u64,
}

/// The event that ended a sleep early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// A frame may be readable.
    Frame,
    /// The descriptor `interrupt` is readable.
    Interrupt,
}

/// A link between two hosts. Dropping it removes its devices.
pub struct Link {
    /// The left and the right device.
    devices: [Device; 2],
    /// The direction from device 0 to device 1, and the opposite direction.
    directions: [Direction; 2],
    /// Buffer for reads. It has one byte more than the longest frame, to detect truncation.
    read_buffer: Box<[u8]>,
    free_buffers: Vec<Vec<u8>>,
    cpus: Vec<usize>,
    has_priority: bool,
    start_ns: u64,
    spun_ns: u64,
    /// The time that the link may spin now.
    spin_allowance_ns: u64,
    wakes: Wakes,
}

/// An estimate of how late the thread wakes from sleep.
#[derive(Debug)]
struct Wakes {
    mean_ns: u64,
    deviation_ns: u64,
}

impl Wakes {
    /// Updates the estimate after one wake-up.
    fn learn(&mut self, late_ns: u64) {
        // If another guest delays a wake-up by milliseconds, that does not predict the next
        // wake-up.
        let late_ns = late_ns.min(*LEAD_NS.end());
        let deviation_ns = late_ns.abs_diff(self.mean_ns);
        let mean = |mean_ns, new_ns| (mean_ns * (WAKE_WEIGHT - 1) + new_ns) / WAKE_WEIGHT;
        self.deviation_ns = mean(self.deviation_ns, deviation_ns);
        self.mean_ns = mean(self.mean_ns, late_ns);
    }

    /// How long before a due time the thread must wake.
    fn lead_ns(&self) -> u64 {
        let lead_ns = self.mean_ns + 2 * self.deviation_ns;
        lead_ns.clamp(*LEAD_NS.start(), *LEAD_NS.end())
    }
}

impl Link {
    /// Creates both devices and brings them up.
    ///
    /// # Errors
    /// A setting is out of range, a namespace does not exist, or a device cannot be created.
    pub fn open(
        left: &End,
        right: &End,
        left_to_right: DirectionSpec,
        right_to_left: DirectionSpec,
        seed: u64,
        cpus: &[usize],
    ) -> Result<Self, LinkError> {
        left_to_right.check()?;
        right_to_left.check()?;
        Ok(Self {
            devices: [
                Device::open(&left.0, left.1)?,
                Device::open(&right.0, right.1)?,
            ],
            directions: [
                Direction::new(left_to_right, seed)?,
                Direction::new(right_to_left, !seed)?,
            ],
            read_buffer: vec![0; LONGEST_FRAME_BYTES + 1].into_boxed_slice(),
            free_buffers: Vec::new(),
            cpus: cpus.to_vec(),
            has_priority: false,
            start_ns: monotonic_ns(),
            spun_ns: 0,
            spin_allowance_ns: 0,
            wakes: Wakes {
                mean_ns: *LEAD_NS.end() / 2,
                deviation_ns: 0,
            },
        })
    }

    /// Binds the calling thread to the link's CPUs, raises its priority and carries frames. Ends
    /// when `on_interrupt` breaks or the time is over, and returns the last report.
    ///
    /// Whenever `interrupt` is readable, the link reads it and passes a report to `on_interrupt`.
    /// Frames that are in flight at the end are not delivered.
    ///
    /// # Errors
    /// A CPU does not exist, the kernel fails to wait, or a device was removed.
    pub fn run(
        &mut self,
        duration: Option<Duration>,
        interrupt: BorrowedFd<'_>,
        mut on_interrupt: impl FnMut(Report) -> ControlFlow<()>,
    ) -> Result<Report, LinkError> {
        affinity::bind(&self.cpus).map_err(|source| LinkError::Cpus {
            cpus: self.cpus.clone(),
            source,
        })?;
        self.has_priority = scheduling::prioritize();
        self.start_ns = monotonic_ns();
        let end_ns = duration.map_or(u64::MAX, |time| {
            let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.start_ns.saturating_add(time_ns)
        });
        let mut polled_ns = self.start_ns;
        let mut now_ns = self.start_ns;
        let mut is_spinning = false;
        while now_ns < end_ns {
            let delivered = self.deliver();
            let read = [self.receive(0), self.receive(1)];
            let is_idle = delivered + read[0] + read[1] == 0;
            let before_ns = now_ns;
            now_ns = monotonic_ns();
            self.count_spin(now_ns - before_ns, is_idle && is_spinning);
            let due_ns = self.next_due_ns().min(end_ns);
            let lead_ns = self.wakes.lead_ns().min(self.spin_allowance_ns);
            let sleep_ns = due_ns.saturating_sub(now_ns.saturating_add(lead_ns));
            is_spinning = read.contains(&BATCH_FRAMES) || sleep_ns == 0;
            if is_spinning && now_ns < polled_ns + POLL_INTERVAL_NS {
                continue;
            }
            let timeout_ns = match (is_spinning, due_ns) {
                (true, _) => Some(0),
                (false, u64::MAX) => None,
                (false, _) => Some(sleep_ns),
            };
            let wake_ns = now_ns + sleep_ns;
            let ready = self.sleep(timeout_ns, interrupt)?;
            let slept_ns = monotonic_ns() - now_ns;
            self.count_spin(slept_ns, false);
            now_ns += slept_ns;
            if ready.is_none() && !is_spinning {
                self.wakes.learn(now_ns.saturating_sub(wake_ns));
            }
            polled_ns = now_ns;
            if ready == Some(Ready::Interrupt) {
                let _ = rustix::io::read(interrupt, &mut [0; 64]);
                if on_interrupt(self.report()).is_break() {
                    break;
                }
            }
        }
        Ok(self.report())
    }

    /// Updates the spin allowance. Elapsed time increases it, and spinning reduces it.
    fn count_spin(&mut self, time_ns: u64, was_spun: bool) {
        let allowance_ns = self.spin_allowance_ns + time_ns / SPIN_PART;
        self.spin_allowance_ns = allowance_ns.min(*LEAD_NS.end());
        if was_spun {
            self.spun_ns += time_ns;
            self.spin_allowance_ns = self.spin_allowance_ns.saturating_sub(time_ns);
        }
    }

    /// The time at which the next frame of either direction is due.
    fn next_due_ns(&self) -> u64 {
        let [left_to_right, right_to_left] = &self.directions;
        left_to_right.due_ns().min(right_to_left.due_ns())
    }

    /// Sleeps until something is ready, or until the timeout if there is one.
    fn sleep(
        &self,
        timeout_ns: Option<u64>,
        interrupt: BorrowedFd<'_>,
    ) -> Result<Option<Ready>, LinkError> {
        let timeout = timeout_ns.map(|time_ns| Timespec {
            tv_sec: (time_ns / 1_000_000_000) as i64,
            tv_nsec: (time_ns % 1_000_000_000) as i64,
        });
        let mut polled = [
            PollFd::from_borrowed_fd(self.devices[0].descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.devices[1].descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(interrupt, PollFlags::IN),
        ];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Some(Ready::Frame)),
            Err(error) => return Err(LinkError::Wait(error.into())),
        }
        for (device, state) in self.devices.iter().zip(&polled) {
            if state.revents().intersects(PollFlags::ERR | PollFlags::HUP) {
                return Err(LinkError::DeviceRemoved {
                    device: device.name().to_owned(),
                });
            }
        }
        Ok(Some(if polled[2].revents().is_empty() {
            Ready::Frame
        } else {
            Ready::Interrupt
        }))
    }

    /// Delivers all frames that are due, in order of their due times. Returns the number of frames.
    fn deliver(&mut self) -> usize {
        let mut now_ns = monotonic_ns();
        let mut count = 0;
        loop {
            let first = usize::from(self.directions[1].due_ns() < self.directions[0].due_ns());
            let Some(frame) = self.directions[first].pop_due(now_ns) else {
                return count;
            };
            let to = self.devices[1 - first].descriptor();
            let written = rustix::io::write(to, &frame.bytes);
            now_ns = monotonic_ns();
            self.directions[first].count(&frame, written.is_ok(), now_ns);
            self.free_buffers.push(frame.bytes);
            count += 1;
        }
    }

    /// Reads frames from a device until none is left, a batch was read or a frame is due. Returns
    /// the number of frames.
    fn receive(&mut self, from: usize) -> usize {
        for count in 0..BATCH_FRAMES {
            let descriptor = self.devices[from].descriptor();
            let Ok(length) = rustix::io::read(descriptor, &mut self.read_buffer[..]) else {
                return count;
            };
            let arrival_ns = monotonic_ns();
            let frame = &self.read_buffer[..length];
            self.directions[from].admit(frame, arrival_ns, &mut self.free_buffers);
            if self.next_due_ns() <= arrival_ns {
                return count + 1;
            }
        }
        BATCH_FRAMES
    }

    fn report(&mut self) -> Report {
        let [left, right] = &mut self.devices;
        let left_to_right = self.directions[0].report(left);
        let right_to_left = self.directions[1].report(right);
        Report {
            schema: SCHEMA,
            elapsed_s: (monotonic_ns() - self.start_ns) as f64 / 1e9,
            kept: left_to_right.is_kept() && right_to_left.is_kept(),
            left_to_right,
            right_to_left,
            cpu_s: thread_cpu_ns() as f64 / 1e9,
            spin_s: self.spun_ns as f64 / 1e9,
            runs_first: self.has_priority,
        }
    }
}

impl Direction {
    fn new(settings: DirectionSpec, seed: u64) -> Result<Self, LinkError> {
        Ok(Self {
            schedule: Schedule::new(&settings, seed),
            settings,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            packets: 0,
            bytes: 0,
            dropped: Dropped::default(),
            errors_ns: Histogram::new_with_bounds(1, LONGEST_ERROR_NS, 3)?,
            late_packets: 0,
        })
    }

    /// The time at which the next frame is due; `u64::MAX` if there is none.
    fn due_ns(&self) -> u64 {
        self.in_flight
            .front()
            .map_or(u64::MAX, |frame| frame.due_ns)
    }

    /// The next frame, if it is due.
    fn pop_due(&mut self, now_ns: u64) -> Option<Frame> {
        if self.due_ns() > now_ns {
            return None;
        }
        let frame = self.in_flight.pop_front()?;
        self.in_flight_bytes -= frame.bytes.len();
        Some(frame)
    }

    /// Puts a frame in flight or drops it.
    fn admit(&mut self, frame: &[u8], arrival_ns: u64, free_buffers: &mut Vec<Vec<u8>>) {
        if frame.len() > LONGEST_FRAME_BYTES
            || self.in_flight.len() >= IN_FLIGHT_FRAMES
            || self.in_flight_bytes + frame.len() > IN_FLIGHT_BYTES
        {
            self.dropped.not_kept += 1;
            return;
        }
        match self.schedule.admit(arrival_ns, frame.len()) {
            Verdict::Deliver { due_ns } => {
                let mut bytes = free_buffers
                    .pop()
                    .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
                bytes.clear();
                bytes.extend_from_slice(frame);
                self.in_flight_bytes += frame.len();
                self.in_flight.push_back(Frame { bytes, due_ns });
            }
            Verdict::Full => self.dropped.queue += 1,
            Verdict::Lost => self.dropped.loss += 1,
        }
    }

    /// Counts a frame that was written, or that the device refused.
    fn count(&mut self, frame: &Frame, was_written: bool, now_ns: u64) {
        if !was_written {
            self.dropped.not_kept += 1;
            return;
        }
        let error_ns = now_ns.saturating_sub(frame.due_ns);
        self.packets += 1;
        self.bytes += frame.bytes.len() as u64;
        self.errors_ns.saturating_record(error_ns);
        self.late_packets += u64::from(error_ns as f64 > LATE_US * 1e3);
    }

    fn report(&self, from: &mut Device) -> OneWay {
        OneWay {
            settings: self.settings,
            packets: self.packets,
            bytes: self.bytes,
            dropped: Dropped {
                not_kept: self.dropped.not_kept + from.send_drops().unwrap_or(0),
                ..self.dropped
            },
            delay_error_us: Errors::of(&self.errors_ns),
            late_packets: self.late_packets,
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    fn the_lead_follows_the_lateness_of_wake_ups_up_to_a_limit() {
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
        assert_eq!(wakes.lead_ns(), *LEAD_NS.end());
    }

    #[test]
    fn frames_that_are_too_long_or_too_many_are_dropped_and_counted() {
        let mut direction = Direction::new(DirectionSpec::default(), 1).unwrap();
        let mut free = Vec::new();
        let frame = vec![0; LONGEST_FRAME_BYTES + 1];
        direction.admit(&frame, 0, &mut free);
        assert_eq!(direction.dropped.not_kept, 1);
        let jumbo = &frame[..LONGEST_FRAME_BYTES];
        let room = IN_FLIGHT_BYTES / jumbo.len();
        for _ in 0..room + 2 {
            direction.admit(jumbo, 0, &mut free);
        }
        assert_eq!(
            (direction.in_flight.len(), direction.dropped.not_kept),
            (room, 3)
        );
        while let Some(frame) = direction.pop_due(0) {
            direction.count(&frame, true, 0);
        }
        assert_eq!(
            (direction.in_flight_bytes, direction.packets),
            (0, room as u64)
        );
    }
}
