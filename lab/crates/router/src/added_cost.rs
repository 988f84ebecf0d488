//! Adds a known processor time to every packet of an interface, in traffic control.

use perpacket_linux::interface::Interface;
use serde::Serialize;

use crate::bpf::{self, Direction, Kind, License, Numbers, TrafficLink, add_cost};
use crate::error::RouterError;

/// Longest added time for one packet, in nanoseconds. A longer time would delay other work of the
/// machine.
pub const LONGEST_NS: u64 = 50_000;

/// Programs that add a cost in both directions of an interface. Dropping this detaches the
/// programs. If the process is killed, the kernel detaches them.
#[derive(Debug)]
pub struct AddedCost {
    numbers: Numbers,
    _links: [TrafficLink; 2],
}

/// The time that the programs have spent since the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Packets to which time was added. A packet may consist of many segments (GSO, GRO).
    pub packets: u64,
    /// Total time spent on these packets, in nanoseconds. For each packet it is at least the
    /// requested time.
    pub spent_ns: u64,
}

impl AddedCost {
    /// Attaches the programs. At first they add no time.
    ///
    /// # Errors
    /// The interface does not exist, the kernel is older than Linux 6.6, or this process lacks the
    /// permission.
    pub fn attach(interface: &Interface) -> Result<Self, RouterError> {
        let numbers = Numbers::new()?;
        let program = bpf::load_as(Kind::TrafficControl, &add_cost(&numbers), License::Mit)?;
        let index = interface.hardware()?.index;
        let attach = |direction| {
            interface.inside(|| Ok::<_, RouterError>(program.attach_to_traffic(index, direction)?))
        };
        // The links keep the program loaded.
        let links = [attach(Direction::Ingress)?, attach(Direction::Egress)?];
        Ok(Self {
            numbers,
            _links: links,
        })
    }

    /// Sets the time to add to each packet. Returns the time spent before the change.
    ///
    /// # Errors
    /// The time is over [`LONGEST_NS`].
    pub fn set(&self, nanoseconds: u64) -> Result<Spent, RouterError> {
        if nanoseconds > LONGEST_NS {
            return Err(RouterError::Setting {
                name: "nanoseconds",
                value: nanoseconds.to_string(),
                expected: "at most 50,000",
            });
        }
        let [_, packets, spent_ns] = self.numbers.read()?;
        self.numbers.write([nanoseconds, 0, 0])?;
        Ok(Spent { packets, spent_ns })
    }
}
