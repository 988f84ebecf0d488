//! TCP on the NIC: the connections it runs, the host's commands, load control.

use super::work::Work;
use super::{HostMemory, Message, Nic};
use crate::connection::{ConnectionId, TimedEndpoint};
use crate::context::{Command, CommandKind, Context, Event, Frame};
use crate::tcp::{Reaction, Segment, State};
use crate::time::Span;

/// The NIC's data of a connection.
#[derive(Default)]
pub struct Offloaded {
    /// The server's end of TCP, while the NIC runs it.
    pub end: Option<Box<TimedEndpoint>>,
    /// Packets of the connection that the NIC has processed. The number is halved at each restore.
    /// Active restore ranks connections by this number.
    packets: u32,
    /// Index in the list of open connections.
    index: u32,
    /// Acknowledged bytes that the NIC has not reported to the host.
    unreported_bytes: u32,
}

impl Nic {
    /// Processes a segment of a connection that the NIC runs.
    pub(super) fn take_segment(
        &mut self,
        id: ConnectionId,
        segment: &Segment,
        host: &mut impl HostMemory,
        context: &mut Context,
    ) {
        self.processor.spend(Work::TcpReceive);
        let now = self.processor.time();
        let offloaded = &mut self.offloaded[id];
        let Some(end) = &mut offloaded.end else {
            return;
        };
        if end.tcp.state() == State::Closed {
            return;
        }
        offloaded.packets += 1;
        let reaction = end.tcp.on_segment(&self.tcp, segment, now);
        if !self.host_reads {
            end.tcp.read(&self.tcp, reaction.received_bytes);
        }
        let is_closed = end.tcp.state() == State::Closed;
        self.transmit(id, context);
        self.report(id, reaction, host, context);
        if is_closed {
            self.remove_open(id, context);
            self.message(id, host, context, |message| message.ended = true);
            self.processor.spend(Work::ConnectionEnd);
            self.control_load(context);
        }
    }

    fn report(
        &mut self,
        id: ConnectionId,
        reaction: Reaction,
        host: &mut impl HostMemory,
        context: &mut Context,
    ) {
        let Reaction {
            acknowledged_bytes,
            received_bytes,
            peer_finished,
            ..
        } = reaction;
        let entry = &mut self.offloaded[id];
        entry.unreported_bytes += acknowledged_bytes;
        let queued_bytes = entry.end.as_ref().map_or(0, |end| end.tcp.queued_bytes());
        let is_due = entry.unreported_bytes > 0
            && (queued_bytes == 0 || entry.unreported_bytes >= self.report_bytes);
        if is_due || received_bytes > 0 || peer_finished {
            self.message(id, host, context, |message| {
                message.received_bytes += received_bytes;
                message.peer_finished |= peer_finished;
            });
        }
    }

    /// Sends a message to the host, or adds to the unread message of this connection. Each message
    /// also reports the acknowledgments that were not reported.
    fn message(
        &mut self,
        id: ConnectionId,
        host: &mut impl HostMemory,
        context: &mut Context,
        add: impl FnOnce(&mut Message),
    ) {
        let acknowledged_bytes = std::mem::take(&mut self.offloaded[id].unreported_bytes);
        let add = |message: &mut Message| {
            message.acknowledged_bytes += acknowledged_bytes;
            add(message);
        };
        if host.write_message(id, add) {
            context.measure.messages += 1;
            self.processor.spend(Work::Message);
            context.at(self.processor.time(), Event::MessageAtHost(id));
        } else {
            context.measure.merged += 1;
            self.processor.spend(Work::MessageMerge);
        }
    }

    /// Sends all segments that TCP on the NIC allows.
    fn transmit(&mut self, id: ConnectionId, context: &mut Context) {
        let offloaded = &mut self.offloaded[id];
        let Some(end) = &mut offloaded.end else {
            return;
        };
        while let Some(segment) = end.tcp.transmit(&self.tcp, self.processor.time()) {
            offloaded.packets += 1;
            self.processor.spend(Work::TcpSend);
            context.measure.packets += 1;
            context.measure.nic_packets += 1;
            context.measure.frames.to_client.sent += 1;
            let arrival = self.to_client.send(&segment, self.processor.time());
            let frame = Frame {
                connection: id,
                segment,
            };
            context.at(arrival, Event::AtClient(frame));
        }
        context.measure.retransmissions += u64::from(end.tcp.take_retransmissions());
        end.arm(Event::ServerTimer(id), context);
    }

    pub(super) fn run_timer(&mut self, id: ConnectionId, context: &mut Context) {
        let Some(end) = &mut self.offloaded[id].end else {
            return;
        };
        self.processor.spend(Work::Timer);
        let timed_out = end.tcp.on_timer(&self.tcp, context.now);
        context.measure.timeouts += u64::from(timed_out);
        self.transmit(id, context);
    }

