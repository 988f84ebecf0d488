//! The offload NIC: one processor that moves the host's packets and runs TCP for the connections
//! that were handed off to it.
//!
//! The processor carries out one task at a time, to its end. A task changes the state of TCP when
//! the task begins. A frame or message leaves when the instructions before it are done.

pub mod load_control;
mod offload;
mod tasks;
pub mod work;

use std::collections::VecDeque;

use crate::connection::{ConnectionId, ConnectionTable, TimedEndpoint};
use crate::context::{Command, Context, Event, Frame};
use crate::settings::{NicInstructions, Settings};
use crate::tcp;
use crate::time::{Clock, Span, Time};
use crate::wire::Link;
use load_control::LoadControl;
use offload::Offloaded;
use tasks::{Task, TaskQueues, Waiting};
use work::{Work, WorkCounts};

/// The NIC's report to the host about a connection. The NIC adds to it until the host reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    pub acknowledged_bytes: u32,
    pub received_bytes: u32,
    pub peer_finished: bool,
    pub ended: bool,
    pub restored: bool,
}

/// The host's memory, as the NIC reads and writes it. Every call but `move_frame` acts at once.
pub trait HostMemory {
    /// Requests the move of a frame. Returns the time at which it ends, or `None` without a bus.
    fn move_frame(&mut self, frame: &Frame, now: Time) -> Option<Time>;
    /// Writes a received frame.
    fn write_frame(&mut self, frame: Frame, context: &mut Context);
    /// Adds to the connection's message. Returns true if the host has read the last message, so
    /// that this call begins a new one.
    fn write_message(&mut self, id: ConnectionId, add: impl FnOnce(&mut Message)) -> bool;
    /// Reads the state of a connection that is handed off.
    fn take_connection(&mut self, id: ConnectionId) -> Option<Box<TimedEndpoint>>;
    /// Writes the state of a connection that is restored.
    fn return_connection(&mut self, id: ConnectionId, end: Box<TimedEndpoint>);
    /// The NIC has read a command.
    fn take_command(&mut self, command: &Command);
    /// Returns a command about a connection that the NIC does not run any more.
    fn return_command(&mut self, command: Command, context: &mut Context);
    /// A posted frame was dropped.
    fn refuse_send(&mut self, id: ConnectionId);
}

/// The NIC's processor.
struct Processor {
    clock: Clock,
    instructions: NicInstructions,
    is_busy: bool,
    /// When the current task began, and its instructions so far.
    began: Time,
    spent: u64,
    work: WorkCounts,
}

impl Processor {
    fn begin(&mut self, now: Time) {
        self.is_busy = true;
        self.began = now;
        self.spent = 0;
    }

    fn spend(&mut self, work: Work) {
        let instructions = self.instructions.of(work);
        self.work.add(work, instructions);
        self.spent += instructions;
    }

    fn time(&self) -> Time {
        self.began + self.clock.span(self.spent)
    }
}

/// A host packet on its way through the NIC, and when it arrived.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    /// To the host's memory.
    ToHost(Frame, Time),
    /// From the host's memory, for the second pass.
    Fetched(Frame, Time),
    ToWire(Frame, Time),
}

impl Transfer {
    const fn frame(&self) -> &Frame {
        let (Self::ToHost(frame, _) | Self::Fetched(frame, _) | Self::ToWire(frame, _)) = self;
        frame
    }
}

pub struct Nic {
    processor: Processor,
    tasks: TaskQueues,
    /// The host packet that the current task passes on when it ends.
    transfer: Option<Transfer>,
    /// Packets that are being moved to or from the host's memory, in order.
    moving: VecDeque<Transfer>,
    /// The time of moving a frame without a bus, if the host's frames pass the processor twice.
    /// `None` if they pass once and moving takes no time.
    staged: Option<Span>,
    send_ring_packets: usize,
    /// The host's frames that wait for room in the send ring.
    interface_queue: VecDeque<(Frame, Time)>,
    interface_queue_packets: usize,
    to_client: Link,
    tcp: tcp::Settings,
    offloaded: ConnectionTable<Offloaded>,
    /// The connections that it runs and that are not closed, in no order.
    open: Vec<ConnectionId>,
    hard_limit: u32,
    load_control: Option<LoadControl>,
    soft_limit_delay: Span,
    has_active_restore: bool,
    /// Whether received data wait for the host's command to read them.
    host_reads: bool,
    /// The NIC reports acknowledgments when they cover this many bytes, or all bytes that it has.
    report_bytes: u32,
}

