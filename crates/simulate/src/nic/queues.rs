//! What waits for the NIC's processor, in arrival order or host packets first.

use std::collections::VecDeque;

use crate::time::Time;
use crate::world::{Command, CommandKind, Frame};

/// A piece of work for the NIC's processor.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// A frame from the wire, whose connection is not yet known.
    Received(Frame),
    /// A frame from the wire that the lookup has found to belong to a NIC connection.
    Classified(Frame),
    /// A frame the host wants sent.
    Send(Frame),
    /// A command from the host about a connection.
    Command(Command),
    /// A TCP timer of a NIC connection has run out.
    Timer(u32),
}

/// A task and when it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub task: Task,
    pub since: Time,
}

/// The queues. In arrival order all tasks are in one; in host-first order frames not yet looked up
/// and frames to be sent are served before everything that concerns NIC connections.
#[derive(Debug)]
pub struct Queues {
    host_first: bool,
    ring_packets: usize,
    queue_packets: usize,
    first: VecDeque<Waiting>,
    second: VecDeque<Waiting>,
    in_ring: usize,
    classified: usize,
    sends: usize,
}

impl Queues {
    pub fn new(host_first: bool, ring_packets: u32, queue_packets: u32) -> Self {
        Self {
            host_first,
            ring_packets: ring_packets as usize,
            queue_packets: queue_packets as usize,
            first: VecDeque::new(),
            second: VecDeque::new(),
            in_ring: 0,
            classified: 0,
            sends: 0,
        }
    }

    /// Whether NIC packets wait in a queue of their own.
    pub const fn host_first(&self) -> bool {
        self.host_first
    }

    /// Frames the host wants sent that wait.
    pub const fn sends(&self) -> usize {
        self.sends
    }

    /// Qlen: received packets that wait for the NIC's TCP. In arrival order the NIC cannot tell
    /// whose they are before it takes them, so all that wait in the ring count.
    pub const fn length(&self) -> usize {
        if self.host_first {
            self.classified
        } else {
            self.in_ring
        }
    }

    /// Adds a task; false if there is no room for it, which only received frames can meet.
    pub fn push(&mut self, task: Task, since: Time) -> bool {
        let waiting = Waiting { task, since };
        match task {
            Task::Received(_) => {
                if self.in_ring >= self.ring_packets {
                    return false;
                }
                self.in_ring += 1;
                self.first.push_back(waiting);
            }
            Task::Classified(_) => {
                if self.classified >= self.queue_packets {
                    return false;
                }
                self.classified += 1;
                self.second.push_back(waiting);
            }
            Task::Send(_) => {
                self.sends += 1;
                self.first.push_back(waiting);
            }
            // A restore that waited behind the NIC's packets would come when it is too late.
            Task::Command(Command {
                kind: CommandKind::Restore,
                ..
            }) => self.first.push_back(waiting),
            Task::Command(_) | Task::Timer(_) if self.host_first => self.second.push_back(waiting),
            Task::Command(_) | Task::Timer(_) => self.first.push_back(waiting),
        }
        true
    }

    /// The next task to serve.
    pub fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.first.pop_front().or_else(|| self.second.pop_front())?;
        match waiting.task {
            Task::Received(_) => self.in_ring -= 1,
            Task::Classified(_) => self.classified -= 1,
            Task::Send(_) => self.sends -= 1,
            Task::Command(_) | Task::Timer(_) => {}
        }
        Some(waiting)
    }

    /// Everything that waits.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.first.iter().chain(&self.second)
    }
}
