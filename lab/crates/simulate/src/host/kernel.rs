//! The host's kernel: the receive path from the driver up, the transmit path down, timers, and the
//! system calls of the server.

use std::collections::VecDeque;

use super::bypass::Bypass;
use super::cpu::{ConnectionLines, Cpu, Mbuf, ReceiveBuffer};
use super::footprint::Operation;
use super::{Jobs, KernelJob, TimedJob, UserJob};
use crate::connection::{ConnectionId, ConnectionTable, TimedEndpoint};
use crate::context::{CommandKind, Context, Event, Frame};
use crate::error::ConfigurationError;
use crate::nic::Message;
use crate::settings::{PrefetchPolicy, Settings};
use crate::tcp::{self, Endpoint, Flags, Reaction, Sequence, State};

/// A buffer on a connection's send queue.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    mbuf: Mbuf,
    /// Not yet acknowledged.
    bytes_left: u32,
    /// Whether it refers to a page of a file; other buffers have a copy.
    is_page: bool,
}

/// The kernel's data of a connection.
#[derive(Default)]
pub struct Socket {
    /// The server's end of TCP, unless the NIC has it. Created when the SYN arrives.
    pub end: Option<Box<TimedEndpoint>>,
    pub stage: Stage,
    pub lines: ConnectionLines,
    /// The buffer of the frame that carried the request, for the copy in `read`.
    pub request_buffer: ReceiveBuffer,
    /// Buffers of data not known to be acknowledged, oldest first.
    pub buffers: VecDeque<Buffer>,
    pub enqueues: u32,
    pub has_tried_handoff: bool,
    /// Bytes sent through the NIC and not yet reported as acknowledged.
    pub bypass_queued_bytes: u32,
    /// Bytes in send commands that the NIC has not yet read.
    pub bytes_in_commands: u32,
    /// A message from the NIC that the host has not read.
    pub message: Option<Message>,
    /// Request bytes that the server has not read.
    pub unread_bytes: u32,
    pub peer_finished: bool,
    /// Whether the server waits for room in the send buffer.
    pub wants_room: bool,
    polling: Polling,
    is_torn_down: bool,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// No frame of it has passed the driver.
    #[default]
    New,
    /// Its first frame has passed the driver, and its structures have memory. The SYN waits for TCP.
    Allocated,
    /// TCP on the host has seen its SYN and runs it.
    OnHost,
    /// The NIC runs it, or it is on its way to or from the NIC.
    OnNic,
}

/// Whether a poll returns a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Polling {
    #[default]
    NotReady,
    /// It is in the list of ready connections.
    Ready,
    /// The server has stopped polling it.
    Stopped,
}

impl Socket {
    /// TCP's end, if it runs on the host.
    fn end_on_host(&mut self) -> Option<&mut TimedEndpoint> {
        (self.end.as_deref_mut()).filter(|_| self.stage != Stage::OnNic)
    }
}

pub struct Kernel {
    pub cpu: Cpu,
    pub(super) jobs: Jobs,
    pub sockets: ConnectionTable<Socket>,
    pub bypass: Bypass,
    pub tcp: tcp::Settings,
    writable_room_bytes: u32,
    /// Whether the host sends the NIC a command when the server reads from a connection on the NIC.
    reads_by_command: bool,
    events_per_poll: u32,
    /// Connections of the last poll that the server has not processed yet.
    polled: u32,
    /// The lines that are fetched before they are needed, if there are any.
    pub prefetch: Option<PrefetchPolicy>,
    /// Whether TCP's output costs something if it sends nothing.
    has_idle_output: bool,
    /// Whether TCP's output follows the list of the send buffer from its beginning.
    output_walks: bool,
    /// Whether an append to the send buffer follows its list.
    append_walks: bool,
}

/// The transmit path from TCP down, for one segment.
const DOWN: [Operation; 4] = [
    Operation::TcpOutput,
    Operation::IpOutput,
    Operation::EthernetOutput,
    Operation::DriverSend,
];