impl Nic {
    /// An idle NIC without connections.
    pub fn new(settings: &Settings, to_client: Link) -> Self {
        let nic = &settings.nic;
        Self {
            processor: Processor {
                clock: Clock::from_mhz(nic.mips),
                is_busy: false,
                began: Time::ZERO,
                spent: 0,
                instructions: nic.instructions.clone(),
                work: WorkCounts::default(),
            },
            tasks: TaskQueues::new(nic.host_first, nic.receive_ring_packets, nic.queue_packets),
            transfer: None,
            moving: VecDeque::new(),
            staged: nic.is_staged.then(|| Span::from_ns(u64::from(nic.dma_ns))),
            send_ring_packets: nic.send_ring_packets as usize,
            interface_queue: VecDeque::new(),
            interface_queue_packets: settings.host.interface_queue_packets as usize,
            to_client,
            tcp: settings.tcp,
            offloaded: ConnectionTable::default(),
            open: Vec::new(),
            hard_limit: nic.connections,
            load_control: nic.load_control.then(|| {
                LoadControl::new(nic.connections, nic.hiwat, nic.lowat, nic.soft_limit_step)
            }),
            soft_limit_delay: Span::from_us(u64::from(settings.host.soft_limit_delay_us)),
            has_active_restore: nic.active_restore,
            host_reads: settings.host.reads_by_command,
            report_bytes: nic.report_bytes,
        }
    }

    /// The work that its processor has done.
    pub const fn work(&self) -> &WorkCounts {
        &self.processor.work
    }

    /// Connections on the NIC.
    pub fn connections(&self) -> u32 {
        self.open.len() as u32
    }

    /// Qlen: received packets that wait for the NIC's TCP.
    pub fn queue_packets(&self) -> u32 {
        self.tasks.length() as u32
    }

    /// Maximum number of connections that the NIC accepts, and the state of load control.
    pub fn soft_limit_and_state(&self) -> (u32, &'static str) {
        match &self.load_control {
            Some(control) => (control.soft_limit(), control.state().name()),
            None => (self.hard_limit, "off"),
        }
    }

    /// Frames on their way through the NIC, to the server and to the clients.
    pub fn frames(&self) -> [u64; 2] {
        let [mut to_server, mut to_client] = self.tasks.frames();
        to_client += self.interface_queue.len() as u64;
        for transfer in self.transfer.iter().chain(&self.moving) {
            match transfer {
                Transfer::ToHost(..) => to_server += 1,
                Transfer::Fetched(..) | Transfer::ToWire(..) => to_client += 1,
            }
        }
        [to_server, to_client]
    }

    /// Whether the NIC runs a connection, a closed one included.
    pub fn runs(&self, id: ConnectionId) -> bool {
        self.offloaded
            .get(id)
            .is_some_and(|entry| entry.end.is_some())
    }

