//! A simulated memory hierarchy: set-associative caches in front of DRAM.
//!
//! The simulator accesses the cache lines of a network stack in a [`Hierarchy`], with one
//! [`access`](Hierarchy::access) for each line. The result is the level that answered and the stall
//! of the processor. This crate depends on no other crate of perpacket, reads no clock and draws no
//! random number. The caller passes the time, so equal calls return equal results.
//!
//! # What is modelled
//!
//! - One to three levels of caches. Size, ways and latency of each may have any value for which the
//!   number of sets is a power of two. Replacement within a set is least-recently-used.
//! - Levels that are inclusive, exclusive or independent ([`Policy`]).
//! - Next-line prefetch: a demand access that DRAM answers also loads the next line into the last
//!   level, unless that line lies in another 4 KiB page. The next line can be used at the same time
//!   as the demanded line.
//! - An instruction cache beside the first level ([`Hierarchy::fetch_all`]), if the levels are
//!   exclusive or independent.
//! - Software [`prefetch`](Hierarchy::prefetch) with a lead time: an access before the line has
//!   arrived waits until it arrives.
//! - [`invalidate`](Hierarchy::invalidate), for a device that writes to memory.
//! - [`Split`]: separate instruction and data caches in front of several second levels, simulated
//!   in one pass and without times. [`TranslationBuffer`]s. A [`Filter`] that drops accesses that
//!   cannot change a cache.
//! - [`Coherent`]: such caches for each of several processors, kept coherent (MESI or MOESI), without
//!   times.
//! - DRAM latency and, as an option, a single channel that each line occupies for some time.
//!
//! # What is not modelled
//!
//! | left out | what is assumed instead |
//! |---|---|
//! | address translation | no access of a [`Hierarchy`] misses a TLB |
//! | instruction fetch | free in a [`Hierarchy`] without an instruction cache |
//! | banks, ports, DRAM rows | every access to a level takes the same time |
//! | writes | allocate like reads; writing back a dirty line needs no time and no channel |
//! | limits on misses in flight | any number of prefetches may be under way |
//! | out-of-order execution | a demand access stalls for its whole latency |
//! | other cores, coherence | one core, except in [`Coherent`]; devices are seen through `invalidate` alone |
//! | a device's own memory traffic | uses no DRAM channel time |
//!
//! # Where the time goes
//!
//! A third to a half of the accesses of a network stack miss the first level, and half of these
//! also miss the second. So a branch on a first-level hit would often be mispredicted. Instead, one
//! comparison without a branch covers both ways of a set with two ways. A set of the first level is
//! an array of 32-bit line numbers, the most recently used first, so lines need no time stamps. In
//! a set of 16 ways below the first level, lines do not move, and one word stores the order of the
//! ways. A caller that knows several lines in advance passes them to [`Hierarchy::access_all`],
//! which runs the most usual hierarchy in one loop. `benches/access.rs` has the figures.

#![forbid(unsafe_code)]

mod cache;
mod coherent;
mod counters;
mod directory;
mod dram;
mod filter;
mod hierarchy;
mod in_flight;
mod level;
mod line;
mod ordered;
mod paged;
mod parameters;
mod private;
mod recency;
mod recent;
mod split;
mod touch;
mod translation;
mod two_levels;

pub use coherent::{
    Coherent, CoherentParameters, MAX_PRIVATE_SIZES, MAX_PROCESSORS, Protocol, SharedLevel,
};
pub use counters::Counters;
pub use filter::Filter;
pub use hierarchy::{Access, Hierarchy, Tally};
pub use line::Line;
pub use parameters::{
    CacheParameters, DramParameters, HierarchyParameters, MAX_LEVELS, ParameterError, Policy,
};
pub use split::{CacheSize, MAX_SECOND_LEVELS, Missed, Side, Split, SplitParameters};
pub use touch::{Action, Cause, Effects, PrivateMiss, Resolved, Source, Touch, words};
pub use translation::{TranslationBuffer, TranslationParameters};
