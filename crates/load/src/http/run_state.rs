//! What all threads of a run share: read-only but for a flag and a few counters.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::request::RequestWriter;
use super::settings::Settings;
use super::tls::Connector;

/// The time of an event that has not happened.
pub(crate) const NEVER: u64 = u64::MAX;

/// A run.
#[derive(Debug)]
pub(crate) struct RunState {
    pub settings: Settings,
    pub address: SocketAddr,
    pub writer: RequestWriter,
    pub connector: Option<Connector>,
    /// All times are nanoseconds from here.
    pub epoch: Instant,
    pub window_begin_ns: u64,
    pub window_end_ns: u64,
    /// Today, as a client's copy of unknown age would be dated.
    pub today: [u8; super::response::DATE_BYTES],
    /// The run is to end.
    pub stop: AtomicBool,
    /// One a thread.
    pub counters: Vec<Counters>,
}

impl RunState {
    /// Nanoseconds since the run's start.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// What a thread tells while it runs, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub requests: AtomicU64,
    pub faults: AtomicU64,
    pub refused: AtomicU64,
    pub response_sum_ns: AtomicU64,
    pub lag_max_ns: AtomicU64,
    /// When a response came last.
    pub answered_ns: AtomicU64,
    pub done: AtomicBool,
}

impl Counters {
    /// Sets a counter that one thread alone writes.
    #[inline]
    pub(crate) fn set(counter: &AtomicU64, value: u64) {
        counter.store(value, Ordering::Relaxed);
    }
}
