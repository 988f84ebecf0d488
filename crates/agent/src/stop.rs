//! Signals that stop a verb. The first signal ends it cleanly, and a later one ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::status::Failure;

/// Signals within this time after the first signal are ignored. timeout(1) signals its command and
/// then the command's process group. For one Ctrl-C, a terminal and a supervisor may both send a
/// signal.
const REPEAT_INTERVAL: Duration = Duration::from_millis(500);

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A flag that becomes true at the first signal.
///
/// A signal half a second later or more ends the process with status 130.
pub fn on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let ends_at_once = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&ends_at_once))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::failed(format!("cannot handle signal {signal}: {error}")))?;
    }
    let mut signals = Signals::new(SIGNALS)
        .map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                thread::sleep(REPEAT_INTERVAL);
                ends_at_once.store(true, Ordering::Relaxed);
            }
        })
        .map_err(|error| {
            Failure::failed(format!("cannot start the thread for signals: {error}"))
        })?;
    Ok(stop)
}
