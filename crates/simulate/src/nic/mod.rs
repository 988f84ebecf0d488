//! The offload NIC: one processor that moves the host's packets and runs TCP for the connections
//! it holds.
//!
//! The processor serves one task at a time, to its end. What a task does to TCP is done when the
//! task begins; what leaves it is stamped with the instructions spent until then.

pub mod load_control;
pub mod queues;

use load_control::LoadControl;
use queues::{Queues, Task, Waiting};

use crate::connection::{Message, Owner};
use crate::kernel::KernelJob;
use crate::settings::NicInstructions;
use crate::tcp::{Reaction, Segment, State};
use crate::time::{Clock, Span, Time};
use crate::world::{Command, CommandKind, Event, Frame, World};

/// What becomes of a host packet when its task ends.
#[derive(Clone, Copy, Debug)]
enum Finish {
    Nothing,
    ToHost(Frame, Time),
    ToWire(Frame, Time),
}

/// The NIC.
pub struct Nic {
    clock: Clock,
    instructions: NicInstructions,
    pub queues: Queues,
    busy: bool,
    finish: Finish,
    /// Instructions of the current task so far, and when it began.
    spent: u64,
    began: Time,
    /// Numbers of the connections it holds, in no order.
    holds: Vec<u32>,
    load_control: Option<LoadControl>,
    active_restore: bool,
    send_ring_packets: usize,
}

impl Nic {
    /// An idle NIC without connections.
    pub fn new(settings: &crate::settings::Nic) -> Self {
        Self {
            clock: Clock::from_mhz(settings.mips),
            instructions: settings.instructions.clone(),
            queues: Queues::new(
                settings.host_first,
                settings.receive_ring_packets,
                settings.queue_packets,
            ),
            busy: false,
            finish: Finish::Nothing,
            spent: 0,
            began: Time::ZERO,
            holds: Vec::new(),
            load_control: settings.load_control.then(|| {
                LoadControl::new(
                    settings.connections,
                    settings.hiwat,
                    settings.lowat,
                    settings.soft_limit_step,
                )
            }),
            active_restore: settings.active_restore,
            send_ring_packets: settings.send_ring_packets as usize,
        }
    }

    /// Connections on the NIC.
    pub fn connections(&self) -> u32 {
        self.holds.len() as u32
    }

    /// The controller, if load is controlled.
    pub const fn load_control(&self) -> Option<&LoadControl> {
        self.load_control.as_ref()
    }

    /// The frame of a host packet whose task is being done, if one is.
    pub const fn frame_at_hand(&self) -> Option<(Frame, bool)> {
        match self.finish {
            Finish::Nothing => None,
            Finish::ToHost(frame, _) => Some((frame, true)),
            Finish::ToWire(frame, _) => Some((frame, false)),
        }
    }

    fn spend(&mut self, instructions: u32) {
        self.spent += u64::from(instructions);
    }

    fn time(&self) -> Time {
        self.began + self.clock.span(self.spent)
    }
}

impl World {
    /// A frame arrives from the wire: into the ring, or dropped.
    pub fn frame_at_nic(&mut self, frame: Frame) {
        if self.nic.queues.push(Task::Received(frame), self.now) {
            self.measure.packet();
            self.wake_nic();
        } else {
            self.drop_to_server(frame);
        }
    }

    fn drop_to_server(&mut self, frame: Frame) {
        self.measure.drops += 1;
        self.measure.frames.to_server.dropped += 1;
        self.release(frame.connection);
    }

    /// The host has posted a frame: into the send ring, behind it, or dropped.
    pub fn frame_posted(&mut self, frame: Frame) {
        if self.nic.queues.sends() < self.nic.send_ring_packets {
            self.nic.queues.push(Task::Send(frame), self.now);
            self.wake_nic();
        } else if self.host.interface_queue.len()
            < self.settings.host.interface_queue_packets as usize
        {
            self.host.interface_queue.push_back((frame, self.now));
        } else {
            self.measure.drops += 1;
            self.measure.frames.to_client.dropped += 1;
            let connection = &mut self.connections[frame.connection];
            if connection.owner == Owner::Host {
                connection.server.quench(&self.settings.tcp);
            }
            self.release(frame.connection);
        }
    }

