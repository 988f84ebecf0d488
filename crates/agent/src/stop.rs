//! Ctrl-C and its kin: the first asks for a clean end, one that comes later ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::status::Failure;

/// Signals so soon after the first mean the same: timeout(1) signals its command and then the group
/// that the command is in, and a terminal and a supervisor may both tell of one Ctrl-C.
const SAME: Duration = Duration::from_millis(500);

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A flag that becomes true when the process is asked to stop.
///
/// A signal half a second later or more ends the process with status 130: nobody waits twice.
pub fn on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let is_insisted_on = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&is_insisted_on))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::failed(format!("cannot handle signal {signal}: {error}")))?;
    }
    let mut signals = Signals::new(SIGNALS)
        .map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                thread::sleep(SAME);
                is_insisted_on.store(true, Ordering::Relaxed);
            }
        })
        .map_err(|error| Failure::failed(format!("a thread for signals: {error}")))?;
    Ok(stop)
}
