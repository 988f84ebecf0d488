//! The bulk sender of TR05-450, section 5: one process that writes a segment to each connection in
//! turn, at a set total rate.

use super::footprint::Operation;
use super::kernel::Kernel;
use crate::connection::ConnectionId;
use crate::context::{Context, Event};
use crate::time::{Span, Time};

/// The sender's progress.
#[derive(Clone, Debug)]
pub struct BulkSender {
    segment_bytes: u32,
    interval: Span,
    /// Accepted connections, in order.
    connections: Vec<ConnectionId>,
    expected: usize,
    next: usize,
    due: Time,
}

impl BulkSender {
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

    /// Writes a segment to the next connection, unless its send buffer is full.
    pub fn write(&mut self, kernel: &mut Kernel, context: &mut Context) {
        let id = self.connections[self.next];
        let distance = kernel.ahead.map_or(0, |ahead| ahead.distance);
        let later = self.connections[(self.next + distance) % self.connections.len()];
        self.next = (self.next + 1) % self.connections.len();
        // A sender that has fallen behind continues at once but does not catch up.
        self.due = (self.due + self.interval).max(context.now);
        context.at(self.due, Event::BulkDue);
        if let Some(ahead) = kernel.ahead {
            kernel.fetch_write_ahead(later, ahead);
        }
        kernel.cpu.at_connection(&kernel.sockets[id].places);
        kernel.cpu.run(Operation::UserWrite);
        if kernel.send_room_bytes(id) >= self.segment_bytes {
            kernel.enqueue(id, Operation::Write, self.segment_bytes, false, context);
        }
    }
}
