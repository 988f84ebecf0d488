//! Adds a known processor time to every packet of an interface, in traffic control.

use perpacket_linux::interface::Interface;
use serde::Serialize;

use crate::bpf::{self, Direction, Kind, License, Numbers, TrafficLink, add_cost};
use crate::error::RouterError;

/// The longest time for one packet: longer ones would delay the machine's other work.
pub const LONGEST_NS: u64 = 50_000;

/// Programs in both directions of an interface. Dropping it detaches them; so does the kernel if the
/// process is killed.
#[derive(Debug)]
pub struct AddedCost {
    numbers: Numbers,
    _links: [TrafficLink; 2],
}

/// What the programs have spent since the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Packets with the added time. A packet may be many segments (GSO, GRO).
    pub packets: u64,
    /// Nanoseconds spent on them, at least the requested time.
    pub spent_ns: u64,
}

impl AddedCost {
    /// Attaches the programs, which spend nothing yet.
    ///
    /// # Errors
    /// The interface does not exist, the kernel is older than Linux 6.6, or this process may not.
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

    /// Sets the time that each packet costs more; returns what was spent before.
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
