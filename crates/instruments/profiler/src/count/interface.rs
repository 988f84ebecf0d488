//! The counts of network interfaces.

use std::collections::BTreeMap;

use perpacket_linux::interface::counts;
use serde::Serialize;

/// The counts of a network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Frames sent.
    pub packets_sent: u64,
    /// Frames received.
    pub packets_received: u64,
    /// Bytes of the frames sent.
    pub bytes_sent: u64,
    /// Bytes of the frames received.
    pub bytes_received: u64,
    /// Frames dropped in either direction.
    pub drops: u64,
    /// Interrupts of the interface's queues on all processors. Absent if the interface has none,
    /// such as veth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
}

impl Interface {
    pub(super) fn is_at_most(self, other: Self) -> bool {
        self.packets_sent <= other.packets_sent
            && self.packets_received <= other.packets_received
            && self.bytes_sent <= other.bytes_sent
            && self.bytes_received <= other.bytes_received
    }

    /// Adds the counts of another window.
    pub fn add(&mut self, more: Self) {
        self.packets_sent += more.packets_sent;
        self.packets_received += more.packets_received;
        self.bytes_sent += more.bytes_sent;
        self.bytes_received += more.bytes_received;
        self.drops += more.drops;
        if let Some(count) = more.interrupts {
            *self.interrupts.get_or_insert(0) += count;
        }
    }

    /// The counts since an earlier read. If the counts of an interface are lower than before, the
    /// interface was created again under the same name. Then all its counts are new.
    pub(super) fn since(self, before: Self) -> Self {
        let is_new =
            self.bytes_sent < before.bytes_sent || self.bytes_received < before.bytes_received;
        let before = if is_new { Self::default() } else { before };
        Self {
            packets_sent: self.packets_sent.saturating_sub(before.packets_sent),
            packets_received: self
                .packets_received
                .saturating_sub(before.packets_received),
            bytes_sent: self.bytes_sent.saturating_sub(before.bytes_sent),
            bytes_received: self.bytes_received.saturating_sub(before.bytes_received),
            drops: self.drops.saturating_sub(before.drops),
            interrupts: self
                .interrupts
                .map(|count| count.saturating_sub(before.interrupts.unwrap_or(0))),
        }
    }
}

/// The interfaces in the text of `/proc/net/dev`.
pub(super) fn devices(text: &str) -> BTreeMap<String, Interface> {
    counts(text)
        .map(|(name, row)| {
            let interface = Interface {
                bytes_received: row[0],
                packets_received: row[1],
                bytes_sent: row[8],
                packets_sent: row[9],
                drops: row[3] + row[11],
                interrupts: None,
            };
            (name.to_owned(), interface)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_from_the_kernels_table() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo:  100 5 0 1 0 0 0 0  200 6 0 2 0 0 0 0\n";
        let lo = devices(text)["lo"];
        assert_eq!((lo.packets_received, lo.bytes_received), (5, 100));
        assert_eq!((lo.packets_sent, lo.bytes_sent, lo.drops), (6, 200, 3));
    }

    #[test]
    fn an_interface_that_was_made_again_counts_from_zero() {
        let counts = |packets_sent, bytes_sent| Interface {
            packets_sent,
            bytes_sent,
            ..Interface::default()
        };
        assert_eq!(counts(7, 700).since(counts(5, 500)), counts(2, 200));
        assert_eq!(counts(3, 300).since(counts(5, 500)), counts(3, 300));
    }
}
