//! The bulk sender of TR05-450, section 5: one process that writes a segment to each connection in
//! turn, at a set total rate.

use super::footprint::Operation;
use super::kernel::Kernel;
use crate::connection::ConnectionId;
use crate::context::{Context, Event};
use crate::time::{Span, Time};
use crate::workload::BulkParameters;

/// The sender's progress.
#[derive(Clone, Debug)]
pub struct BulkSender {
    segment_bytes: u32,
    /// Segments of a connection that are written together.
    burst: u32,
    /// Time between two bursts.
    interval: Span,
    /// The minimum time between two events of the sender; 0 if each burst has an event of its own.
    sleep: Span,
    /// Accepted connections, in order.
    connections: Vec<ConnectionId>,
    expected: usize,
    next: usize,
    due: Time,
}

impl BulkSender {
    /// The sender of a workload.
    pub fn new(bulk: &BulkParameters) -> Self {
        let rate_bps = (bulk.rate_mbps * 1e6) as u64;
        let bytes = u64::from(bulk.segment_bytes);
        let round = Span::of_bytes(bytes * u64::from(bulk.connections), rate_bps);
        let burst = Span::from_us(bulk.burst_us.into())
            .as_ns()
            .div_ceil(round.as_ns().max(1));
        let burst = burst.clamp(1, 64) as u32;
        Self {
            segment_bytes: bulk.segment_bytes,
            burst,
            interval: Span::of_bytes(bytes * u64::from(burst), rate_bps),
            sleep: Span::from_us(bulk.sleep_us.into()),
            connections: Vec::with_capacity(bulk.connections as usize),
            expected: bulk.connections as usize,
            next: 0,
            due: Time::ZERO,
        }
    }

    /// Accepts a connection. The last one starts the sender.
    pub fn accept(&mut self, id: ConnectionId, kernel: &mut Kernel, context: &mut Context) {
        kernel.poll(id);
        kernel.accept();
        kernel.stop_polling(id);
        self.connections.push(id);
        if self.connections.len() == self.expected {
            self.due = context.now;
            context.at(self.due, Event::BulkDue);
        }
    }

    /// Writes all bursts that are due, or only one if each burst has an event of its own.
    pub fn write(&mut self, kernel: &mut Kernel, context: &mut Context) {
        let now = context.now;
        loop {
            self.write_burst(kernel, context);
            if self.sleep == Span::ZERO {
                // A sender that has fallen behind continues at once but does not catch up.
                self.due = (self.due + self.interval).max(now);
                break;
            }
            self.due += self.interval;
            if self.due > now {
                break;
            }
        }
        context.at(self.due.max(now + self.sleep), Event::BulkDue);
    }

    /// Writes a burst to the next connection, but only the segments for which its send buffer has
    /// room.
    fn write_burst(&mut self, kernel: &mut Kernel, context: &mut Context) {
        let id = self.connections[self.next];
        let distance = kernel.prefetch.map_or(0, |prefetch| prefetch.distance);
        let later = self.connections[(self.next + distance) % self.connections.len()];
        self.next = (self.next + 1) % self.connections.len();
        for _ in 0..self.burst {
            if let Some(prefetch) = kernel.prefetch {
                kernel.prefetch_write(later, prefetch);
            }
            kernel.cpu.at_connection(&kernel.sockets[id].lines);
            kernel.cpu.run(Operation::UserWrite);
            if kernel.send_room_bytes(id) >= self.segment_bytes {
                kernel.enqueue(id, Operation::Write, self.segment_bytes, false, context);
            }
        }
    }
}
