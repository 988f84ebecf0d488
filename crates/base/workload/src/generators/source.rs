//! One type for every source of sessions.

use super::lognormal::LognormalGenerator;
use super::specweb99::{SpecWeb99Generator, object_path};
use crate::sessions::planned::{PlannedRequest, SessionSource};
use crate::sessions::replay::Replay;
use crate::sessions::requests::SessionRequests;
use crate::trace::object_paths::unmapped_path;

/// A source of sessions. It is an enum because a match costs less than a trait object's virtual
/// call.
#[derive(Clone, Debug)]
pub enum Sessions {
    /// The synthetic World Cup 1998 and IBM workloads.
    Lognormal(LognormalGenerator),
    /// SPECweb99, static or mixed.
    SpecWeb99(SpecWeb99Generator),
    /// A recorded trace.
    Replay(Replay),
}

impl Sessions {
    /// Path of an object on the server.
    pub fn object_path(&self, object: u32) -> String {
        match self {
            Self::SpecWeb99(_) => object_path(object),
            Self::Lognormal(_) | Self::Replay(_) => unmapped_path(object),
        }
    }

    /// Replaces `session` by the next session. A session of a trace stays in the trace's memory.
    pub fn next_shared(&mut self, session: &mut SessionRequests<PlannedRequest>) {
        match self {
            Self::Replay(replay) => *session = replay.next_shared(),
            generator => {
                generator.next_session(session.own());
            }
        }
    }
}

impl SessionSource for Sessions {
    fn next_session(&mut self, requests: &mut Vec<PlannedRequest>) -> u32 {
        match self {
            Self::Lognormal(generator) => generator.next_session(requests),
            Self::SpecWeb99(generator) => generator.next_session(requests),
            Self::Replay(replay) => replay.next_session(requests),
        }
    }
}
