//! What each worker counts. A worker alone writes its counters and anyone may read them.
//!
//! They lie in memory that is shared with forked processes, so that one report can cover all
//! architectures. With a single writer an addition needs no locked instruction.

use perpacket_linux::memory::Counter;
use perpacket_linux::shareable;

use perpacket_http::status::Status;

shareable! {
    /// The counters of one worker, apart from others' by two cache lines (processors fetch pairs).
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Connections taken.
        pub accepted: Counter,
        /// Connections that ended.
        pub closed: Counter,
        /// Connections turned away for want of descriptors or room.
        pub shed: Counter,
        /// Connections closed for taking too long.
        pub timed_out: Counter,
        /// Requests answered.
        pub requests: Counter,
        /// Bytes of responses handed to the kernel.
        pub bytes_sent: Counter,
        /// System calls of the request path.
        pub system_calls: Counter,
        /// Files found in the cache.
        pub cache_hits: Counter,
        /// Files not found there.
        pub cache_misses: Counter,
        /// Prebuilt responses sent.
        pub prebuilt: Counter,
        /// Files whose state on disk was compared with the cache's.
        pub revalidated: Counter,
        /// Gauge: files in the cache.
        pub cache_entries: Counter,
        /// Gauge: bytes of files in the cache.
        pub cache_bytes: Counter,
        /// Files and parts of files read by helper threads.
        pub cold_reads: Counter,
        /// The worker's process, where it has one of its own.
        pub process: Counter,
        /// Numbers of SPECweb99's POST records; all workers draw from the first worker's.
        pub post_records: Counter,
        /// What this worker's process, or all threads' one, had used when its first client came: CPU time
        /// in nanoseconds, page faults, context switches.
        pub startup_cpu_ns: Counter,
        /// See above.
        pub startup_faults: Counter,
        /// See above.
        pub startup_switches: Counter,
        /// CPU time of this worker's processes that ended, in nanoseconds: user and system.
        pub ended_user_ns: Counter,
        /// See above.
        pub ended_system_ns: Counter,
        /// Responses by the place of their status.
        pub responses: [Counter; Status::ALL.len()],
    }
}
