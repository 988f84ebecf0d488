//! The direction of code: whether it works for a packet that leaves or for a packet that arrives.

use std::fmt;

/// The direction of the packet that code works for.
///
/// The innermost function of the call chain that has a direction determines the direction. An
/// acknowledgment that the receive path sends is work for a packet sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The code works for a packet that leaves the host.
    Send,
    /// The code works for a packet that arrives.
    Receive,
    /// The code works for no single packet: user code, scheduling, polling.
    #[default]
    Neither,
}

impl Direction {
    /// Every direction.
    pub const ALL: [Self; 3] = [Self::Send, Self::Receive, Self::Neither];

    /// The name in files, tables and JSON.
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