    /// The host's command arrives.
    pub fn commanded(&mut self, command: Command) {
        self.nic.queues.push(Task::Command(command), self.now);
        self.wake_nic();
    }

    /// A TCP timer of a connection on the NIC has run out.
    pub fn timer_at_nic(&mut self, connection: u32) {
        self.nic.queues.push(Task::Timer(connection), self.now);
        self.wake_nic();
    }

    fn wake_nic(&mut self) {
        if !self.nic.busy {
            self.nic_next();
        }
    }

    /// The NIC's processor has finished its task.
    pub fn nic_done(&mut self) {
        match std::mem::replace(&mut self.nic.finish, Finish::Nothing) {
            Finish::Nothing => {}
            Finish::ToHost(frame, since) => {
                self.measure.receive_delay(self.now.since(since));
                self.frame_at_host(frame);
            }
            Finish::ToWire(frame, since) => {
                self.measure.send_delay(self.now.since(since));
                self.measure.packet();
                self.put_on_wire(frame, self.now);
            }
        }
        self.nic_next();
    }

    fn put_on_wire(&mut self, frame: Frame, ready: Time) {
        let arrival = self.to_client.send(&frame.segment, ready);
        self.at(arrival, Event::AtClient(frame));
    }

    fn nic_next(&mut self) {
        let Some(waiting) = self.nic.queues.pop() else {
            self.nic.busy = false;
            return;
        };
        self.nic.busy = true;
        self.nic.spent = 0;
        self.nic.began = self.now;
        self.nic_begin(waiting);
        let span = self.nic.clock.span(self.nic.spent);
        self.measure.nic_busy += span;
        self.after(span, Event::NicDone);
    }

    fn nic_begin(&mut self, Waiting { task, since }: Waiting) {
        match task {
            Task::Received(frame) => self.nic_receive(frame, since),
            Task::Classified(frame) => {
                self.nic_tcp(frame.connection, &frame.segment, since);
            }
            Task::Send(frame) => {
                if let Some((frame, since)) = self.host.interface_queue.pop_front() {
                    self.nic.queues.push(Task::Send(frame), since);
                }
                let cost = self.nic.instructions.host_send;
                self.nic.spend(cost);
                self.nic.finish = Finish::ToWire(frame, since);
            }
            Task::Command(command) => {
                self.nic_command(command);
                self.release(command.connection);
            }
            Task::Timer(connection) => {
                self.nic_timer(connection);
                self.release(connection);
            }
        }
    }

    fn nic_receive(&mut self, frame: Frame, since: Time) {
        let lookup = self.nic.instructions.lookup;
        self.nic.spend(lookup);
        if self.connections[frame.connection].owner != Owner::Nic {
            let cost = self.nic.instructions.host_receive;
            self.nic.spend(cost);
            self.nic.finish = Finish::ToHost(frame, since);
        } else if !self.nic.queues.host_first() {
            self.nic_tcp(frame.connection, &frame.segment, since);
        } else if self.nic.queues.push(Task::Classified(frame), since) {
            self.control_load();
        } else {
            self.drop_to_server(frame);
            self.control_load();
        }
    }

    /// TCP on the NIC takes in a segment whose frame waited since `since`.
    fn nic_tcp(&mut self, number: u32, segment: &Segment, since: Time) {
        if self.connections[number].owner != Owner::Nic {
            // Restored to the host while the frame waited.
            let cost = self.nic.instructions.host_receive;
            self.nic.spend(cost);
            let frame = Frame {
                connection: number,
                segment: *segment,
            };
            self.nic.finish = Finish::ToHost(frame, since);
            return;
        }
        self.measure.frames.to_server.delivered += 1;
        self.measure.nic_packet();
        self.take_segment(number, segment);
        if !self.nic.queues.host_first() {
            self.control_load();
        }
        self.release(number);
    }

