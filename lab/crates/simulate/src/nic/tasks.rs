//! The queues in front of the NIC's processor, in arrival order or with host packets first.

use crate::connection::{ConnectionId, Connections, RefersToConnection, WorkQueue};
use crate::context::{Command, CommandKind, Frame};
use crate::measure::Queue;
use crate::time::Time;

/// A piece of work for the NIC's processor.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// A frame from the wire that has not been looked up.
    Received(Frame),
    /// A frame from the wire that belongs to a NIC connection.
    Classified(Frame),
    /// A frame that the host sends, in the host's memory.
    Send(Frame),
    /// A frame that the host sends, in the NIC's memory.
    Transmit(Frame),
    /// A command from the host about a connection.
    Command(Command),
    /// A TCP timer of a NIC connection has run out.
    Timer(ConnectionId),
}

impl Task {
    /// Where it waits.
    pub const fn queue(&self) -> Queue {
        match self {
            Self::Received(_) => Queue::NicReceive,
            Self::Classified(_) => Queue::NicSecond,
            Self::Send(_) => Queue::NicSend,
            Self::Transmit(_) => Queue::NicTransmit,
            Self::Command(_) => Queue::NicCommands,
            Self::Timer(_) => Queue::NicTimers,
        }
    }
}

/// A task and when it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub task: Task,
    pub since: Time,
}

impl RefersToConnection for Waiting {
    fn connection(&self) -> Option<ConnectionId> {
        Some(match self.task {
            Task::Received(frame)
            | Task::Classified(frame)
            | Task::Send(frame)
            | Task::Transmit(frame) => frame.connection,
            Task::Command(command) => command.connection,
            Task::Timer(id) => id,
        })
    }
}

/// The queues. In arrival order, all tasks are in one queue. In host-first order, frames that were
/// not looked up yet and frames to be sent are served before all work for NIC connections.
#[derive(Debug)]
pub struct TaskQueues {
    is_host_first: bool,
    ring_packets: usize,
    queue_packets: usize,
    first: WorkQueue<Waiting>,
    second: WorkQueue<Waiting>,
    in_ring: usize,
    classified: usize,
    sends: usize,
    transmits: usize,
}

impl TaskQueues {
    pub fn new(is_host_first: bool, ring_packets: u32, queue_packets: u32) -> Self {
        Self {
            is_host_first,
            ring_packets: ring_packets as usize,
            queue_packets: queue_packets as usize,
            first: WorkQueue::default(),
            second: WorkQueue::default(),
            in_ring: 0,
            classified: 0,
            sends: 0,
            transmits: 0,
        }
    }

    /// Whether NIC packets wait in a queue of their own.
    pub const fn is_host_first(&self) -> bool {
        self.is_host_first
    }

    /// The host's frames that wait to be fetched from its memory.
    pub const fn sends(&self) -> usize {
        self.sends
    }

    /// Qlen: received packets that wait for the NIC's TCP. In arrival order the NIC looks up a packet
    /// only when it begins to process that packet, so all packets in the ring count.
    pub const fn length(&self) -> usize {
        if self.is_host_first {
            self.classified
        } else {
            self.in_ring
        }
    }

    /// Adds a task; false if its queue is full, which only happens for received frames.
    // Inlined, because every caller adds a task of a known kind.
    #[inline(always)]
    pub fn push(&mut self, task: Task, since: Time, connections: &mut Connections) -> bool {
        let queue = match task {
            Task::Received(_) => {
                if self.in_ring >= self.ring_packets {
                    return false;
                }
                self.in_ring += 1;
                &mut self.first
            }
            Task::Classified(_) => {
                if self.classified >= self.queue_packets {
                    return false;
                }
                self.classified += 1;
                &mut self.second
            }
            Task::Send(_) => {
                self.sends += 1;
                &mut self.first
            }
            Task::Transmit(_) => {
                self.transmits += 1;
                &mut self.first
            }
            // A restore that waits behind the NIC's packets would be too late.
            Task::Command(Command {
                kind: CommandKind::Restore,
                ..
            }) => &mut self.first,
            Task::Command(_) | Task::Timer(_) if self.is_host_first => &mut self.second,
            Task::Command(_) | Task::Timer(_) => &mut self.first,
        };
        queue.push(Waiting { task, since }, connections);
        true
    }

    /// The next task to serve.
    #[inline]
    pub fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.first.pop().or_else(|| self.second.pop())?;
        match waiting.task {
            Task::Received(_) => self.in_ring -= 1,
            Task::Classified(_) => self.classified -= 1,
            Task::Send(_) => self.sends -= 1,
            Task::Transmit(_) => self.transmits -= 1,
            Task::Command(_) | Task::Timer(_) => {}
        }
        Some(waiting)
    }

    /// Frames that wait, to the server and to the clients.
    pub fn frames(&self) -> [u64; 2] {
        let to_server = self.in_ring + self.classified;
        let to_client = self.sends + self.transmits;
        [to_server as u64, to_client as u64]
    }
}
