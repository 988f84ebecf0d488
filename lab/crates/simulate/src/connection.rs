//! The connections that exist, the references to them, and tables that have a component's data for
//! each connection.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::context::{Context, Event};
use crate::tcp::Endpoint;
use crate::time::Time;

/// The number of a TCP connection. A number is reused when nothing refers to its connection any
/// more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(u32);

impl ConnectionId {
    /// The number, for hashes.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Work that may be about a connection. Stored work has a reference to the connection.
pub trait RefersToConnection {
    fn connection(&self) -> Option<ConnectionId>;
}

/// The connections that exist. Each connection has a number of references: one for each of its ends
/// that is not done, and one for each event and each piece of queued work about it. When a
/// connection has no references, its number is free.
///
/// Code that stores work adds a reference with [`add`](Self::add). Code that removes the work calls
/// [`release`](Self::release) after carrying it out.
#[derive(Default)]
pub struct Connections {
    references: Vec<u32>,
    free: Vec<ConnectionId>,
    /// Connections that ended since the engine last looked.
    ended: Vec<ConnectionId>,
}

impl Connections {
    pub fn open(&mut self) -> ConnectionId {
        const ENDS: u32 = 2;
        if let Some(id) = self.free.pop() {
            self.references[id.0 as usize] = ENDS;
            id
        } else {
            self.references.push(ENDS);
            ConnectionId(self.references.len() as u32 - 1)
        }
    }

    /// Adds the reference of work that is being stored.
    #[inline]
    pub fn add(&mut self, work: &impl RefersToConnection) {
        if let Some(id) = work.connection() {
            self.references[id.0 as usize] += 1;
        }
    }

    /// Removes the reference of work that has been carried out.
    #[inline]
    pub fn release(&mut self, work: &impl RefersToConnection) {
        if let Some(id) = work.connection() {
            self.remove(id);
        }
    }

    /// One of the connection's ends is done. Each end reports this once.
    pub fn end_is_done(&mut self, id: ConnectionId) {
        self.remove(id);
    }

    #[inline]
    fn remove(&mut self, id: ConnectionId) {
        let references = &mut self.references[id.0 as usize];
        *references -= 1;
        if *references == 0 {
            self.end(id);
        }
    }

    #[cold]
    fn end(&mut self, id: ConnectionId) {
        self.free.push(id);
        self.ended.push(id);
    }

    /// The next connection that has ended: every component must forget it.
    #[inline]
    pub fn next_ended(&mut self) -> Option<ConnectionId> {
        self.ended.pop()
    }
}

/// A first-in, first-out queue of work.
#[derive(Debug)]
pub struct WorkQueue<T>(VecDeque<T>);

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: RefersToConnection> WorkQueue<T> {
    #[inline]
    pub fn push(&mut self, work: T, connections: &mut Connections) {
        connections.add(&work);
        self.0.push_back(work);
    }

    /// The caller releases the work's reference after carrying it out.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

/// A component's data for each connection.
#[derive(Debug)]
pub struct ConnectionTable<T>(Vec<T>);

impl<T> Default for ConnectionTable<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ConnectionTable<T> {
    /// Sets the entry of a connection that has just been opened.
    pub fn insert(&mut self, id: ConnectionId, value: T) {
        let index = id.0 as usize;
        if index == self.0.len() {
            self.0.push(value);
        } else {
            self.0[index] = value;
        }
    }

    pub fn get(&self, id: ConnectionId) -> Option<&T> {
        self.0.get(id.0 as usize)
    }

    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        self.0.get_mut(id.0 as usize)
    }
}

impl<T: Default> ConnectionTable<T> {
    /// The entry of a connection, created if there is none.
    pub fn entry(&mut self, id: ConnectionId) -> &mut T {
        let index = id.0 as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, T::default);
        }
        &mut self.0[index]
    }
}

impl<T> Index<ConnectionId> for ConnectionTable<T> {
    type Output = T;

    fn index(&self, id: ConnectionId) -> &T {
        &self.0[id.0 as usize]
    }
}

impl<T> IndexMut<ConnectionId> for ConnectionTable<T> {
    fn index_mut(&mut self, id: ConnectionId) -> &mut T {
        &mut self.0[id.0 as usize]
    }
}

/// One end of a connection with the event of its timer.
///
/// When the deadline moves, its event stays in the queue. If the event fires before the deadline,
/// it schedules another event.
pub struct TimedEndpoint {
    pub tcp: Endpoint,
    /// The time of the event scheduled last.
    armed: Option<Time>,
}

impl TimedEndpoint {
    pub const fn new(tcp: Endpoint) -> Self {
        Self { tcp, armed: None }
    }

    /// Schedules `event` for the deadline, unless an event at that time or earlier is scheduled.
    pub fn arm(&mut self, event: Event, context: &mut Context) {
        let Some(due) = self.tcp.timer() else { return };
        if self.armed.is_none_or(|armed| armed > due) {
            let time = due.max(context.now);
            self.armed = Some(time);
            context.at(time, event);
        }
    }

    /// Whether the event that fires now is the one scheduled last and the deadline has passed.
    pub fn is_due(&mut self, now: Time) -> bool {
        if self.armed != Some(now) {
            return false;
        }
        self.armed = None;
        self.tcp.timer().is_some_and(|deadline| deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct About(ConnectionId);

    impl RefersToConnection for About {
        fn connection(&self) -> Option<ConnectionId> {
            Some(self.0)
        }
    }

    #[test]
    fn a_connection_ends_when_both_ends_are_done_and_no_work_is_about_it() {
        let mut connections = Connections::default();
        let id = connections.open();
        let mut queue = WorkQueue::default();
        queue.push(About(id), &mut connections);
        queue.push(About(id), &mut connections);
        connections.end_is_done(id);
        let work = queue.pop().unwrap();
        connections.release(&work);
        connections.end_is_done(id);
        assert_eq!(connections.next_ended(), None, "work is queued");
        let work = queue.pop().unwrap();
        connections.release(&work);
        assert_eq!(connections.next_ended(), Some(id));
        assert_eq!(connections.open(), id, "the number is used again");
    }
}
