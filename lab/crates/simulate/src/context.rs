//! Shared state of the components: the events that they send each other, the time, and the
//! counters.
//!
//! A component changes only its own state. It acts on others by events, each at its own time. Only
//! the NIC also acts at once, on the host's memory ([`crate::nic::HostMemory`]).

use perpacket_workload::PlannedRequest;

use crate::connection::{ConnectionId, ConnectionTable, Connections, RefersToConnection};
use crate::event_queue::EventQueue;
use crate::host::selection::Future;
use crate::measure::Measure;
use crate::tcp::Segment;
use crate::time::{Span, Time};

/// A client's slot, which has one connection after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(pub u32);

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub connection: ConnectionId,
    pub segment: Segment,
}

/// A host's command to the NIC about a connection.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub connection: ConnectionId,
    pub kind: CommandKind,
}

#[derive(Clone, Copy, Debug)]
pub enum CommandKind {
    /// Run the connection from now on.
    Handoff,
    /// Send bytes from host memory.
    Send { bytes: u32, more_to_come: bool },
    /// The server has read bytes that arrived.
    Read { bytes: u32 },
    /// End the connection's output: the server sends nothing more.
    Close,
    /// A frame that reached the host although the NIC runs the connection.
    Forward(Segment),
    /// The NIC returns the connection to the host.
    Restore,
}

/// An event of the simulation. The type is small and has no indirection, because events are moved
/// often.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A client opens its connection or sends its next request.
    ClientReady(SlotId),
    /// A client with a reading rate may read more.
    ClientReads(ConnectionId),
    ClientTimer(ConnectionId),
    ServerTimer(ConnectionId),
    /// A frame reaches the client.
    AtClient(Frame),
    /// A client that acknowledges what it reads reads a frame that waited.
    ClientReadsFrame(Frame),
    /// A frame reaches the NIC from the wire.
    AtNic(Frame),
    /// The host has posted a frame to be sent.
    Posted(Frame),
    /// The host's command reaches the NIC.
    Commanded(Command),
    /// The NIC's processor has finished a task.
    NicDone,
    /// The NIC has moved a host packet to or from the host's memory.
    NicMoved,
    /// The NIC's message about a connection reaches the host.
    MessageAtHost(ConnectionId),
    /// The NIC's new soft limit reaches the driver.
    SoftLimitAtHost(u32),
    /// The host's processor has finished a job.
    HostDone,
    /// The NIC interrupts the host for received frames.
    Interrupt,
    /// The NIC interrupts the host for sent frames, unless it has sent more since.
    SendInterrupt,
    /// The bulk sender's next segment is due.
    BulkDue,
    /// The timeline takes a sample.
    Sample,
}

impl RefersToConnection for Frame {
    fn connection(&self) -> Option<ConnectionId> {
        Some(self.connection)
    }
}

impl RefersToConnection for Event {
    #[inline]
    fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Self::ClientReads(id)
            | Self::ClientTimer(id)
            | Self::ServerTimer(id)
            | Self::MessageAtHost(id) => Some(id),
            Self::AtClient(frame)
            | Self::ClientReadsFrame(frame)
            | Self::AtNic(frame)
            | Self::Posted(frame) => Some(frame.connection),
            Self::Commanded(command) => Some(command.connection),
            // A client's connection cannot end while its client has more to do.
            Self::ClientReady(_)
            | Self::NicDone
            | Self::NicMoved
            | Self::SoftLimitAtHost(_)
            | Self::HostDone
            | Self::Interrupt
            | Self::SendInterrupt
            | Self::BulkDue
            | Self::Sample => None,
        }
    }
}

/// The content of a connection. The simulated TCP counts payload bytes but does not carry them, so
/// the content is stored here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Content {
    /// The request that the client sent last.
    pub request: Option<PlannedRequest>,
    /// The future of the whole session. Only the selection policy `oracle` reads it.
    pub future: Future,
}

/// Shared by all components of a run.
pub struct Context {
    pub now: Time,
    pub events: EventQueue<Event>,
    pub connections: Connections,
    pub content: ConnectionTable<Content>,
    pub measure: Measure,
}

impl Context {
    pub fn new() -> Self {
        Self {
            now: Time::ZERO,
            events: EventQueue::new(),
            connections: Connections::default(),
            content: ConnectionTable::default(),
            measure: Measure::new(),
        }
    }

    /// Schedules an event at `time`.
    #[inline]
    pub fn at(&mut self, time: Time, event: Event) {
        self.connections.add(&event);
        self.events.push(time.max(self.now), event);
    }

    /// Schedules an event after `span`.
    pub fn after(&mut self, span: Span, event: Event) {
        self.at(self.now + span, event);
    }
}