    /// The connection has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        if let Some(entry) = self.offloaded.get_mut(id) {
            *entry = Offloaded::default();
        }
    }

    /// A frame arrives from the wire: it joins the ring or is dropped.
    pub fn receive(&mut self, frame: Frame, host: &mut impl HostMemory, context: &mut Context) {
        let connections = &mut context.connections;
        if self
            .tasks
            .push(Task::Received(frame), context.now, connections)
        {
            context.measure.packets += 1;
            self.wake(host, context);
        } else {
            context.measure.dropped_to_server();
        }
    }

    /// The host has posted a frame: it joins the send ring or the queue behind it, or is dropped.
    pub fn post(&mut self, frame: Frame, host: &mut impl HostMemory, context: &mut Context) {
        if self.tasks.sends() < self.send_ring_packets {
            self.add(Task::Send(frame), host, context);
        } else if self.interface_queue.len() < self.interface_queue_packets {
            context.connections.add(&frame);
            self.interface_queue.push_back((frame, context.now));
        } else {
            context.measure.dropped_to_client();
            host.refuse_send(frame.connection);
        }
    }

    /// The host's command arrives.
    pub fn command(&mut self, command: Command, host: &mut impl HostMemory, context: &mut Context) {
        self.add(Task::Command(command), host, context);
    }

    /// A timer event of a connection that the NIC runs.
    pub fn timer(&mut self, id: ConnectionId, host: &mut impl HostMemory, context: &mut Context) {
        let Some(end) = &mut self.offloaded[id].end else {
            return;
        };
        if end.is_due(context.now) {
            self.add(Task::Timer(id), host, context);
        } else {
            end.arm(Event::ServerTimer(id), context);
        }
    }

    /// Adds a task that always has room.
    fn add(&mut self, task: Task, host: &mut impl HostMemory, context: &mut Context) {
        self.tasks.push(task, context.now, &mut context.connections);
        self.wake(host, context);
    }

    fn wake(&mut self, host: &mut impl HostMemory, context: &mut Context) {
        if !self.processor.is_busy {
            self.begin_next(host, context);
        }
    }

    /// The processor has finished its task.
    pub fn task_done(&mut self, host: &mut impl HostMemory, context: &mut Context) {
        match (self.transfer.take(), self.staged) {
            (None, _) => {}
            (Some(Transfer::ToWire(frame, since)), _) => {
                context.measure.send_delay(context.now.since(since));
                context.measure.packets += 1;
                let arrival = self.to_client.send(&frame.segment, context.now);
                context.at(arrival, Event::AtClient(frame));
                context.connections.release(&frame);
            }
            (Some(transfer), Some(span)) => {
                let moved = host.move_frame(transfer.frame(), context.now);
                self.moving.push_back(transfer);
                context.at(moved.unwrap_or(context.now + span), Event::NicMoved);
            }
            (Some(transfer), None) => self.arrive(transfer, host, context),
        }
        self.begin_next(host, context);
    }

    /// Handles the arrival of the packet whose move began first.
    pub fn moved(&mut self, host: &mut impl HostMemory, context: &mut Context) {
        if let Some(transfer) = self.moving.pop_front() {
            self.arrive(transfer, host, context);
            self.wake(host, context);
        }
    }

    /// A packet has been moved to the host's memory or from there.
    fn arrive(&mut self, transfer: Transfer, host: &mut impl HostMemory, context: &mut Context) {
        match transfer {
            Transfer::ToHost(frame, since) => {
                context.measure.receive_delay(context.now.since(since));
                host.write_frame(frame, context);
                context.connections.release(&frame);
            }
            Transfer::Fetched(frame, since) | Transfer::ToWire(frame, since) => {
                let connections = &mut context.connections;
                self.tasks.push(Task::Transmit(frame), since, connections);
                connections.release(&frame);
            }
        }
    }

    fn begin_next(&mut self, host: &mut impl HostMemory, context: &mut Context) {
        let Some(waiting) = self.tasks.pop() else {
            self.processor.is_busy = false;
            return;
        };
        self.processor.begin(context.now);
        self.begin(waiting, host, context);
        context.connections.release(&waiting);
        let span = self.processor.clock.span(self.processor.spent);
        context.measure.nic_busy += span;
        context.after(span, Event::NicDone);
    }

    fn begin(&mut self, waiting: Waiting, host: &mut impl HostMemory, context: &mut Context) {
        let Waiting { task, since } = waiting;
        context
            .measure
            .waited(task.queue(), context.now.since(since));
        match task {
            Task::Received(frame) => self.look_up(frame, since, host, context),
            Task::Classified(frame) => self.process(frame, since, host, context),
            Task::Send(frame) => {
                if let Some((frame, since)) = self.interface_queue.pop_front() {
                    let connections = &mut context.connections;
                    self.tasks.push(Task::Send(frame), since, connections);
                    connections.release(&frame);
                }
                self.processor.spend(Work::HostSend);
                if self.staged.is_some() {
                    return self.pass(Transfer::Fetched(frame, since), context);
                }
                self.processor.spend(Work::HostTransmit);
                self.pass(Transfer::ToWire(frame, since), context);
            }
            Task::Transmit(frame) => {
                self.processor.spend(Work::HostTransmit);
                self.pass(Transfer::ToWire(frame, since), context);
            }
            Task::Command(command) => self.run_command(command, host, context),
            Task::Timer(id) => self.run_timer(id, context),
        }
    }

    /// Passes a host packet on when the task ends.
    fn pass(&mut self, transfer: Transfer, context: &mut Context) {
        context.connections.add(transfer.frame());
        self.transfer = Some(transfer);
    }

    fn look_up(
        &mut self,
        frame: Frame,
        since: Time,
        host: &mut impl HostMemory,
        context: &mut Context,
    ) {
        self.processor.spend(Work::Lookup);
        if !self.tasks.is_host_first() || !self.runs(frame.connection) {
            return self.process(frame, since, host, context);
        }
        let connections = &mut context.connections;
        if !self.tasks.push(Task::Classified(frame), since, connections) {
            context.measure.dropped_to_server();
        }
        self.control_load(context);
    }

    /// Passes a received frame to the host or, if the NIC runs the connection, to its own TCP.
    fn process(
        &mut self,
        frame: Frame,
        since: Time,
        host: &mut impl HostMemory,
        context: &mut Context,
    ) {
        // A connection may have been restored while its frame waited.
        if !self.runs(frame.connection) {
            self.processor.spend(Work::HostReceive);
            return self.pass(Transfer::ToHost(frame, since), context);
        }
        context.measure.frames.to_server.delivered += 1;
        context.measure.nic_packets += 1;
        self.take_segment(frame.connection, &frame.segment, host, context);
        if !self.tasks.is_host_first() {
            self.control_load(context);
        }
    }
}

#[cfg(test)]
mod tests;
