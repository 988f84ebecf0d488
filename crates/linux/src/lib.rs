//! The Linux kernel's interfaces that no crate wraps safely, and what every crate that measures a
//! machine asks of it. All unsafe code of the workspace is here; other crates forbid it.
//!
//! A function whose safety depends on its caller is an `unsafe fn` with the contract in its
//! documentation. The others are safe for every argument.
//!
//! | module | wraps |
//! |---|---|
//! | [`affinity`] | binding threads to CPUs |
//! | [`bpf`] | XDP programs and the numbers that they share |
//! | [`clock`] | clocks in nanoseconds |
//! | [`cpus`] | CPU lists, such as `0-3,8` |
//! | [`descriptors`] | the limit of open files |
//! | [`interface`] | network interfaces and TAP devices |
//! | [`mapped_file`] | files that only the kernel reads |
//! | [`memory`] | anonymous memory, private or shared with forked processes |
//! | [`namespace`] | network namespaces |
//! | [`packet`] | packet sockets and batches of frames |
//! | [`page_cache`] | what part of a file is in memory |
//! | [`perf`] | perf events and their ring of samples |
//! | [`process`] | fork |
//! | [`scheduling`] | real-time priority |
//! | [`tcp`] | the state of a TCP connection |
//! | [`udp`] | UDP with segmentation and receive offload, and mapped files as its source |
//! | [`uring`] | io_uring |
//! | [`usage`] | CPU time, page faults and context switches |
//! | [`user`] | dropping root |

pub mod affinity;
pub mod bpf;
pub mod clock;
pub mod cpus;
pub mod descriptors;
pub mod interface;
pub mod mapped_file;
pub mod memory;
pub mod namespace;
pub mod packet;
pub mod page_cache;
pub mod perf;
pub mod process;
pub mod scheduling;
pub mod tcp;
pub mod udp;
pub mod uring;
pub mod usage;
pub mod user;

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The result of a system call, or the error that it left.
fn check(result: c_int) -> io::Result<c_int> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Sets a socket option whose value is an int.
fn set_option(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the value outlives the call, and its size is passed.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}
