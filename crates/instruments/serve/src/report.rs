//! The report: counts and costs, summed over the workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::counters::Counters;
use crate::spec::{Architecture, Spec};
use perpacket_http::status::Status;
use perpacket_linux::memory::{Counter, SharedTable};
use perpacket_linux::usage::Usage;

/// Version of the report's form.
const SCHEMA: u32 = 2;

/// Counts and costs since the server was bound. They exclude requests for the report itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// How the server waits for its connections.
    pub architecture: Architecture,
    /// CPUs of the workers; empty if they are not pinned.
    pub cores: Vec<usize>,
    /// Seconds since it was bound.
    pub uptime_s: f64,
    pub connections: ConnectionReport,
    /// Requests answered, rejected ones included.
    pub requests: u64,
    /// Bytes of responses handed to the kernel, heads included.
    pub bytes_sent: u64,
    /// Responses by status.
    pub responses: BTreeMap<u16, u64>,
    /// CPU time of all threads and processes, in seconds.
    pub cpu_s: CpuReport,
    /// CPU time and counts that each process used before its first connection.
    pub startup: StartupReport,
    /// Means per request, start-up excluded; absent before the first request.
    pub per_request: Option<PerRequest>,
    pub page_faults: Faults,
    pub context_switches: Switches,
    /// The cache of files.
    pub cache: CacheReport,
    /// The helper threads.
    pub helpers: HelperReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionReport {
    /// Accepted so far.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Rejected because no descriptor was free or the limit was reached.
    pub shed: u64,
    /// Closed by a time-out.
    pub timed_out: u64,
}

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuReport {
    /// In user mode.
    pub user: f64,
    /// In the kernel, on behalf of the server.
    pub system: f64,
}

/// Resources that the processes used before their first connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StartupReport {
    /// CPU time, user and kernel, in seconds.
    pub cpu_s: f64,
    /// Page faults, both kinds.
    pub page_faults: u64,
    /// Context switches, both kinds.
    pub context_switches: u64,
}

/// Means per request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerRequest {
    /// CPU time, user and kernel, in microseconds.
    pub cpu_us: f64,
    /// Bytes sent.
    pub bytes: f64,
    /// Page faults, both kinds.
    pub page_faults: f64,
    /// Context switches, both kinds.
    pub context_switches: f64,
    /// Files found in the cache.
    pub cache_hits: f64,
}

/// Page faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Faults that were resolved without the disk.
    pub minor: u64,
    /// Faults that read from the disk.
    pub major: u64,
}

/// Context switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// Because the server waited.
    pub voluntary: u64,
    /// Because the scheduler ran another thread.
    pub involuntary: u64,
}

/// The cache of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheReport {
    /// Files found.
    pub hits: u64,
    /// Files not found.
    pub misses: u64,
    /// Prebuilt responses sent. Each is in one piece and is built once a second.
    pub prebuilt: u64,
    /// Comparisons with the file on disk.
    pub revalidated: u64,
    /// Current number of files, over all workers.
    pub entries: u64,
    /// Current number of bytes, over all workers.
    pub bytes: u64,
}

/// The helper threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HelperReport {
    /// Jobs: files, parts of files and programs.
    pub cold_reads: u64,
}

/// Makes reports while the server runs, from any thread.
#[derive(Clone, Debug)]
pub struct Reporter {
    architecture: Architecture,
    cores: Vec<usize>,
    counters: Arc<SharedTable<Counters>>,
    started: Instant,
    parent: u32,
}

impl Reporter {
    pub(crate) fn new(spec: &Spec, counters: Arc<SharedTable<Counters>>, started: Instant) -> Self {
        Self {
            architecture: spec.architecture,
            cores: spec.cores().to_vec(),
            counters,
            started,
            parent: std::process::id(),
        }
    }

