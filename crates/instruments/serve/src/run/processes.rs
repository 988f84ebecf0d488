//! Preforked processes with one connection at a time each.
//!
//! They share the listener, and each has its own cache, as in Apache 1.3. A child has only the
//! thread that forked, so it must use no lock that another thread of the parent may have locked
//! before the fork. A child that dies is replaced.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use perpacket_linux::process::fork;
use perpacket_linux::usage::Usage;
use rustix::process::{
    Pid, Signal, WaitOptions, getppid, kill_process, set_parent_process_death_signal, waitpid,
};

use super::{Server, blocking, pinning, wait};
use crate::error::ServeError;

/// Number of processes that may die before a run ends with an error.
const DEATHS: usize = 100;

/// Forks the processes, and replaces those that die, until `stop`.
pub fn run(server: &Server, stop: &AtomicBool) -> Result<(), ServeError> {
    blocking::prepare(&server.listeners[0])?;
    let mut children = Vec::new();
    let mut deaths = 0;
    let mut result = Ok(());
    for slot in 0..server.workers {
        match start(server, slot, stop) {
            Ok(child) => children.push(child),
            Err(error) => {
                result = Err(ServeError::system("forking")(error));
                break;
            }
        }
    }
    while result.is_ok() && !stop.load(Ordering::Relaxed) {
        wait();
        for (slot, child) in children.iter_mut().enumerate() {
            if !has_ended(*child) {
                continue;
            }
            store_usage_of_ended(server, slot);
            deaths += 1;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let again = if deaths > DEATHS {
                Err(io::Error::other("processes keep dying: please report this"))
            } else {
                start(server, slot, stop)
            };
            match again {
                Ok(new) => *child = new,
                Err(error) => result = Err(ServeError::system("forking")(error)),
            }
        }
    }
    for &child in &children {
        // The child may have ended already.
        let _ = kill_process(child, Signal::TERM);
    }
    for (slot, &child) in children.iter().enumerate() {
        let _ = waitpid(Some(child), WaitOptions::empty());
        store_usage_of_ended(server, slot);
    }
    result
}

/// Forks one process, which serves and exits.
fn start(server: &Server, slot: usize, stop: &AtomicBool) -> io::Result<Pid> {
    let parent = rustix::process::getpid();
    let child = fork(|| serve(server, slot, stop, parent).map_or(1, |()| 0))?;
    let number = child.as_raw_nonzero().get();
    server.site.counters[slot].process.set(number as u64);
    Ok(child)
}

/// Serves in a child process.
fn serve(server: &Server, slot: usize, stop: &AtomicBool, parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have died before this child asked the kernel for a signal at the parent's
    // death.
    if getppid() != Some(parent) {
        return Ok(());
    }
    pinning::pin(pinning::core_of(server.site.spec.cores(), slot))?;
    let worker = server.worker(slot, server.own_cache(), false);
    let listener: &OwnedFd = &server.listeners[0];
    let tls: Option<&Arc<rustls::ServerConfig>> = server.tls.as_ref();
    blocking::run(worker, listener, tls, stop)
}

fn has_ended(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

/// Stores the CPU time of a process that has ended and is no longer in procfs.
fn store_usage_of_ended(server: &Server, slot: usize) {
    let usage = Usage::of_ended_children();
    server.site.counters[slot].process.set(0);
    // The first worker's counters have the sum over all ended processes.
    let first = &server.site.counters[0];
    first.ended_user_ns.set(usage.user_ns);
    first.ended_system_ns.set(usage.system_ns);
}
