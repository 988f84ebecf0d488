//! The state that all threads of a run share: spec, and the counters from which progress is
//! reported.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use perpacket_http::date::DATE_BYTES;

use super::application::Application;
use super::counts::Counts;
use super::request::RequestWriter;
use super::spec::Spec;
use super::tls::Connector;

/// The time of an event that has not happened yet.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct RunState {
    pub spec: Spec,
    pub address: SocketAddr,
    pub writer: RequestWriter,
    pub connector: Option<Connector>,
    /// The application that the clients walk through, if the workload is one.
    pub application: Option<Arc<Application>>,
    /// The start of the run. All times are nanoseconds since then.
    pub epoch: Instant,
    pub window_begin_ns: u64,
    pub window_end_ns: u64,
    /// The date in a conditional request for an object of which the client has no copy.
    pub today: [u8; DATE_BYTES],
    /// Set to stop the threads.
    pub stop: AtomicBool,
    /// One entry per thread.
    pub counters: Vec<Counters>,
}

impl RunState {
    /// Counts of zero, for each page of the application too.
    pub(crate) fn zero_counts(&self) -> Counts {
        let application = self.application.as_ref();
        Counts::new(application.map_or(0, |application| application.names().len()))
    }

    /// Nanoseconds since the start.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// The counters that a thread updates while it runs. The alignment avoids false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub requests: AtomicU64,
    pub errors: AtomicU64,
    pub refused: AtomicU64,
    pub response_sum_ns: AtomicU64,
    pub lag_max_ns: AtomicU64,
    /// Time of the last response.
    pub answered_ns: AtomicU64,
    pub done: AtomicBool,
}

impl Counters {
    /// Sets a counter. Only one thread writes it.
    #[inline]
    pub(crate) fn set(counter: &AtomicU64, value: u64) {
        counter.store(value, Ordering::Relaxed);
    }
}
