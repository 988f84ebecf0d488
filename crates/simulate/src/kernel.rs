//! The host's kernel: the receive path from the driver up, the transmit path down, timers.
//!
//! The processor is one server. Kernel work goes before the server's own, as interrupts do; each
//! job runs to its end.

use std::collections::VecDeque;

use crate::connection::Owner;
use crate::host::cpu::Cpu;
use crate::host::footprint::Operation;
use crate::selection::Selection;
use crate::tcp::{Endpoint, Flags, Reaction, Sequence, State};
use crate::time::Time;
use crate::world::{CommandKind, Event, Frame, World};

/// Work for the kernel.
#[derive(Clone, Copy, Debug)]
pub enum KernelJob {
    /// A received frame in this buffer.
    Frame { frame: Frame, buffer: u32 },
    /// The NIC's message about a connection, in this buffer.
    Message { connection: u32, buffer: u32 },
    /// A TCP timer of a connection.
    Timer(u32),
    /// The NIC's new soft limit.
    SoftLimit(u32),
}

/// Work for the server's process.
#[derive(Clone, Copy, Debug)]
pub enum UserJob {
    /// Something can be done on a connection.
    Ready(u32),
    /// The bulk sender's next write.
    Write,
}

/// The host: its processor, what waits for it, and what its driver knows of the NIC.
pub struct Host {
    pub cpu: Cpu,
    pub kernel: VecDeque<KernelJob>,
    pub user: VecDeque<UserJob>,
    pub busy: bool,
    /// Events of the last poll that the server has not yet dealt with.
    pub polled: u32,
    pub selection: Selection,
    /// Most connections the NIC takes, as last told.
    pub soft_limit: u32,
    /// Connections the driver believes on the NIC.
    pub on_nic: u32,
    /// Frames that wait for room in the NIC's send ring.
    pub interface_queue: VecDeque<(Frame, Time)>,
    pub prefetch_distance: Option<usize>,
}

/// The transmit path from TCP down, for one segment.
const DOWN: [Operation; 4] = [
    Operation::TcpOutput,
    Operation::IpOutput,
    Operation::EthernetOutput,
    Operation::DriverSend,
];

impl World {
    /// The NIC has written a frame to memory.
    pub fn frame_at_host(&mut self, frame: Frame) {
        let bytes = frame.segment.wire_bytes() as u32;
        let buffer = self.host.cpu.dma_receive(bytes);
        self.host
            .kernel
            .push_back(KernelJob::Frame { frame, buffer });
        self.wake_host();
    }

    /// Lets the host's processor begin if it is idle.
    pub fn wake_host(&mut self) {
        if !self.host.busy {
            self.host_next();
        }
    }

    /// The host's processor takes its next job, kernel work first.
    pub fn host_next(&mut self) {
        self.host.busy = true;
        self.host.cpu.begin(self.now);
        if let Some(job) = self.host.kernel.pop_front() {
            self.run_kernel(job);
        } else if let Some(job) = self.host.user.pop_front() {
            self.run_user(job);
        } else {
            self.host.busy = false;
            return;
        }
        let end = self.host.cpu.time();
        self.at(end, Event::HostDone);
    }

    fn run_kernel(&mut self, job: KernelJob) {
        match job {
            KernelJob::Frame { frame, buffer } => {
                self.receive(frame, buffer);
                self.release(frame.connection);
            }
            KernelJob::Message { connection, buffer } => {
                self.receive_message(connection, buffer);
                self.release(connection);
            }
            KernelJob::Timer(connection) => {
                self.run_timer(connection);
                self.release(connection);
            }
            KernelJob::SoftLimit(limit) => self.take_soft_limit(limit),
        }
    }

    /// Prefetches the structures of the frame that waits `distance` places behind the one at hand.
    fn prefetch(&mut self, at_hand: u32) {
        let connection = match self.host.prefetch_distance {
            None => return,
            Some(0) => at_hand,
            Some(distance) => match self.host.kernel.get(distance - 1) {
                Some(KernelJob::Frame { frame, .. }) => frame.connection,
                _ => return,
            },
        };
        let places = self.connections[connection].places;
        self.prefetch_structures(&places);
    }

    /// The receive path from the driver up to TCP.
    fn receive(&mut self, frame: Frame, buffer: u32) {
        let number = frame.connection;
        self.measure.frames.to_server.delivered += 1;
        if !self.connections[number].server_exists {
            self.connections[number].places = self.host.cpu.allocate_places(number);
        }
        self.prefetch(number);
        let cpu = &mut self.host.cpu;
        cpu.at_received(buffer);
        cpu.at_connection(&self.connections[number].places);
        cpu.run_per_frame();
        cpu.run(Operation::DriverReceive);
        cpu.run(Operation::EthernetInput);
        if self.connections[number].owner != Owner::Host {
            cpu.run(Operation::BypassForward);
            self.command(number, CommandKind::Forward(frame.segment));
            return;
        }
        cpu.run(Operation::IpInput);
        cpu.run(Operation::TcpInput);
        if self.connections[number].server_exists {
            self.segment_at_tcp(frame, buffer);
        } else if frame.segment.flags.has(Flags::SYN) {
            let connection = &mut self.connections[number];
            let initial = Sequence(frame.segment.sequence.0.rotate_left(16));
            connection.server = Endpoint::accept(&self.settings.tcp, initial, &frame.segment);
            connection.server_exists = true;
            self.transmit(number);
        }
    }

