//! Ctrl-C and its kin: the first asks for a clean end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::status::Failure;

/// A flag that becomes true when the process is asked to stop.
///
/// A second signal ends the process with status 130: nobody waits twice.
pub fn on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::failed(format!("cannot handle signal {signal}: {error}")))?;
    }
    Ok(stop)
}
