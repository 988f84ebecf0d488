//! Measures a router and checks it against the rules.
//!
//! - [`model`] and [`oracle`] are pure. The model has the requirements of RFC 1812, and the oracle
//!   checks the frames that a router sends. [`probe`] sends cases to a real router and checks the
//!   results.
//! - [`generator`] sends frames from one CPU, through a packet socket or as live frames of
//!   `BPF_PROG_RUN`. [`receiver`] counts frames in a packet socket or in XDP.
//! - [`search`] finds the highest rate without loss (RFC 2544, section 26.1). [`trial`] offers one
//!   rate with a generator and a receiver.
//! - [`plane`] forwards frames in XDP instead of in the kernel's network stack. It uses the
//!   kernel's routes.
//!
//! [`bpf`] has the programs.

#![forbid(unsafe_code)]

pub mod bpf;
pub mod checksum;
mod error;
pub mod frame;
pub mod generator;
pub mod model;
pub mod oracle;
pub mod plane;
pub mod probe;
pub mod receiver;
pub mod search;
mod stream;
pub mod trial;

pub use error::RouterError;
pub use stream::Stream;