    fn take_segment(&mut self, number: u32, segment: &Segment) {
        let cost = self.nic.instructions.tcp_receive;
        self.nic.spend(cost);
        let now = self.nic.time();
        let connection = &mut self.connections[number];
        if connection.server.state() == State::Closed {
            return;
        }
        connection.nic_packets += 1;
        let reaction = connection
            .server
            .on_segment(&self.settings.tcp, segment, now);
        connection
            .server
            .read(&self.settings.tcp, reaction.received_bytes);
        self.nic_transmit(number);
        self.report(number, reaction);
        if self.connections[number].server.state() == State::Closed {
            self.nic_forget(number);
            self.message(number, |message| message.ended = true);
            let cost = self.nic.instructions.connection_end;
            self.nic.spend(cost);
            self.control_load();
        }
    }

    fn report(&mut self, number: u32, reaction: Reaction) {
        let Reaction {
            acknowledged_bytes,
            received_bytes,
            peer_finished,
            ..
        } = reaction;
        if acknowledged_bytes > 0 || received_bytes > 0 || peer_finished {
            self.message(number, |message| {
                message.acknowledged_bytes += acknowledged_bytes;
                message.received_bytes += received_bytes;
                message.peer_finished |= peer_finished;
            });
        }
    }

    /// Tells the host something; what it has not yet read of the connection's is added to.
    fn message(&mut self, number: u32, add: impl FnOnce(&mut Message)) {
        let connection = &mut self.connections[number];
        if let Some(message) = &mut connection.message {
            add(message);
            self.measure.merged += 1;
            let cost = self.nic.instructions.message_merge;
            self.nic.spend(cost);
            return;
        }
        add(connection.message.insert(Message::default()));
        connection.references += 1;
        self.measure.messages += 1;
        let cost = self.nic.instructions.message;
        self.nic.spend(cost);
        let time = self.nic.time();
        self.at(time, Event::MessageAtHost(number));
    }

    /// Sends all that the server's end on the NIC may send.
    fn nic_transmit(&mut self, number: u32) {
        loop {
            let now = self.nic.time();
            let connection = &mut self.connections[number];
            let Some(segment) = connection.server.transmit(&self.settings.tcp, now) else {
                break;
            };
            connection.references += 1;
            connection.nic_packets += 1;
            let cost = self.nic.instructions.tcp_send;
            self.nic.spend(cost);
            let time = self.nic.time();
            self.measure.packet();
            self.measure.nic_packet();
            self.measure.frames.to_client.sent += 1;
            let frame = Frame {
                connection: number,
                segment,
            };
            self.put_on_wire(frame, time);
        }
        let retransmissions = self.connections[number].server.take_retransmissions();
        self.measure.retransmissions += u64::from(retransmissions);
        self.arm_server(number);
    }

    fn nic_timer(&mut self, number: u32) {
        if self.connections[number].owner != Owner::Nic {
            return;
        }
        let now = self.now;
        let timed_out = self.connections[number]
            .server
            .on_timer(&self.settings.tcp, now);
        self.measure.timeouts += u64::from(timed_out);
        self.nic_transmit(number);
    }

