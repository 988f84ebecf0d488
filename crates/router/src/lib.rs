//! Measuring a router and holding it to the rules: a generator, a receiver, an oracle, a search.
//!
//! - [`model`] and [`oracle`] are pure: what RFC 1812 wants of a router, and whether frames that
//!   came out of one are what must come. [`probe`] puts cases to a real router and has them judged.
//! - [`generator`] makes frames on one core, through a packet socket or as live frames of
//!   `BPF_PROG_RUN`; [`receiver`] counts what arrives, in a packet socket or in XDP.
//! - [`search`] finds the highest rate without loss as RFC 2544, section 26.1 wants it; [`trial`]
//!   is one try at a rate over a generator and a receiver.
//! - [`plane`] forwards in XDP by the kernel's own routes, in the place of the kernel.
//!
//! [`bpf`] has an assembler of its own for the few programs; no compiler is needed and nothing is
//! loaded that is not written here.

#![forbid(unsafe_code)]

pub mod bpf;
pub mod checksum;
mod error;
pub mod frame;
pub mod generator;
pub mod model;
pub mod oracle;
pub mod place;
pub mod plane;
pub mod probe;
pub mod receiver;
pub mod search;
mod stream;
pub mod trial;

pub use error::RouterError;
pub use stream::Stream;
