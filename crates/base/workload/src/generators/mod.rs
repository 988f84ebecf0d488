//! Generators of sessions, from published distributions and a seed. Depends on `sessions` and
//! `trace`.
//!
//! `lognormal` (World Cup 1998, IBM), `specweb99`, `surge` and `webstone` are the workloads;
//! `catalogue`, `normal` and `random` have the arithmetic that they share. `source` is one type for
//! all sources of sessions, and `synthesize` writes sessions as a trace.

mod catalogue;
pub(crate) mod lognormal;
mod normal;
pub(crate) mod parameter;
pub(crate) mod random;
pub(crate) mod source;
pub mod specweb99;
pub mod surge;
pub(crate) mod synthesize;
pub mod webstone;