    fn nic_command(&mut self, command: Command) {
        let number = command.connection;
        let costs = &self.nic.instructions;
        let cost = match command.kind {
            CommandKind::Handoff => costs.handoff,
            CommandKind::Restore => costs.restore,
            CommandKind::Forward(_) => 0,
            CommandKind::Send { .. } | CommandKind::Close => costs.command,
        };
        self.nic.spend(cost);
        match command.kind {
            CommandKind::Handoff => self.nic_take(number),
            CommandKind::Restore => self.nic_give_back(number),
            CommandKind::Forward(segment) => self.nic_forwarded(number, &segment),
            CommandKind::Send {
                bytes,
                more_to_come,
            } => {
                self.connections[number].bytes_in_commands -= bytes;
                self.connections[number].server.enqueue(bytes, more_to_come);
                self.transmit_where_it_is(number);
            }
            CommandKind::Close => {
                self.connections[number].server.close();
                self.transmit_where_it_is(number);
            }
        }
    }

    fn nic_take(&mut self, number: u32) {
        let place = self.nic.holds.len() as u32;
        let connection = &mut self.connections[number];
        connection.owner = Owner::Nic;
        connection.nic_packets = 0;
        connection.nic_place = place;
        self.nic.holds.push(number);
        self.measure.on_nic(self.now, self.nic.connections());
        self.nic_transmit(number);
        self.control_load();
    }

    fn nic_forget(&mut self, number: u32) {
        let place = self.connections[number].nic_place as usize;
        self.nic.holds.swap_remove(place);
        if let Some(&moved) = self.nic.holds.get(place) {
            self.connections[moved].nic_place = place as u32;
        }
        self.measure.on_nic(self.now, self.nic.connections());
    }

    fn nic_give_back(&mut self, number: u32) {
        if self.connections[number].owner != Owner::Nic
            || self.connections[number].server.state() == State::Closed
        {
            return;
        }
        self.nic_forget(number);
        self.connections[number].owner = Owner::ToHost;
        self.message(number, |message| message.restored = true);
        self.control_load();
    }

    /// A frame that the host sent on, because it had reached it after the handoff.
    fn nic_forwarded(&mut self, number: u32, segment: &Segment) {
        if self.connections[number].owner == Owner::Nic {
            return self.take_segment(number, segment);
        }
        // It has crossed a restore: back to the host, and not delivered after all.
        self.measure.frames.to_server.delivered -= 1;
        self.hold(number);
        self.frame_at_host(Frame {
            connection: number,
            segment: *segment,
        });
    }

    /// After a command that may have crossed a restore: whoever runs the connection transmits.
    fn transmit_where_it_is(&mut self, number: u32) {
        if self.connections[number].owner == Owner::Nic {
            self.nic_transmit(number);
        } else {
            self.hold(number);
            self.host.kernel.push_back(KernelJob::Timer(number));
            self.wake_host();
        }
    }

    /// Evaluates load control: on a packet's arrival, a handoff and an end.
    fn control_load(&mut self) {
        let queue = self.nic.queues.length() as u32;
        let connections = self.nic.connections();
        let Some(control) = &mut self.nic.load_control else {
            return;
        };
        let before = control.soft_limit();
        let changed = control.evaluate(queue, connections);
        let cost = self.nic.instructions.load_control;
        self.nic.spend(cost);
        if let Some(limit) = changed {
            self.tell_soft_limit(limit);
            if self.nic.active_restore && limit < before {
                self.restore_busiest(connections.saturating_sub(limit));
            }
        }
    }

    /// Orders the `count` connections with the most packets back to the host.
    fn restore_busiest(&mut self, count: u32) {
        let mut held: Vec<u32> = self.nic.holds.clone();
        let count = (count as usize).min(held.len());
        if count == 0 {
            return;
        }
        let connections = &self.connections;
        let rank = |number: &u32| std::cmp::Reverse((connections[*number].nic_packets, *number));
        held.select_nth_unstable_by_key(count - 1, rank);
        for &number in &self.nic.holds {
            self.connections[number].nic_packets /= 2;
        }
        for &number in &held[..count] {
            self.hold(number);
            self.after(
                Span::ZERO,
                Event::Commanded(Command {
                    connection: number,
                    kind: CommandKind::Restore,
                }),
            );
        }
    }
}
