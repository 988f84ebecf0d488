//! A connection: both of its ends, where its server end lives, and what the server is doing on it.

use std::collections::VecDeque;

use crate::host::cpu::Places;
use crate::selection::Future;
use crate::tcp::{Endpoint, Sequence, Settings, State};
use crate::time::Time;

/// Who runs the server's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Host,
    /// Given away by the host, not yet taken by the NIC.
    ToNic,
    Nic,
    /// Given back by the NIC, not yet taken by the host.
    ToHost,
}

/// What the NIC has to tell the host about a connection; grows until the host reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    pub acknowledged_bytes: u32,
    pub received_bytes: u32,
    pub peer_finished: bool,
    pub ended: bool,
    pub restored: bool,
}

/// A buffer on a connection's send queue.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub mbuf: u32,
    /// Not yet acknowledged.
    pub bytes_left: u32,
    /// It refers to a page of a file rather than holding a copy.
    pub is_page: bool,
}

/// The server's view of a connection.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    pub accepted: bool,
    /// Waits in the list of ready connections.
    pub ready: bool,
    /// Request bytes that the server has not read.
    pub unread_bytes: u32,
    pub header_due: bool,
    /// Bytes of the file not yet enqueued.
    pub file_bytes_left: u32,
    pub peer_finished: bool,
    pub closed: bool,
    pub enqueues: u32,
    pub handoff_attempted: bool,
}

/// One connection.
pub struct Connection {
    pub slot: u32,
    pub client: Endpoint,
    pub server: Endpoint,
    /// The server has seen the SYN.
    pub server_exists: bool,
    pub owner: Owner,
    /// What its session will do: for the oracle alone.
    pub future: Future,
    pub places: Places,
    pub serving: Serving,
    /// The buffer of the frame that carried the request, for the copy at `read`.
    pub request_buffer: u32,
    /// Buffers of data not known to be acknowledged, oldest first.
    pub buffers: VecDeque<Buffer>,
    /// Bytes the host has sent through the NIC and not yet heard acknowledged.
    pub bypass_queued_bytes: u32,
    /// Bytes in send commands that the NIC has not yet taken.
    pub bytes_in_commands: u32,
    /// A message to the host that it has not read.
    pub message: Option<Message>,
    /// Packets on the NIC, halved at each restore: what active restore ranks by.
    pub nic_packets: u32,
    /// Place in the NIC's list.
    pub nic_place: u32,
    pub client_timer: Option<Time>,
    pub server_timer: Option<Time>,
    /// The server's end is closed and its memory free.
    pub is_torn_down: bool,
    /// Events and queue entries that name this connection.
    pub references: u32,
}

impl Connection {
    fn new(settings: &Settings, slot: u32, initial: Sequence) -> Self {
        let client = Endpoint::connect(settings, initial);
        Self {
            slot,
            server: client.clone(),
            client,
            server_exists: false,
            owner: Owner::Host,
            future: Future::default(),
            places: Places::default(),
            serving: Serving::default(),
            request_buffer: 0,
            buffers: VecDeque::new(),
            bypass_queued_bytes: 0,
            bytes_in_commands: 0,
            message: None,
            nic_packets: 0,
            nic_place: 0,
            client_timer: None,
            server_timer: None,
            is_torn_down: false,
            references: 0,
        }
    }

    /// Whether both ends are done and nothing names the connection any more.
    pub fn can_be_forgotten(&self) -> bool {
        self.references == 0
            && self.client.is_over()
            && self.server_exists
            && self.server.state() == State::Closed
    }
}

/// All connections, by number; numbers are used again.
#[derive(Default)]
pub struct Connections {
    list: Vec<Connection>,
    free: Vec<u32>,
}

impl Connections {
    /// A new connection of a client's slot.
    pub fn open(&mut self, settings: &Settings, slot: u32, initial: Sequence) -> u32 {
        let mut connection = Connection::new(settings, slot, initial);
        if let Some(number) = self.free.pop() {
            let old = &mut self.list[number as usize];
            connection.buffers = std::mem::take(&mut old.buffers);
            connection.buffers.clear();
            *old = connection;
            number
        } else {
            self.list.push(connection);
            (self.list.len() - 1) as u32
        }
    }

    /// The number may be used for another connection.
    pub fn forget(&mut self, number: u32) {
        self.free.push(number);
    }
}

impl std::ops::Index<u32> for Connections {
    type Output = Connection;

    fn index(&self, number: u32) -> &Connection {
        &self.list[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Connections {
    fn index_mut(&mut self, number: u32) -> &mut Connection {
        &mut self.list[number as usize]
    }
}
