//! Interfaces of the Linux kernel that no crate wraps safely, or that several crates of the
//! workspace use. All other crates forbid unsafe code, except QEMU's plugin.
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
//! | [`emulator`] | calls to the plugin of an emulator, from inside its machine |
//! | [`epoll`] | epoll, with waits in nanoseconds |
//! | [`ethtool`] | the counters of network drivers |
//! | [`interface`] | network interfaces and TAP devices |
//! | [`mailbox`] | a queue with a descriptor that wakes its receiver |
//! | [`mapped_file`] | files that only the kernel reads |
//! | [`memory`] | anonymous memory, private or shared with forked processes |
//! | [`namespace`] | network namespaces |
//! | [`packet`] | packet sockets and batches of frames |
//! | [`page_cache`] | the part of a file that is in memory |
//! | [`perf`] | perf events and their ring of samples |
//! | [`process`] | fork |
//! | [`root_folder`] | files beneath a folder |
//! | [`scheduling`] | real-time priority |
//! | [`tcp`] | the state of a TCP connection |
//! | [`text`] | texts of the kernel, whose names are any bytes |
//! | [`udp`] | UDP with segmentation and receive offload, and mapped files as its source |
//! | [`uring`] | io_uring |
//! | [`usage`] | CPU time, page faults and context switches |
//! | [`user`] | dropping root |

pub mod affinity;
pub mod bpf;
pub mod clock;
pub mod cpus;
pub mod descriptors;
pub mod emulator;
pub mod epoll;
pub mod ethtool;
pub mod interface;
pub mod mailbox;
pub mod mapped_file;
pub mod memory;
pub mod namespace;
pub mod packet;
pub mod page_cache;
pub mod perf;
pub mod process;
pub mod root_folder;
pub mod scheduling;
pub mod tcp;
pub mod text;
pub mod udp;
pub mod uring;
pub mod usage;
pub mod user;

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// The result of a system call, or the error in `errno`.
fn check(result: c_int) -> io::Result<c_int> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Reads a socket option. Returns the value and the number of bytes that the kernel wrote. The
/// other bytes are zero.
///
/// # Safety
/// Any bytes are a valid `T`.
unsafe fn option<T>(socket: impl AsFd, level: c_int, name: c_int) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to a value of that size.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    })?;
    // SAFETY: any bytes are a valid `T`, by the contract.
    Ok((unsafe { value.assume_init() }, bytes as usize))
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
