//! The host's side of handoff: offering connections, forwarding socket operations, reading the
//! NIC's messages (OSDI 2006, section 2).

use super::cpu::ReceiveBuffer;
use super::footprint::Operation;
use super::kernel::{Kernel, Stage};
use super::selection::{Future, Selection};
use crate::connection::{ConnectionId, TimedEndpoint};
use crate::context::{Command, CommandKind, Context, Event};
use crate::nic::Message;
use crate::settings::Settings;
use crate::tcp::Reaction;

/// Bytes of a message that the host reads.
pub const MESSAGE_BYTES: u32 = 64;

/// The driver's view of the NIC.
pub struct Bypass {
    pub selection: Selection,
    /// Maximum number of connections that the NIC accepts, as last reported.
    pub soft_limit: u32,
    /// Number of connections on the NIC, as the driver counts them.
    on_nic: u32,
    /// Whether the NIC can run connections.
    is_on: bool,
    /// Number of connections that are open at the same time.
    connections: u32,
}

impl Bypass {
    pub fn new(settings: &Settings, connections: u32) -> Self {
        Self {
            selection: Selection::new(settings.selection.policy, settings.selection.threshold),
            soft_limit: settings.nic.connections,
            on_nic: 0,
            is_on: settings.nic.connections > 0,
            connections: connections.max(1),
        }
    }

    /// The share of open connections that the NIC accepts.
    fn room_share(&self) -> f64 {
        f64::from(self.soft_limit) / f64::from(self.connections)
    }

    pub fn selects_at_establishment(&mut self, future: Future) -> bool {
        let room = self.room_share();
        self.is_on && self.selection.at_establishment(future, room)
    }

    pub fn selects_at_send(&mut self, enqueues: u32) -> bool {
        let room = self.room_share();
        self.is_on && self.selection.at_send(enqueues, room)
    }
}

impl Kernel {
    /// Offers a connection to the NIC: once, and only below the NIC's last reported limit.
    pub fn try_handoff(&mut self, id: ConnectionId, context: &mut Context) {
        let socket = &mut self.sockets[id];
        socket.has_tried_handoff = true;
        let Some(end) = &socket.end else { return };
        if self.bypass.on_nic >= self.bypass.soft_limit {
            return;
        }
        self.bypass.on_nic += 1;
        socket.stage = Stage::OnNic;
        socket.bypass_queued_bytes = end.tcp.queued_bytes();
        context.measure.handed_off += 1;
        self.cpu.at_connection(&socket.lines);
        self.cpu.run(Operation::BypassHandoff);
        self.post_command(id, CommandKind::Handoff, context);
    }

    /// Forwards a socket operation to the NIC.
    pub fn send_command(&mut self, id: ConnectionId, kind: CommandKind, context: &mut Context) {
        self.cpu.at_next_send();
        self.cpu.run(Operation::BypassCommand);
        self.cpu.dma_send_done();
        self.post_command(id, kind, context);
    }

    /// Sends a command to the NIC.
    pub fn post_command(
        &mut self,
        connection: ConnectionId,
        kind: CommandKind,
        context: &mut Context,
    ) {
        let command = Command { connection, kind };
        context.at(self.cpu.time(), Event::Commanded(command));
    }

    /// The host reads a message.
    pub fn receive_message(
        &mut self,
        id: ConnectionId,
        buffer: ReceiveBuffer,
        context: &mut Context,
    ) {
        let socket = &mut self.sockets[id];
        let Some(message) = socket.message.take() else {
            return;
        };
        self.cpu.at_received(buffer);
        self.cpu.at_connection(&socket.lines);
        self.cpu.run(Operation::BypassMessage);
        if message.received_bytes > 0 {
            socket.request_buffer = buffer;
        }
        socket.bypass_queued_bytes = socket
            .bypass_queued_bytes
            .saturating_sub(message.acknowledged_bytes);
        if message.ended || message.restored {
            self.bypass.on_nic = self.bypass.on_nic.saturating_sub(1);
        }
        if message.restored {
            self.cpu.run(Operation::BypassRestore);
            socket.stage = Stage::OnHost;
        }
        self.free_acknowledged(id, message.acknowledged_bytes);
        if message.restored {
            self.transmit(id, context);
        }
        let reaction = Reaction {
            established: false,
            acknowledged_bytes: message.acknowledged_bytes,
            received_bytes: message.received_bytes,
            peer_finished: message.peer_finished,
        };
        self.wake_server(id, reaction, context);
        if message.ended {
            self.tear_down(id, context);
        }
    }
}

/// The NIC's accesses to the host's memory; see [`crate::nic::HostMemory`].
impl Kernel {
    pub fn write_message(&mut self, id: ConnectionId, add: impl FnOnce(&mut Message)) -> bool {
        let message = &mut self.sockets[id].message;
        let is_new = message.is_none();
        add(message.get_or_insert_default());
        is_new
    }

    pub fn take_connection(&mut self, id: ConnectionId) -> Option<Box<TimedEndpoint>> {
        self.sockets[id].end.take()
    }

    pub fn return_connection(&mut self, id: ConnectionId, end: Box<TimedEndpoint>) {
        self.sockets[id].end = Some(end);
    }

    pub fn take_command(&mut self, command: &Command) {
        if let CommandKind::Send { bytes, .. } = command.kind {
            self.sockets[command.connection].bytes_in_commands -= bytes;
        }
    }

    pub fn return_send(&mut self, id: ConnectionId, bytes: u32, more_to_come: bool) {
        if let Some(end) = &mut self.sockets[id].end {
            end.tcp.enqueue(bytes, more_to_come);
        }
    }

    pub fn return_read(&mut self, id: ConnectionId, bytes: u32) {
        if let Some(end) = &mut self.sockets[id].end {
            end.tcp.read(&self.tcp, bytes);
        }
    }

    pub fn return_close(&mut self, id: ConnectionId) {
        if let Some(end) = &mut self.sockets[id].end {
            end.tcp.close();
        }
    }
}