impl Kernel {
    /// A kernel without connections, for a server that expects `connections` at the same time.
    pub fn new(
        settings: &Settings,
        cpu: Cpu,
        connections: u32,
    ) -> Result<Self, ConfigurationError> {
        let has_idle_output = cpu.is_counted(Operation::TcpOutputIdle);
        let output_walks = cpu.is_counted(Operation::TcpWalk);
        let append_walks = cpu.is_counted(Operation::AppendWalk);
        Ok(Self {
            cpu,
            jobs: Jobs::default(),
            sockets: ConnectionTable::default(),
            bypass: Bypass::new(settings, connections),
            tcp: settings.tcp,
            writable_room_bytes: settings.server.writable_room_bytes,
            reads_by_command: settings.host.reads_by_command,
            events_per_poll: settings.server.events_per_poll,
            polled: 0,
            prefetch: settings.host.prefetch_policy()?,
            has_idle_output,
            output_walks,
            append_walks,
        })
    }

    /// Creates the entry of the connection to which a frame belongs.
    pub fn prepare(&mut self, id: ConnectionId) {
        self.sockets.entry(id);
    }

    pub fn forget(&mut self, id: ConnectionId) {
        let socket = self.sockets.entry(id);
        let mut buffers = std::mem::take(&mut socket.buffers);
        buffers.clear();
        *socket = Socket {
            buffers,
            ..Socket::default()
        };
    }

    pub(super) fn run(&mut self, job: KernelJob, context: &mut Context) {
        match job {
            KernelJob::Frame { frame, buffer } => {
                self.receive_at_driver(frame.connection, buffer);
                self.receive(frame, buffer, context);
            }
            KernelJob::Input { frame, buffer } => self.receive(frame, buffer, context),
            KernelJob::Message { connection, buffer } => {
                self.receive_message(connection, buffer, context);
            }
            KernelJob::Timer(id) => self.run_timer(id, context),
            KernelJob::SoftLimit(limit) => self.bypass.soft_limit = limit,
        }
    }

    /// Fetches the header and TCP's lines of the frame that waits `distance` places behind the
    /// current one.
    fn prefetch_received(&mut self, current: ConnectionId, buffer: ReceiveBuffer) {
        let Some(prefetch) = self.prefetch else {
            return;
        };
        let (id, buffer) = match prefetch.distance {
            0 => (current, buffer),
            distance => match self.jobs.kernel.get(distance - 1) {
                Some(TimedJob {
                    job: KernelJob::Frame { frame, buffer },
                    ..
                }) => (frame.connection, *buffer),
                _ => return,
            },
        };
        if prefetch.lines.has_header() {
            self.cpu.at_received(buffer);
            self.cpu
                .run_fetch(Operation::DriverPrefetchHeader, prefetch.kind);
        }
        if prefetch.lines.has_tcp() {
            self.cpu.at_connection(&self.sockets[id].lines);
            self.cpu
                .run_fetch(Operation::DriverPrefetchTcp, prefetch.kind);
        }
    }

    /// Fetches the lines of the system call and of TCP that a write to a connection touches.
    pub fn prefetch_write(&mut self, id: ConnectionId, prefetch: PrefetchPolicy) {
        self.cpu.at_connection(&self.sockets[id].lines);
        if prefetch.lines.has_syscall() {
            self.cpu.at_free_mbuf(prefetch.distance);
            self.cpu
                .run_fetch(Operation::PrefetchSyscall, prefetch.kind);
        }
        if prefetch.lines.has_tcp() {
            self.cpu.run_fetch(Operation::PrefetchTcp, prefetch.kind);
        }
    }

    /// The receive path from the driver to Ethernet.
    pub(super) fn receive_at_driver(&mut self, id: ConnectionId, buffer: ReceiveBuffer) {
        let socket = &mut self.sockets[id];
        if socket.stage == Stage::New {
            socket.stage = Stage::Allocated;
            socket.lines = self.cpu.allocate_connection(id);
        }
        self.prefetch_received(id, buffer);
        let cpu = &mut self.cpu;
        cpu.at_received(buffer);
        cpu.at_connection(&self.sockets[id].lines);
        cpu.run_per_frame();
        cpu.run(Operation::DriverReceive);
        cpu.run(Operation::EthernetInput);
    }

