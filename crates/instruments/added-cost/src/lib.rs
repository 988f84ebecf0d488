//! Adds a known processor time to every packet of an interface, in traffic control. `trial` measures with
//! it how a server's throughput depends on the cost of a packet.

#![forbid(unsafe_code)]

use perpacket_linux::bpf::{
    Assembler, BpfError, Condition, Direction, Kind, License, MAX_CLOCK_READINGS, Numbers,
    Register, TIME_NS, TrafficLink, Width,
};
use perpacket_linux::interface::{Interface, InterfaceError};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// Spend a known processor time on every packet of an interface.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
pub struct Spec {
    /// The interface, in both directions.
    #[arg(long, value_name = "[NETNS:]IFNAME")]
    pub interface: String,
}

impl perpacket_spec::Spec for Spec {}

/// The reason why no cost can be added.
#[derive(Debug, Error)]
pub enum AddedCostError {
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error("nanoseconds = {nanoseconds}: expected at most {LONGEST_NS}")]
    TooLong {
        /// The time.
        nanoseconds: u64,
    },
}

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
    pub fn attach(interface: &str) -> Result<Self, AddedCostError> {
        let interface: Interface = interface.parse()?;
        let numbers = Numbers::new()?;
        let program = program(&numbers).load_as(Kind::TrafficControl, License::Mit)?;
        let index = interface.hardware()?.index;
        let attach = |direction| {
            interface
                .inside(|| Ok::<_, AddedCostError>(program.attach_to_traffic(index, direction)?))
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
    pub fn set(&self, nanoseconds: u64) -> Result<Spent, AddedCostError> {
        if nanoseconds > LONGEST_NS {
            return Err(AddedCostError::TooLong { nanoseconds });
        }
        let [_, packets, spent_ns] = self.numbers.read()?;
        self.numbers.write([nanoseconds, 0, 0])?;
        Ok(Spent { packets, spent_ns })
    }
}

/// Result of a program: continue with the next program, and then with the stack (linux/bpf.h,
/// `tcx_action_base`).
const NEXT: i32 = -1;

/// Spends processor time on every packet in traffic control, and then passes the packet on. The
/// numbers of `cost` are the nanoseconds to spend, the packets so far, and the nanoseconds spent on
/// them.
fn program(cost: &Numbers) -> Assembler {
    use Condition::{AtLeast, Below, Equal};
    use Register::{R0, R1, R6, R7, R8, R9};
    use Width::Double;

    let mut program = Assembler::default();
    program
        .find_numbers(cost, "next")
        .copy(R6, R0)
        .load(Double, R7, R6, 0)
        .jump_if(R7, Equal, 0, "next")
        .call(TIME_NS)
        .copy(R8, R0)
        .add_register(R7, R0)
        .set(R9, 0)
        .label("early")
        .call(TIME_NS)
        .jump_if_register(R0, AtLeast, R7, "due")
        .add(R9, 1)
        .jump_if(R9, Below, MAX_CLOCK_READINGS, "early")
        .label("due")
        .subtract_register(R0, R8)
        .set(R1, 1)
        .add_atomically(R6, 8, R1)
        .add_atomically(R6, 16, R0)
        .label("next")
        .set(R0, NEXT)
        .exit();
    program
}
