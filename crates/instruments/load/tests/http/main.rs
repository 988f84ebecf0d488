//! Measurements and errors of `load http`, against a small server.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

mod application;
mod arrivals;
mod failures;
mod logs;
mod responses;
mod server;
mod workloads;

use std::sync::atomic::AtomicBool;

use perpacket_load::http::{Report, Spec, run};
use perpacket_spec::parse;

/// Runs a load to its end.
pub fn load(spec: Spec) -> Report {
    run(spec, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

/// The load of a command line, with one thread and without a time limit of requests.
pub fn spec(url: &str, options: &str) -> Spec {
    parse(&format!("{url} --threads 1 --timeout 600s {options}")).unwrap()
}

impl server::Server {
    /// Runs a load on a path of the server to its end.
    pub fn load(&self, path: &str, options: &str) -> Report {
        load(spec(&self.url(path), options))
    }
}