    /// The receive path from IP up to TCP.
    fn receive(&mut self, frame: Frame, buffer: ReceiveBuffer, context: &mut Context) {
        let id = frame.connection;
        context.measure.frames.to_server.delivered += 1;
        let cpu = &mut self.cpu;
        let socket = &mut self.sockets[id];
        cpu.at_received(buffer);
        cpu.at_connection(&socket.lines);
        if socket.stage == Stage::OnNic {
            cpu.run(Operation::BypassForward);
            return self.post_command(id, CommandKind::Forward(frame.segment), context);
        }
        cpu.run(Operation::IpInput);
        cpu.run(Operation::TcpInput);
        if socket.stage == Stage::OnHost {
            self.segment_at_tcp(frame, buffer, context);
        } else if frame.segment.flags.has(Flags::SYN) {
            let initial = Sequence(frame.segment.sequence.0.rotate_left(16));
            let end = Endpoint::accept(&self.tcp, initial, &frame.segment);
            socket.end = Some(Box::new(TimedEndpoint::new(end)));
            socket.stage = Stage::OnHost;
            self.transmit(id, context);
        }
    }

    fn segment_at_tcp(&mut self, frame: Frame, buffer: ReceiveBuffer, context: &mut Context) {
        let id = frame.connection;
        let now = self.cpu.time();
        let socket = &mut self.sockets[id];
        let Some(end) = &mut socket.end else { return };
        let reaction = end.tcp.on_segment(&self.tcp, &frame.segment, now);
        end.tcp.read(&self.tcp, reaction.received_bytes);
        let is_closed = end.tcp.state() == State::Closed;
        if reaction.received_bytes > 0 {
            socket.request_buffer = buffer;
        }
        if reaction.established {
            self.established(id, context);
        }
        self.free_acknowledged(id, reaction.acknowledged_bytes);
        let sent = self.transmit(id, context);
        if sent == 0 && self.has_idle_output && reaction.acknowledged_bytes > 0 {
            self.output_nothing(id);
        }
        self.wake_server(id, reaction, context);
        if is_closed {
            self.tear_down(id, context);
        }
    }

    /// 4.4BSD: an acknowledgment that leaves data in the send buffer calls TCP's output, which finds
    /// nothing to send.
    fn output_nothing(&mut self, id: ConnectionId) {
        let end = &self.sockets[id].end;
        if (end.as_ref()).is_some_and(|end| end.tcp.queued_bytes() > 0) {
            self.cpu.run(Operation::TcpOutputIdle);
        }
    }

    fn established(&mut self, id: ConnectionId, context: &mut Context) {
        self.cpu.run(Operation::TcpOpen);
        context.measure.established += 1;
        self.make_ready(id, context);
        if self
            .bypass
            .selects_at_establishment(context.content[id].future)
        {
            self.try_handoff(id, context);
        }
    }

    /// Frees the buffers of newly acknowledged data. `bytes` is the length of these data.
    pub fn free_acknowledged(&mut self, id: ConnectionId, mut bytes: u32) {
        let socket = &mut self.sockets[id];
        while bytes > 0 {
            let Some(buffer) = socket.buffers.front_mut() else {
                return;
            };
            if bytes < buffer.bytes_left {
                buffer.bytes_left -= bytes;
                return;
            }
            bytes -= buffer.bytes_left;
            self.cpu.at_mbuf(buffer.mbuf);
            self.cpu.run(if buffer.is_page {
                Operation::TcpFreePage
            } else {
                Operation::TcpFreeMbuf
            });
            self.cpu.free_mbuf(buffer.mbuf);
            socket.buffers.pop_front();
        }
    }

