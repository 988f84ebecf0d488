//! The simulated world: who is in it, the events that move it, and the loop that does.
//!
//! A request's way: a client's frame crosses the wire to the NIC ([`crate::nic`]), which hands it to
//! the host ([`crate::kernel`]) or, for a connection it holds, runs TCP itself; the kernel wakes the
//! server ([`crate::server`]), whose writes go down the stack or, through [`crate::bypass`], to the
//! NIC; frames cross the wire back to the client ([`crate::clients`]).

use crate::bulk::Bulk;
use crate::clients::Clients;
use crate::connection::Connections;
use crate::kernel::Host;
use crate::measure::Measure;
use crate::nic::Nic;
use crate::queue::EventQueue;
use crate::settings::Settings;
use crate::tcp::Segment;
use crate::time::{Span, Time};
use crate::timeline::Timeline;
use crate::wire::Link;

/// A segment on its way, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub connection: u32,
    pub segment: Segment,
}

/// What the host asks of the NIC about a connection.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub connection: u32,
    pub kind: CommandKind,
}

#[derive(Clone, Copy, Debug)]
pub enum CommandKind {
    /// Take the connection over.
    Handoff,
    /// Send bytes from host memory.
    Send { bytes: u32, more_to_come: bool },
    /// Nothing more to send.
    Close,
    /// A frame that reached the host although the connection is the NIC's.
    Forward(Segment),
    /// Give the connection back.
    Restore,
}

/// Something that happens at a time. Small and without indirection: they are moved a lot.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A client goes on: opens its connection or sends its next request.
    ClientReady(u32),
    /// A paced client's reading has made room.
    ClientReads(u32),
    ClientTimer(u32),
    ServerTimer(u32),
    /// A frame reaches the client.
    AtClient(Frame),
    /// A frame reaches the NIC from the wire.
    AtNic(Frame),
    /// The host has posted a frame to be sent.
    Posted(Frame),
    /// The host's command reaches the NIC.
    Commanded(Command),
    /// The NIC's processor has finished a task.
    NicDone,
    /// The NIC's message about a connection reaches the host.
    MessageAtHost(u32),
    /// The NIC's new soft limit reaches the driver.
    SoftLimitAtHost(u32),
    /// The host's processor has finished a job.
    HostDone,
    /// The bulk sender's next segment is due.
    BulkDue,
    /// The timeline takes a sample.
    Sample,
}

/// Everything there is.
pub struct World {
    pub now: Time,
    pub events: EventQueue<Event>,
    pub settings: Settings,
    pub connections: Connections,
    pub host: Host,
    pub nic: Nic,
    pub to_server: Link,
    pub to_client: Link,
    pub clients: Clients,
    pub bulk: Option<Bulk>,
    pub measure: Measure,
    pub timeline: Option<Timeline>,
}

impl World {
    /// Schedules an event at `time`.
    pub fn at(&mut self, time: Time, event: Event) {
        self.events.push(time.max(self.now), event);
    }

    /// Schedules an event after `span`.
    pub fn after(&mut self, span: Span, event: Event) {
        self.events.push(self.now + span, event);
    }

    /// One more event or queue entry names the connection.
    pub fn hold(&mut self, connection: u32) {
        self.connections[connection].references += 1;
    }

    /// One fewer does; the last one of a connection that is over frees it.
    pub fn release(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        connection.references -= 1;
        if connection.can_be_forgotten() {
            self.connections.forget(number);
        }
    }

    /// The server's end is closed: its memory is free, and the policy learns how long it was.
    pub fn tear_down(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        if connection.is_torn_down {
            return;
        }
        connection.is_torn_down = true;
        let places = connection.places;
        let (enqueues, future) = (connection.serving.enqueues, connection.future);
        while let Some(buffer) = connection.buffers.pop_front() {
            self.host.cpu.free_mbuf(buffer.mbuf);
        }
        self.host.cpu.free_places(places);
        self.host.selection.ended(enqueues, future);
    }

    /// Takes the next event; false when there is none.
    pub fn step(&mut self) -> bool {
        let Some((time, event)) = self.events.pop() else {
            return false;
        };
        self.now = time;
        match event {
            Event::AtClient(frame) => self.frame_at_client(frame),
            Event::AtNic(frame) => self.frame_at_nic(frame),
            Event::Posted(frame) => self.frame_posted(frame),
            Event::NicDone => self.nic_done(),
            Event::HostDone => self.host_next(),
            Event::Commanded(command) => self.commanded(command),
            Event::MessageAtHost(connection) => self.message_at_host(connection),
            Event::SoftLimitAtHost(limit) => self.soft_limit_at_host(limit),
            Event::ClientReady(slot) => self.client_ready(slot),
            Event::ClientReads(connection) => self.client_reads(connection),
            Event::ClientTimer(connection) => self.client_timer(connection),
            Event::ServerTimer(connection) => self.server_timer(connection),
            Event::BulkDue => self.bulk_due(),
            Event::Sample => self.sample(),
        }
        true
    }

    /// Sees to it that a timer event is scheduled for the client's end.
    pub fn arm_client(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        let Some(due) = connection.client.timer() else {
            return;
        };
        if connection.client_timer.is_none_or(|armed| armed > due) {
            connection.client_timer = Some(due.max(self.now));
            connection.references += 1;
            self.events
                .push(due.max(self.now), Event::ClientTimer(number));
        }
    }

    /// Sees to it that a timer event is scheduled for the server's end.
    pub fn arm_server(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        let Some(due) = connection.server.timer() else {
            return;
        };
        if connection.server_timer.is_none_or(|armed| armed > due) {
            connection.server_timer = Some(due.max(self.now));
            connection.references += 1;
            self.events
                .push(due.max(self.now), Event::ServerTimer(number));
        }
    }

    /// Whether the timer event that fired is the one armed last (others are stale), and whether
    /// its deadline still stands.
    pub fn is_due(armed: &mut Option<Time>, deadline: Option<Time>, now: Time) -> bool {
        if *armed != Some(now) {
            return false;
        }
        *armed = None;
        deadline.is_some_and(|deadline| deadline <= now)
    }
}
