//! The requests of one session, in memory of their own or in the memory of a trace.

use std::ops::Deref;
use std::sync::Arc;

use super::logged::SessionTable;

/// The requests of one session. A session of a trace shares the trace's memory, so that many clients
/// may replay one long session.
#[derive(Clone, Debug)]
pub enum SessionRequests<T> {
    /// Requests that were generated.
    Own(Vec<T>),
    /// A session of a trace, with its number.
    Shared(Arc<SessionTable<T>>, usize),
}

impl<T> Default for SessionRequests<T> {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl<T> SessionRequests<T> {
    /// The session's own memory, to write requests into. A session of a trace loses its requests.
    pub fn own(&mut self) -> &mut Vec<T> {
        if let Self::Shared(..) = self {
            *self = Self::default();
        }
        match self {
            Self::Own(requests) => requests,
            Self::Shared(..) => unreachable!("it has just been replaced"),
        }
    }
}

impl<T> Deref for SessionRequests<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Own(requests) => requests,
            Self::Shared(table, number) => table.session(*number).1,
        }
    }
}
