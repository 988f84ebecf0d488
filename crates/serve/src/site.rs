//! What all workers of a server share: settings, the root folder, counters, the POST log.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use crate::error::ServeError;
use crate::files::entry::{Entry, Refusal};
use crate::files::root::Root;
use crate::http::coding::Coding;
use crate::report::Reporter;
use crate::routes::post_log::PostLog;
use crate::settings::Settings;
use crate::sys::CounterTable;

/// The shared part of a server.
#[derive(Debug)]
pub struct Site {
    /// What was asked for.
    pub settings: Settings,
    /// The folder that is served.
    pub root: Option<Root>,
    /// The workers' counters, then the helpers'.
    pub counters: Arc<CounterTable>,
    /// Where POSTs are appended.
    pub post_log: Option<PostLog>,
    /// Sums the counters up.
    pub reporter: Reporter,
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
        counters: Arc<CounterTable>,
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