    /// Frees the memory of the server's end, which is closed, and reports the connection's length
    /// to the policy.
    pub fn tear_down(&mut self, id: ConnectionId, context: &mut Context) {
        let socket = &mut self.sockets[id];
        if std::mem::replace(&mut socket.is_torn_down, true) {
            return;
        }
        context.connections.end_is_done(id);
        while let Some(buffer) = socket.buffers.pop_front() {
            self.cpu.free_mbuf(buffer.mbuf);
        }
        self.cpu.free_connection(socket.lines);
        let future = context.content[id].future;
        self.bypass.selection.ended(socket.enqueues, future);
    }

    /// Sends all segments that TCP on the host allows; returns their number.
    pub fn transmit(&mut self, id: ConnectionId, context: &mut Context) -> u32 {
        let socket = &mut self.sockets[id];
        let Some(end) = (socket.end.as_mut()).filter(|_| socket.stage != Stage::OnNic) else {
            return 0;
        };
        let cpu = &mut self.cpu;
        let mut sent = 0;
        while let Some(segment) = end.tcp.transmit(&self.tcp, cpu.time()) {
            if self.output_walks && segment.length_bytes > 0 {
                let mut before = end.tcp.bytes_before(&segment);
                for buffer in &socket.buffers {
                    cpu.at_mbuf(buffer.mbuf);
                    if before < buffer.bytes_left {
                        break;
                    }
                    before -= buffer.bytes_left;
                    cpu.run(Operation::TcpWalk);
                }
            } else if let Some(buffer) = socket.buffers.back() {
                cpu.at_mbuf(buffer.mbuf);
            }
            cpu.at_next_send();
            cpu.run_per_frame();
            for operation in DOWN {
                cpu.run(operation);
            }
            cpu.dma_send_done();
            let frame = Frame {
                connection: id,
                segment,
            };
            context.measure.frames.to_client.sent += 1;
            context.at(cpu.time(), Event::Posted(frame));
            sent += 1;
        }
        context.measure.retransmissions += u64::from(end.tcp.take_retransmissions());
        end.arm(Event::ServerTimer(id), context);
        sent
    }

    /// Makes a connection ready if the server can continue with it.
    pub fn wake_server(&mut self, id: ConnectionId, reaction: Reaction, context: &mut Context) {
        let room = self.send_room_bytes(id);
        let socket = &mut self.sockets[id];
        socket.unread_bytes += reaction.received_bytes;
        socket.peer_finished |= reaction.peer_finished;
        let is_writable = reaction.acknowledged_bytes > 0
            && socket.wants_room
            && room >= self.writable_room_bytes;
        if reaction.received_bytes > 0 || reaction.peer_finished || is_writable {
            self.cpu.run(Operation::Wakeup);
            self.make_ready(id, context);
        }
    }

    /// A poll returns the connection, after those that are ready already.
    pub(super) fn make_ready(&mut self, id: ConnectionId, context: &mut Context) {
        let socket = &mut self.sockets[id];
        if socket.polling == Polling::NotReady {
            socket.polling = Polling::Ready;
            let connections = &mut context.connections;
            let job = TimedJob::new(UserJob::Ready(id), self.cpu.time());
            self.jobs.user.push(job, connections);
        }
    }

    /// A timer event has fired; true if the deadline has passed and the host must act on it.
    pub fn timer_is_due(&mut self, id: ConnectionId, context: &mut Context) -> bool {
        let socket = &mut self.sockets[id];
        let Some(end) = &mut socket.end else {
            return false;
        };
        let is_due = end.is_due(context.now);
        if socket.stage == Stage::OnNic {
            // The side that will run the connection sets its timer.
            return false;
        }
        if !is_due {
            end.arm(Event::ServerTimer(id), context);
        }
        is_due
    }

    fn run_timer(&mut self, id: ConnectionId, context: &mut Context) {
        let now = self.cpu.time();
        let socket = &mut self.sockets[id];
        let Some(end) = socket.end_on_host() else {
            return;
        };
        let timed_out = end.tcp.on_timer(&self.tcp, now);
        self.cpu.at_connection(&socket.lines);
        context.measure.timeouts += u64::from(timed_out);
        self.transmit(id, context);
    }

    /// The NIC dropped a frame because its send ring and the queue behind it are full.
    pub fn refuse_send(&mut self, id: ConnectionId) {
        if let Some(end) = self.sockets[id].end_on_host() {
            end.tcp.quench(&self.tcp);
        }
    }
}