    pub(super) fn run_command(
        &mut self,
        command: Command,
        host: &mut impl HostMemory,
        context: &mut Context,
    ) {
        let id = command.connection;
        match command.kind {
            CommandKind::Handoff => self.processor.spend(Work::Handoff),
            CommandKind::Restore => self.processor.spend(Work::Restore),
            CommandKind::Forward(_) => {}
            CommandKind::Send { .. } | CommandKind::Read { .. } | CommandKind::Close => {
                self.processor.spend(Work::Command);
            }
        }
        host.take_command(&command);
        let end = self.offloaded.entry(id).end.as_mut();
        match (command.kind, end) {
            (CommandKind::Handoff, _) => self.accept(id, host, context),
            (CommandKind::Restore, _) => self.restore(id, host, context),
            (CommandKind::Forward(segment), Some(_)) => {
                self.take_segment(id, &segment, host, context);
            }
            (CommandKind::Forward(segment), None) => {
                // The connection was restored while the host forwarded this frame: the frame
                // returns to the host and was not delivered.
                context.measure.frames.to_server.delivered -= 1;
                let frame = Frame {
                    connection: id,
                    segment,
                };
                host.write_frame(frame, context);
            }
            (
                CommandKind::Send {
                    bytes,
                    more_to_come,
                },
                Some(end),
            ) => {
                end.tcp.enqueue(bytes, more_to_come);
                self.transmit(id, context);
            }
            (CommandKind::Read { bytes }, Some(end)) => {
                end.tcp.read(&self.tcp, bytes);
                self.transmit(id, context);
            }
            (CommandKind::Close, Some(end)) => {
                end.tcp.close();
                self.transmit(id, context);
            }
            // The connection was restored while this command was under way.
            (CommandKind::Send { .. } | CommandKind::Read { .. } | CommandKind::Close, None) => {
                host.return_command(command, context);
            }
        }
    }

    /// Runs a connection from now on, with the host's state of it.
    fn accept(&mut self, id: ConnectionId, host: &mut impl HostMemory, context: &mut Context) {
        self.offloaded[id] = Offloaded {
            end: host.take_connection(id),
            packets: 0,
            index: self.open.len() as u32,
            unreported_bytes: 0,
        };
        self.open.push(id);
        context.measure.on_nic(context.now, self.connections());
        self.transmit(id, context);
        self.control_load(context);
    }

    /// Removes a connection from the list of open ones.
    fn remove_open(&mut self, id: ConnectionId, context: &mut Context) {
        let index = self.offloaded[id].index as usize;
        self.open.swap_remove(index);
        if let Some(&moved) = self.open.get(index) {
            self.offloaded[moved].index = index as u32;
        }
        context.measure.on_nic(context.now, self.connections());
    }

    fn restore(&mut self, id: ConnectionId, host: &mut impl HostMemory, context: &mut Context) {
        let is_open = |end: &TimedEndpoint| end.tcp.state() != State::Closed;
        let Some(end) = self.offloaded[id].end.take_if(|end| is_open(end)) else {
            return;
        };
        self.remove_open(id, context);
        host.return_connection(id, end);
        self.message(id, host, context, |message| message.restored = true);
        self.control_load(context);
    }

    /// Evaluates load control: when a packet arrives, after a handoff, and after a connection
    /// leaves the NIC.
    pub(super) fn control_load(&mut self, context: &mut Context) {
        let queue = self.queue_packets();
        let connections = self.connections();
        let Some(control) = &mut self.load_control else {
            return;
        };
        let before = control.soft_limit();
        let changed = control.evaluate(queue, connections);
        self.processor.spend(Work::LoadControl);
        if let Some(limit) = changed {
            context.after(self.soft_limit_delay, Event::SoftLimitAtHost(limit));
            if self.has_active_restore && limit < before {
                self.restore_busiest(connections.saturating_sub(limit), context);
            }
        }
    }

    /// Orders the restore of the `count` connections with the most packets.
    fn restore_busiest(&mut self, count: u32, context: &mut Context) {
        let mut ranked = self.open.clone();
        let count = (count as usize).min(ranked.len());
        if count == 0 {
            return;
        }
        let offloaded = &self.offloaded;
        let rank = |id: &ConnectionId| std::cmp::Reverse((offloaded[*id].packets, *id));
        ranked.select_nth_unstable_by_key(count - 1, rank);
        for &id in &self.open {
            self.offloaded[id].packets /= 2;
        }
        for &connection in &ranked[..count] {
            let kind = CommandKind::Restore;
            let command = Command { connection, kind };
            context.after(Span::ZERO, Event::Commanded(command));
        }
    }
}