    fn segment_at_tcp(&mut self, frame: Frame, buffer: u32) {
        let number = frame.connection;
        let now = self.host.cpu.time();
        let connection = &mut self.connections[number];
        let reaction = connection
            .server
            .on_segment(&self.settings.tcp, &frame.segment, now);
        connection
            .server
            .read(&self.settings.tcp, reaction.received_bytes);
        if reaction.received_bytes > 0 {
            connection.request_buffer = buffer;
        }
        if reaction.established {
            self.established(number);
        }
        self.free_acknowledged(number, reaction.acknowledged_bytes);
        self.transmit(number);
        self.wake_server(number, reaction);
        if self.connections[number].server.state() == State::Closed {
            self.tear_down(number);
        }
    }

    fn established(&mut self, number: u32) {
        self.host.cpu.run(Operation::TcpOpen);
        self.measure.established += 1;
        self.make_ready(number);
        if self.settings.nic.connections > 0 {
            let future = self.future(number);
            self.connections[number].future = future;
            let room = self.room_share();
            if self.host.selection.at_establishment(future, room) {
                self.try_handoff(number);
            }
        }
    }

    /// Frees the buffers that `bytes` newly acknowledged cover.
    pub fn free_acknowledged(&mut self, number: u32, mut bytes: u32) {
        let connection = &mut self.connections[number];
        while bytes > 0 {
            let Some(buffer) = connection.buffers.front_mut() else {
                return;
            };
            if bytes < buffer.bytes_left {
                buffer.bytes_left -= bytes;
                return;
            }
            bytes -= buffer.bytes_left;
            self.host.cpu.at_mbuf(buffer.mbuf);
            self.host.cpu.run(if buffer.is_page {
                Operation::TcpFreePage
            } else {
                Operation::TcpFreeMbuf
            });
            self.host.cpu.free_mbuf(buffer.mbuf);
            connection.buffers.pop_front();
        }
    }

    /// Sends all that the server's end on the host may send.
    pub fn transmit(&mut self, number: u32) {
        if self.connections[number].owner != Owner::Host {
            return;
        }
        loop {
            let now = self.host.cpu.time();
            let connection = &mut self.connections[number];
            let Some(segment) = connection.server.transmit(&self.settings.tcp, now) else {
                break;
            };
            connection.references += 1;
            let cpu = &mut self.host.cpu;
            if let Some(buffer) = connection.buffers.back() {
                cpu.at_mbuf(buffer.mbuf);
            }
            cpu.at_next_send();
            cpu.run_per_frame();
            for operation in DOWN {
                cpu.run(operation);
            }
            cpu.dma_send_done();
            let frame = Frame {
                connection: number,
                segment,
            };
            let time = cpu.time();
            self.measure.frames.to_client.sent += 1;
            self.at(time, Event::Posted(frame));
        }
        let retransmissions = self.connections[number].server.take_retransmissions();
        self.measure.retransmissions += u64::from(retransmissions);
        self.arm_server(number);
    }

    /// Tells the server what TCP or the NIC has brought about on a connection.
    pub fn wake_server(&mut self, number: u32, reaction: Reaction) {
        let writable_room_bytes = self.settings.server.writable_room_bytes;
        let room = self.send_room(number);
        let serving = &mut self.connections[number].serving;
        serving.unread_bytes += reaction.received_bytes;
        serving.peer_finished |= reaction.peer_finished;
        let writable = reaction.acknowledged_bytes > 0
            && serving.file_bytes_left > 0
            && room >= writable_room_bytes;
        if reaction.received_bytes > 0 || reaction.peer_finished || writable {
            self.host.cpu.run(Operation::Wakeup);
            self.make_ready(number);
        }
    }

    /// Puts a connection on the server's list of ready ones.
    pub fn make_ready(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        if self.bulk.is_some() && connection.serving.accepted {
            return;
        }
        if !connection.serving.ready {
            connection.serving.ready = true;
            connection.references += 1;
            self.host.user.push_back(UserJob::Ready(number));
        }
    }

    /// Bytes the server may enqueue on a connection.
    pub fn send_room(&self, number: u32) -> u32 {
        let connection = &self.connections[number];
        let tcp = &self.settings.tcp;
        match connection.owner {
            Owner::Host => connection
                .server
                .send_room_bytes(tcp)
                .saturating_sub(connection.bytes_in_commands),
            _ => tcp
                .send_buffer_bytes
                .saturating_sub(connection.bypass_queued_bytes),
        }
    }

    /// A TCP timer of the server's end.
    pub fn server_timer(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        let deadline = connection.server.timer();
        if !Self::is_due(&mut connection.server_timer, deadline, self.now) {
            if !matches!(connection.owner, Owner::ToNic | Owner::ToHost) {
                self.arm_server(number);
            }
            return self.release(number);
        }
        match connection.owner {
            // The reference of the event becomes the job's.
            Owner::Host => {
                self.host.kernel.push_back(KernelJob::Timer(number));
                self.wake_host();
            }
            Owner::Nic => self.timer_at_nic(number),
            // Whoever takes the connection arms its timer anew.
            Owner::ToNic | Owner::ToHost => self.release(number),
        }
    }

    fn run_timer(&mut self, number: u32) {
        if self.connections[number].owner != Owner::Host {
            return;
        }
        let now = self.host.cpu.time();
        let connection = &mut self.connections[number];
        self.host.cpu.at_connection(&connection.places);
        let timed_out = connection.server.on_timer(&self.settings.tcp, now);
        self.measure.timeouts += u64::from(timed_out);
        self.transmit(number);
    }
}
