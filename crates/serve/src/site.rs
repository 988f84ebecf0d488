//! What all workers of a server share: settings, the root folder, counters, the POST log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

use crate::counters::Counters;
use crate::error::ServeError;
use crate::files::entry::{Entry, Refusal};
use crate::files::root::Root;
use crate::report::Reporter;
use crate::routes::post_log::PostLog;
use crate::settings::Settings;
use perpacket_http::coding::Coding;
use perpacket_linux::memory::SharedTable;
use perpacket_linux::usage::Usage;

/// The shared part of a server.
#[derive(Debug)]
pub struct Site {
    /// What was asked for.
    pub settings: Settings,
    /// The folder that is served.
    pub root: Option<Root>,
    /// The workers' counters, then the helpers'.
    pub counters: Arc<SharedTable<Counters>>,
    /// Where POSTs are appended.
    pub post_log: Option<PostLog>,
    /// Sums the counters up.
    pub reporter: Reporter,
    /// This process has had a client.
    has_begun: AtomicBool,
    /// Connections that may still be taken by this process.
    room: AtomicI64,
}

impl Site {
    /// Opens the root and the log.
    ///
    /// # Errors
    /// What cannot be opened.
    pub fn new(
        settings: Settings,
        counters: Arc<SharedTable<Counters>>,
        room: usize,
    ) -> Result<Self, ServeError> {
        let root = match &settings.root {
            Some(path) => Some(Root::open(path).map_err(|source| ServeError::Root {
                path: path.clone(),
                source,
            })?),
            None => None,
        };
        let post_log = match &settings.post_log {
            Some(path) => {
                let (log, records) = PostLog::open(path)?;
                counters[0].post_records.set(records);
                Some(log)
            }
            None => None,
        };
        let reporter = Reporter::new(&settings, Arc::clone(&counters), Instant::now());
        Ok(Self {
            settings,
            root,
            counters,
            post_log,
            reporter,
            has_begun: AtomicBool::new(false),
            room: AtomicI64::new(i64::try_from(room).unwrap_or(i64::MAX)),
        })
    }

    /// Reads a file; `path` is normal.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn load(&self, path: &[u8], coding: Coding) -> Result<Arc<Entry>, Refusal> {
        let root = self.root.as_ref().ok_or(Refusal::Missing)?;
        // A file that does not fit into the cache would be read again for each request.
        let limit_bytes = self
            .settings
            .sendfile_above
            .min(self.settings.cache_bytes / 2);
        Entry::load(root, path, coding, limit_bytes).map(Arc::new)
    }

    /// Counts a client that a worker took. What its process had used when the first one came is kept
    /// apart: it is no client's.
    pub fn welcome(&self, counters: &Counters) {
        if !self.has_begun.load(Ordering::Relaxed) && !self.has_begun.swap(true, Ordering::Relaxed)
        {
            let usage = Usage::of_process();
            // Another process of the same worker may have been here before.
            counters.startup_cpu_ns.add(usage.cpu_ns());
            counters.startup_faults.add(usage.faults());
            counters.startup_switches.add(usage.switches());
        }
        counters.accepted.add(1);
    }

    /// Takes a place for a connection; `false` if there is none.
    pub fn enter(&self) -> bool {
        if self.room.fetch_sub(1, Ordering::Relaxed) > 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Gives a connection's place back.
    pub fn leave(&self) {
        self.room.fetch_add(1, Ordering::Relaxed);
    }
}
