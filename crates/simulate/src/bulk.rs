//! The bulk sender of TR05-450, section 5: one process that writes a segment to each connection in
//! turn, at a set total rate.

use crate::host::footprint::Operation;
use crate::kernel::UserJob;
use crate::time::{Span, Time};
use crate::world::{Event, World};

/// The sender's progress.
#[derive(Clone, Debug)]
pub struct Bulk {
    segment_bytes: u32,
    interval: Span,
    /// Accepted connections, in order.
    connections: Vec<u32>,
    expected: usize,
    next: usize,
    due: Time,
}

impl Bulk {
    /// A sender of `segment_bytes` at `rate_bps` of payload over `expected` connections.
    pub fn new(segment_bytes: u32, rate_bps: u64, expected: u32) -> Self {
        Self {
            segment_bytes,
            interval: Span::of_bytes(u64::from(segment_bytes), rate_bps),
            connections: Vec::with_capacity(expected as usize),
            expected: expected as usize,
            next: 0,
            due: Time::ZERO,
        }
    }
}

impl World {
    /// One more connection is there; the last one starts the sender.
    pub fn bulk_accepted(&mut self, number: u32) {
        let Some(bulk) = &mut self.bulk else { return };
        bulk.connections.push(number);
        if bulk.connections.len() == bulk.expected {
            bulk.due = self.now;
            self.at(self.now, Event::BulkDue);
        }
    }

    /// The next segment is due.
    pub fn bulk_due(&mut self) {
        self.host.user.push_back(UserJob::Write);
        self.wake_host();
    }

    /// Writes a segment to the next connection; one whose send buffer is full is passed over.
    pub fn bulk_write(&mut self) {
        let Some(bulk) = &mut self.bulk else { return };
        let number = bulk.connections[bulk.next];
        let ahead = self.host.prefetch_distance.unwrap_or(0);
        let later = bulk.connections[(bulk.next + ahead) % bulk.connections.len()];
        bulk.next = (bulk.next + 1) % bulk.connections.len();
        // A sender that has fallen behind goes on at once, but does not catch up.
        bulk.due = (bulk.due + bulk.interval).max(self.now);
        let (due, bytes) = (bulk.due, bulk.segment_bytes);
        self.at(due, Event::BulkDue);
        if self.host.prefetch_distance.is_some() {
            let places = self.connections[later].places;
            self.prefetch_structures(&places);
        }
        self.host
            .cpu
            .at_connection(&self.connections[number].places);
        self.host.cpu.run(Operation::UserWrite);
        if self.send_room(number) >= bytes {
            self.enqueue(number, Operation::Write, bytes, false);
        }
    }

    /// Issues prefetches for a connection's structures.
    pub fn prefetch_structures(&mut self, places: &crate::host::cpu::Places) {
        self.host.cpu.at_connection(places);
        self.host.cpu.run_prefetch(Operation::DriverPrefetch);
    }
}