    /// The current report.
    pub fn report(&self) -> Report {
        let sum = |of: fn(&Counters) -> &Counter| {
            let sum = self
                .counters
                .iter()
                .fold(0u64, |sum, worker| sum.wrapping_add(of(worker).get()));
            // Another CPU may see a decrement of a gauge before its increment, so the sum may be
            // negative.
            (sum as i64).max(0) as u64
        };
        let (usage, startup) = self.usage();
        let requests = sum(|worker| &worker.requests);
        let bytes_sent = sum(|worker| &worker.bytes_sent);
        let accepted = sum(|worker| &worker.accepted);
        let hits = sum(|worker| &worker.cache_hits);
        let serving = |all: u64, startup: u64| all.saturating_sub(startup);
        let cpu_ns = serving(usage.cpu_ns(), startup.cpu_ns);
        let faults = serving(usage.faults(), startup.faults);
        let switches = serving(usage.switches(), startup.switches);
        let share = |count: u64| count as f64 / requests as f64;
        Report {
            schema: SCHEMA,
            architecture: self.architecture,
            cores: self.cores.clone(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            connections: ConnectionReport {
                accepted,
                open: accepted.saturating_sub(sum(|worker| &worker.closed)),
                shed: sum(|worker| &worker.shed),
                timed_out: sum(|worker| &worker.timed_out),
            },
            requests,
            bytes_sent,
            responses: self.responses(),
            cpu_s: CpuReport {
                user: usage.user_ns as f64 / 1e9,
                system: usage.system_ns as f64 / 1e9,
            },
            startup: StartupReport {
                cpu_s: startup.cpu_ns as f64 / 1e9,
                page_faults: startup.faults,
                context_switches: startup.switches,
            },
            per_request: (requests > 0).then(|| PerRequest {
                cpu_us: share(cpu_ns) / 1000.0,
                bytes: share(bytes_sent),
                page_faults: share(faults),
                context_switches: share(switches),
                cache_hits: share(hits),
            }),
            page_faults: Faults {
                minor: usage.minor_faults,
                major: usage.major_faults,
            },
            context_switches: Switches {
                voluntary: usage.voluntary_switches,
                involuntary: usage.involuntary_switches,
            },
            cache: CacheReport {
                hits,
                misses: sum(|worker| &worker.cache_misses),
                prebuilt: sum(|worker| &worker.prebuilt),
                revalidated: sum(|worker| &worker.revalidated),
                entries: sum(|worker| &worker.cache_entries),
                bytes: sum(|worker| &worker.cache_bytes),
            },
            helpers: HelperReport {
                cold_reads: sum(|worker| &worker.cold_reads),
            },
        }
    }

    fn responses(&self) -> BTreeMap<u16, u64> {
        let count = |status: Status| -> u64 {
            self.counters
                .iter()
                .map(|worker| worker.responses[status as usize].get())
                .sum()
        };
        Status::ALL
            .iter()
            .map(|&status| (status.code(), count(status)))
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    /// Resources that the server's processes have used, in total and before their first
    /// connections.
    fn usage(&self) -> (Usage, Startup) {
        let mut startup = Startup::default();
        for worker in self.counters.iter() {
            startup.cpu_ns += worker.startup_cpu_ns.get();
            startup.faults += worker.startup_faults.get();
            startup.switches += worker.startup_switches.get();
        }
        if self.architecture != Architecture::Processes {
            return (Usage::of_process(), startup);
        }
        // The usage of the parent, and of children without connections, is all start-up.
        let (mut usage, mut others) = (Usage::default(), Usage::default());
        usage.add_process(self.parent);
        others.add_process(self.parent);
        for worker in self.counters.iter() {
            let process = worker.process.get() as u32;
            if process > 0 {
                usage.add_process(process);
            }
            if process > 0 && worker.accepted.get() == 0 {
                others.add_process(process);
            }
            usage.user_ns += worker.ended_user_ns.get();
            usage.system_ns += worker.ended_system_ns.get();
        }
        startup.cpu_ns += others.cpu_ns();
        startup.faults += others.faults();
        startup.switches += others.switches();
        (usage, startup)
    }
}

/// Resources used before the first connections.
#[derive(Clone, Copy, Debug, Default)]
struct Startup {
    cpu_ns: u64,
    faults: u64,
    switches: u64,
}