/// System calls. The caller's operations run on the same processor.
impl Kernel {
    /// The server continues with a ready connection. One `poll` returns all ready connections, up
    /// to a limit.
    pub fn poll(&mut self, id: ConnectionId) {
        if self.polled == 0 {
            self.cpu.run(Operation::Poll);
            let ready = 1 + self.jobs.user.len() as u32;
            self.polled = ready.min(self.events_per_poll);
        }
        self.polled -= 1;
        let socket = &mut self.sockets[id];
        self.cpu.at_connection(&socket.lines);
        self.cpu.run(Operation::PollEvent);
        if socket.polling == Polling::Ready {
            socket.polling = Polling::NotReady;
        }
    }

    /// The server does not poll the connection from now on.
    pub fn stop_polling(&mut self, id: ConnectionId) {
        self.sockets[id].polling = Polling::Stopped;
    }

    /// The server accepts the connection that it polled last.
    pub fn accept(&mut self) {
        self.cpu.run(Operation::Accept);
        self.cpu.run(Operation::UserConnection);
    }

    /// The server reads all bytes that have arrived.
    pub fn read(&mut self, id: ConnectionId, context: &mut Context) {
        let socket = &mut self.sockets[id];
        let bytes = std::mem::take(&mut socket.unread_bytes);
        self.cpu.at_received(socket.request_buffer);
        self.cpu.run(Operation::Read);
        match socket.end_on_host() {
            // The NIC may have returned the connection with these bytes unread.
            Some(end) => end.tcp.read(&self.tcp, bytes),
            None if self.reads_by_command => {
                self.send_command(id, CommandKind::Read { bytes }, context);
            }
            _ => {}
        }
    }

    /// Bytes the server may enqueue.
    pub fn send_room_bytes(&self, id: ConnectionId) -> u32 {
        let socket = &self.sockets[id];
        match &socket.end {
            Some(end) if socket.stage != Stage::OnNic => end
                .tcp
                .send_room_bytes(&self.tcp)
                .saturating_sub(socket.bytes_in_commands),
            _ => self
                .tcp
                .send_buffer_bytes
                .saturating_sub(socket.bypass_queued_bytes),
        }
    }

    /// Puts bytes on the send buffer; TCP or the NIC sends them.
    pub fn enqueue(
        &mut self,
        id: ConnectionId,
        operation: Operation,
        bytes: u32,
        more_to_come: bool,
        context: &mut Context,
    ) {
        if self.append_walks {
            for buffer in &self.sockets[id].buffers {
                self.cpu.at_mbuf(buffer.mbuf);
                self.cpu.run(Operation::AppendWalk);
            }
        }
        let mbuf = self.cpu.allocate_mbuf();
        self.cpu.run(operation);
        let socket = &mut self.sockets[id];
        socket.buffers.push_back(Buffer {
            mbuf,
            bytes_left: bytes,
            is_page: operation == Operation::SendfilePage,
        });
        socket.enqueues += 1;
        let enqueues = socket.enqueues;
        if !socket.has_tried_handoff && self.bypass.selects_at_send(enqueues) {
            self.try_handoff(id, context);
        }
        let socket = &mut self.sockets[id];
        match socket.end_on_host() {
            Some(end) => {
                end.tcp.enqueue(bytes, more_to_come);
                self.transmit(id, context);
            }
            None => {
                socket.bypass_queued_bytes += bytes;
                socket.bytes_in_commands += bytes;
                let kind = CommandKind::Send {
                    bytes,
                    more_to_come,
                };
                self.send_command(id, kind, context);
            }
        }
    }

    pub fn close(&mut self, id: ConnectionId, context: &mut Context) {
        self.cpu.run(Operation::Close);
        match self.sockets[id].end_on_host() {
            Some(end) => {
                self.cpu.run(Operation::TcpClose);
                end.tcp.close();
                self.transmit(id, context);
            }
            None => self.send_command(id, CommandKind::Close, context),
        }
    }
}
