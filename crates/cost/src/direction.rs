//! Whether code works for a packet that leaves or for one that arrives.

use std::fmt;

/// The direction of the packet that code works for.
///
/// The innermost function of the call chain with a direction determines it. An acknowledgment that the
/// receive path sends is work for a packet sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// For a packet that leaves the host.
    Send,
    /// For a packet that arrives.
    Receive,
    /// For no single packet: user code, scheduling, polling.
    #[default]
    Neither,
}

impl Direction {
    /// Every direction.
    pub const ALL: [Self; 3] = [Self::Send, Self::Receive, Self::Neither];

    /// The name used in files, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Neither => "neither",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
