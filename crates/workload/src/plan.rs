//! What a simulated or real client is told to do: sessions of planned requests.

use crate::lognormal::LognormalGenerator;
use crate::object_paths::unmapped_path;
use crate::replay::Replay;
use crate::specweb99::{SpecWeb99Generator, object_path};

/// One request a client will send, and the response the server owes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Number of the requested object, from 0. A trace's objects are numbered in order of first
    /// appearance.
    pub object: u32,
    /// Bytes of the response's body; the header is the server's affair.
    pub response_bytes: u32,
    /// The server computes the response instead of sending a file.
    pub dynamic: bool,
}

/// Sessions without end.
pub trait SessionSource {
    /// Replaces `requests` by the next session's requests and returns its client.
    ///
    /// A session holds at least one request. Allocates only when `requests` has to grow.
    fn next_session(&mut self, requests: &mut Vec<PlannedRequest>) -> u32;
}

/// Every source of sessions, as one type so that the hot path is a match and no virtual call.
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
    #[must_use]
    pub fn object_path(&self, object: u32) -> String {
        match self {
            Self::SpecWeb99(_) => object_path(object),
            Self::Lognormal(_) | Self::Replay(_) => unmapped_path(object),
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
