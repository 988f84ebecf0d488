//! The host's side of handoff: offering connections, forwarding socket operations, reading the
//! NIC's messages (OSDI 2006, section 2).

use crate::connection::Owner;
use crate::host::footprint::Operation;
use crate::kernel::KernelJob;
use crate::tcp::Reaction;
use crate::time::Span;
use crate::world::{Command, CommandKind, Event, World};

/// Bytes of a message that the host reads.
const MESSAGE_BYTES: u32 = 64;

impl World {
    /// The share of open connections that the NIC may hold.
    pub fn room_share(&self) -> f64 {
        let connections = self.clients.slots.len().max(1) as f64;
        f64::from(self.host.soft_limit) / connections
    }

    /// Offers a connection to the NIC: once, and only while the driver knows of room.
    pub fn try_handoff(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        connection.serving.handoff_attempted = true;
        if self.host.on_nic >= self.host.soft_limit {
            return;
        }
        self.host.on_nic += 1;
        connection.owner = Owner::ToNic;
        connection.bypass_queued_bytes = connection.server.queued_bytes();
        self.measure.handed_off += 1;
        self.host.cpu.at_connection(&connection.places);
        self.host.cpu.run(Operation::BypassHandoff);
        self.command(number, CommandKind::Handoff);
    }

    /// Forwards a socket operation to the NIC.
    pub fn send_command(&mut self, number: u32, kind: CommandKind) {
        self.host.cpu.at_next_send();
        self.host.cpu.run(Operation::BypassCommand);
        self.host.cpu.dma_send_done();
        self.command(number, kind);
    }

    /// Puts a command on its way.
    pub fn command(&mut self, number: u32, kind: CommandKind) {
        let time = self.host.cpu.time();
        self.hold(number);
        let command = Command {
            connection: number,
            kind,
        };
        self.at(time, Event::Commanded(command));
    }

    /// The NIC's message about a connection has been written to memory.
    pub fn message_at_host(&mut self, connection: u32) {
        let buffer = self.host.cpu.dma_receive(MESSAGE_BYTES);
        self.host
            .kernel
            .push_back(KernelJob::Message { connection, buffer });
        self.wake_host();
    }

    /// The host reads a message.
    pub fn receive_message(&mut self, number: u32, buffer: u32) {
        let connection = &mut self.connections[number];
        let Some(message) = connection.message.take() else {
            return;
        };
        let cpu = &mut self.host.cpu;
        cpu.at_received(buffer);
        cpu.at_connection(&connection.places);
        cpu.run(Operation::BypassMessage);
        if message.received_bytes > 0 {
            connection.request_buffer = buffer;
        }
        connection.bypass_queued_bytes = connection
            .bypass_queued_bytes
            .saturating_sub(message.acknowledged_bytes);
        if message.ended || message.restored {
            self.host.on_nic = self.host.on_nic.saturating_sub(1);
        }
        if message.restored {
            self.host.cpu.run(Operation::BypassRestore);
            self.connections[number].owner = Owner::Host;
        }
        self.free_acknowledged(number, message.acknowledged_bytes);
        if message.restored {
            self.transmit(number);
        }
        let reaction = Reaction {
            established: false,
            acknowledged_bytes: message.acknowledged_bytes,
            received_bytes: message.received_bytes,
            peer_finished: message.peer_finished,
        };
        self.wake_server(number, reaction);
        if message.ended {
            self.tear_down(number);
        }
    }

    /// The NIC's new soft limit has reached the host.
    pub fn soft_limit_at_host(&mut self, limit: u32) {
        self.host.kernel.push_back(KernelJob::SoftLimit(limit));
        self.wake_host();
    }

    /// The driver takes note of a new soft limit.
    pub fn take_soft_limit(&mut self, limit: u32) {
        self.host.soft_limit = limit;
    }

    /// Sends the driver a new soft limit.
    pub fn tell_soft_limit(&mut self, limit: u32) {
        let delay = Span::from_us(u64::from(self.settings.host.soft_limit_delay_us));
        self.after(delay, Event::SoftLimitAtHost(limit));
    }
}
