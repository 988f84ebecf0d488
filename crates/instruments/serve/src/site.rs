//! The state that all workers of a server share: spec, root folder, counters, POST log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

use crate::counters::Counters;
use crate::error::ServeError;
use crate::files::entry::{Entry, FileError};
use crate::report::Reporter;
use crate::routes::post_log::PostLog;
use crate::spec::{CgiProgram, Spec};
use perpacket_http::coding::Coding;
use perpacket_linux::memory::SharedTable;
use perpacket_linux::root_folder::RootFolder;
use perpacket_linux::usage::Usage;

/// The shared state.
#[derive(Debug)]
pub struct Site {
    /// The options.
    pub spec: Spec,
    /// The program for SPECweb99's CGI requests.
    pub cgi: Option<CgiProgram>,
    pub root: Option<RootFolder>,
    /// The workers' counters, then the helpers'.
    pub counters: Arc<SharedTable<Counters>>,
    pub post_log: Option<PostLog>,
    /// Makes reports.
    pub reporter: Reporter,
    /// Whether this process has accepted a connection.
    has_begun: AtomicBool,
    /// Connections that this process may still accept.
    available_connections: AtomicI64,
}

impl Site {
    /// Opens the root and the log.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn new(
        spec: Spec,
        cgi: Option<CgiProgram>,
        counters: Arc<SharedTable<Counters>>,
        connection_limit: usize,
    ) -> Result<Self, ServeError> {
        let root = match &spec.root {
            Some(path) => Some(RootFolder::open(path).map_err(|source| ServeError::Root {
                path: path.clone(),
                source,
            })?),
            None => None,
        };
        let post_log = match &spec.post_log {
            Some(path) => {
                let (log, records) = PostLog::open(path)?;
                counters[0].post_records.set(records);
                Some(log)
            }
            None => None,
        };
        let reporter = Reporter::new(&spec, Arc::clone(&counters), Instant::now());
        Ok(Self {
            spec,
            cgi,
            root,
            counters,
            post_log,
            reporter,
            has_begun: AtomicBool::new(false),
            available_connections: AtomicI64::new(
                i64::try_from(connection_limit).unwrap_or(i64::MAX),
            ),
        })
    }

    /// Reads a file with a normalized path.
    ///
    /// # Errors
    /// The file cannot be served.
    pub fn load(&self, path: &[u8], coding: Coding) -> Result<Arc<Entry>, FileError> {
        let root = self.root.as_ref().ok_or(FileError::Missing)?;
        // The cache would reject a larger file, and each request would then read it again.
        let sendfile_above = self.spec.sendfile_above.map_or(0, |size| size.0);
        let limit_bytes = sendfile_above.min(self.spec.cache_bytes() / 2);
        Entry::load(root, path, coding, limit_bytes).map(Arc::new)
    }

    /// Counts an accepted connection. At the first one, stores what the process has used for start-up.
    pub fn count_connection(&self, counters: &Counters) {
        if !self.has_begun.load(Ordering::Relaxed) && !self.has_begun.swap(true, Ordering::Relaxed)
        {
            let usage = Usage::of_process();
            // The slot may contain counts of an earlier process.
            counters.startup_cpu_ns.add(usage.cpu_ns());
            counters.startup_faults.add(usage.faults());
            counters.startup_switches.add(usage.switches());
        }
        counters.accepted.add(1);
    }

    /// Reserves a connection; `false` if the limit is reached.
    pub fn reserve_connection(&self) -> bool {
        if self.available_connections.fetch_sub(1, Ordering::Relaxed) > 0 {
            return true;
        }
        self.release_connection();
        false
    }

    pub fn release_connection(&self) {
        self.available_connections.fetch_add(1, Ordering::Relaxed);
    }
}
