//! The counters of each worker. Only the worker writes its counters. Any thread or process may read
//! them.
//!
//! They are in memory that forked processes share, so that one report covers all architectures. With
//! a single writer, an addition needs no locked instruction.

use perpacket_linux::memory::Counter;
use perpacket_linux::shareable;

use perpacket_http::status::Status;

shareable! {
    /// The counters of one worker, on cache lines of their own.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Connections accepted.
        pub accepted: Counter,
        /// Connections that ended.
        pub closed: Counter,
        /// Connections rejected because no descriptor was free or the limit was reached.
        pub shed: Counter,
        /// Connections closed by a time-out.
        pub timed_out: Counter,
        /// Requests answered.
        pub requests: Counter,
        /// Bytes of responses handed to the kernel.
        pub bytes_sent: Counter,
        /// Files found in the cache.
        pub cache_hits: Counter,
        /// Files not found in the cache.
        pub cache_misses: Counter,
        /// Prebuilt responses sent.
        pub prebuilt: Counter,
        /// Cached files compared with the file on disk.
        pub revalidated: Counter,
        /// Gauge: files in the cache.
        pub cache_entries: Counter,
        /// Gauge: bytes of files in the cache.
        pub cache_bytes: Counter,
        /// Jobs of helper threads.
        pub cold_reads: Counter,
        /// Process ID of the worker, if it runs in its own process.
        pub process: Counter,
        /// Number of the next POST record of SPECweb99. All workers use the counter of the first
        /// worker.
        pub post_records: Counter,
        /// CPU time of the process when it accepted its first connection, in nanoseconds.
        pub startup_cpu_ns: Counter,
        /// Page faults of the process when it accepted its first connection.
        pub startup_faults: Counter,
        /// Context switches of the process when it accepted its first connection.
        pub startup_switches: Counter,
        /// User time of processes that have ended, in nanoseconds.
        pub ended_user_ns: Counter,
        /// System time of processes that have ended, in nanoseconds.
        pub ended_system_ns: Counter,
        /// Responses by status, in the order of [`Status::ALL`].
        pub responses: [Counter; Status::ALL.len()],
    }
}
