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
use std::time::Duration;

use perpacket_load::http::{Report, Settings, run};
use server::Server;

/// Runs a load to its end.
pub fn load(settings: Settings) -> Report {
    run(settings, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

/// Settings of half a second of load with one thread on a server's file.
pub fn settings(server: &Server, connections: u32) -> Settings {
    Settings {
        threads: Some(1),
        duration: Some(Duration::from_millis(500)),
        timeout: Duration::from_secs(600),
        ..Settings::new(&server.url("/file"), connections)
    }
}
