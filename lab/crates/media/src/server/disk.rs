//! An emulated slow disk. Each read of a file waits for it first.
//!
//! Without a rate, any number of reads waits at the same time. A disk with a rate serves one read
//! after another, as a disk with one arm does, and reads ahead of a stream, as Linux does for a file
//! that is read in order (`read_ahead_kb`, 128 by default). The data that it has read ahead are in
//! memory. Only its time is emulated; the data come from the real file.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use perpacket_linux::mailbox::lock;

use super::library::Medium;

/// Bytes that a disk with a rate reads at once.
const READ_AHEAD_BYTES: u64 = 128 * 1024;

#[derive(Debug)]
pub(super) struct Disk {
    /// The time to find a block.
    delay: Duration,
    /// Bytes a second.
    rate: Option<u64>,
    /// When the disk has served all reads so far.
    free: Mutex<Option<Instant>>,
}

impl Disk {
    pub(super) fn new(delay: Duration, rate_bps: Option<u64>) -> Self {
        Self {
            delay,
            rate: rate_bps.map(|bps| (bps / 8).max(1)),
            free: Mutex::new(None),
        }
    }

    /// Waits until the disk has read these packets.
    pub(super) fn wait(&self, medium: &Medium, first: u64, packets: u64) {
        let Some(rate) = self.rate else {
            return std::thread::sleep(self.delay);
        };
        let (offset, length) = medium.layout.file_range(first, packets);
        // Other readers of this medium wait until the data are there.
        let mut ahead = lock(&medium.ahead);
        if let Some(bytes) = ahead.missing(offset, offset + length) {
            let time = self.delay + Duration::from_secs_f64(bytes as f64 / rate as f64);
            let served = self.turn(Instant::now(), time);
            std::thread::sleep(served.saturating_duration_since(Instant::now()));
        }
    }

    /// The end of a read that takes `time`, if it is the last of all that were requested by `now`.
    fn turn(&self, now: Instant, time: Duration) -> Instant {
        let mut free = lock(&self.free);
        let end = free.map_or(now, |free| free.max(now)) + time;
        *free = Some(end);
        end
    }
}

/// The part of a file that the disk has read last.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    begin: u64,
    end: u64,
}

impl Ahead {
    /// The number of bytes that the disk must read before this range is in memory; `None` if it is.
    fn missing(&mut self, begin: u64, end: u64) -> Option<u64> {
        let is_in_order = (self.begin..=self.end).contains(&begin);
        if is_in_order && end <= self.end {
            return None;
        }
        let from = if is_in_order { self.end } else { begin };
        self.begin = begin;
        self.end = end.next_multiple_of(READ_AHEAD_BYTES);
        Some(self.end - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_a_rate_serves_one_read_after_another() {
        let disk = Disk::new(Duration::from_millis(10), Some(8_000_000));
        let (now, read) = (Instant::now(), Duration::from_millis(15));
        assert_eq!(disk.turn(now, read), now + read);
        assert_eq!(disk.turn(now, read), now + 2 * read);
        let later = now + Duration::from_secs(1);
        assert_eq!(disk.turn(later, read), later + read, "the disk was idle");
    }

    #[test]
    fn a_stream_finds_most_packets_in_memory_and_a_jump_does_not() {
        let mut ahead = Ahead::default();
        let reads: Vec<_> = (0..200)
            .filter_map(|packet| ahead.missing(packet * 1316, (packet + 1) * 1316))
            .collect();
        assert_eq!(reads, [READ_AHEAD_BYTES; 3], "263,200 bytes");
        assert_eq!(
            ahead.missing(1 << 20, (1 << 20) + 1316),
            Some(READ_AHEAD_BYTES)
        );
        assert_eq!(ahead.missing(0, 1316), Some(READ_AHEAD_BYTES));
        assert_eq!(
            ahead.missing(0, 200_000),
            Some(READ_AHEAD_BYTES),
            "the rest"
        );
    }
}
