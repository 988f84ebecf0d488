//! The frame of an agent, the executable that runs beside the server under test, and the verbs that an
//! operator needs. It also runs on machines without Python.
//!
//! Each verb is a `Spec` of an instrument's crate and a function, in a file or a folder of its own, that
//! calls the instrument and prints its observation. [`verb`] makes the command line. The lab's executable,
//! `perpacket-lab-agent`, has more verbs on the same frame.

#![forbid(unsafe_code)]

// Other modules use its macro.
#[macro_use]
pub mod output;

mod added_cost;
mod capture;
mod export;
mod link;
mod load;
mod probe;
mod profile;
pub mod program;
mod serve;
pub mod status;
pub mod stop;
pub mod table;
pub mod verb;

use verb::Verb;

/// The groups of verbs with their help. Verbs of the group without a name follow the others. Groups without
/// verbs are left out.
pub const GROUPS: [(&str, &str); 7] = [
    (
        "serve",
        "Run a server under test in the foreground until a signal",
    ),
    ("load", "Load a server and report its responses"),
    (
        "bench",
        "Measure what memory and context switches cost on this machine",
    ),
    (
        "route",
        "Check a router's forwarding and measure its throughput",
    ),
    ("media", "Generate media files to serve"),
    ("guest", ""),
    ("", ""),
];

/// The verbs that an operator needs.
pub fn verbs() -> Vec<Verb> {
    [
        serve::verbs(),
        load::verbs(),
        vec![
            link::verb(),
            added_cost::verb(),
            profile::verb(),
            capture::verb(),
            export::verb(),
            probe::verb(),
        ],
    ]
    .into_iter()
    .flatten()
    .collect()
}
