//! Loads, attaches and runs programs of XDP and of traffic control, and shares numbers with them.
//!
//! The system call is used directly (linux/bpf.h), so that nothing has to be installed. When a
//! [`Program`] is dropped, the kernel removes the program. When a [`Link`] is dropped, the kernel
//! detaches its program. Both also happen when the process is killed.

mod assembler;

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub use assembler::{Assembler, Condition, MAX_CLOCK_READINGS, Register, TIME_NS, Width};

/// Commands of the `bpf` system call (linux/bpf.h, `bpf_cmd`).
mod command {
    pub const MAP_CREATE: i32 = 0;
    pub const MAP_LOOKUP: i32 = 1;
    pub const MAP_UPDATE: i32 = 2;
    pub const PROGRAM_LOAD: i32 = 5;
    pub const PROGRAM_RUN: i32 = 10;
    pub const LINK_CREATE: i32 = 28;
}

/// A map that is an array (`BPF_MAP_TYPE_ARRAY`).
const ARRAY: u32 = 2;

/// The hook at which a program runs, by its number in linux/bpf.h, `bpf_prog_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// In traffic control (`BPF_PROG_TYPE_SCHED_CLS`).
    TrafficControl = 3,
    /// Before the stack sees a frame (`BPF_PROG_TYPE_XDP`).
    Xdp = 6,
}

/// The attachment type of XDP programs (`BPF_XDP`).
const ATTACH_XDP: u32 = 37;

/// The direction of a program in traffic control, by its number in linux/bpf.h, `bpf_attach_type`.
/// The kernel attaches such programs without a queueing discipline since Linux 6.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Received packets (`BPF_TCX_INGRESS`).
    Ingress = 46,
    /// Packets to send (`BPF_TCX_EGRESS`).
    Egress = 47,
}

/// Attach in the driver first, or else in the generic receive path (linux/if_link.h).
const MODES: [(u32, Mode); 2] = [(1 << 2, Mode::Driver), (1 << 1, Mode::Generic)];

/// The program runs on real frames, and its verdicts are carried out
/// (`BPF_F_TEST_XDP_LIVE_FRAMES`).
const LIVE_FRAMES: u32 = 1 << 1;

/// Bytes for the verifier's log.
const LOG_BYTES: usize = 64 << 10;

/// The place in the kernel where an attached program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the driver, before the kernel has built a packet.
    Driver,
    /// In the generic receive path. It works with any device and is slower.
    Generic,
}

/// The licence that a program declares. All programs of this workspace are under MIT, which permits
/// use under the GPL. The kernel reserves some helper functions for programs that declare GPL too
/// (linux/license.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum License {
    Mit,
    /// MIT and GPL. The route look-up requires this.
    MitOrGpl,
}

impl License {
    const fn name(self) -> &'static std::ffi::CStr {
        match self {
            Self::Mit => c"MIT",
            Self::MitOrGpl => c"Dual MIT/GPL",
        }
    }
}

/// A program in the kernel.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

/// A program attached to an interface. Dropping it detaches the program.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
    /// Where the program runs.
    pub mode: Mode,
}

/// A program attached in traffic control. Dropping it detaches the program.
#[derive(Debug)]
pub struct TrafficLink {
    _fd: OwnedFd,
}

/// Number of values that a program shares.
const SHARED: usize = 3;

/// Numbers that a program shares with this process. They are a map of one element.
#[derive(Debug)]
pub struct Numbers {
    fd: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct ProgramRun {
    program_fd: u32,
    result: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program_fd: u32,
    target_index: u32,
    attach_type: u32,
    flags: u32,
}

/// The error of a BPF program or map that the kernel refuses.
#[derive(Debug, thiserror::Error)]
#[error("BPF: cannot {action}: {source}{}{log}", if .log.is_empty() { "" } else { "\n" })]
pub struct BpfError {
    /// The action that failed.
    pub action: &'static str,
    /// The kernel's error.
    pub source: io::Error,
    /// The verifier's log.
    pub log: String,
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> BpfError {
    move |source| BpfError {
        action,
        source,
        log: String::new(),
    }
}

/// The `bpf` system call (`union bpf_attr`).
///
/// # Safety
/// `A` has the layout that the command expects. Every address in it is valid for the accesses of
/// the command.
unsafe fn bpf<A>(command: c_int, attributes: &mut A) -> io::Result<c_int> {
    // SAFETY: the kernel accesses no more of the attributes than the size passed. At other
    // addresses it accesses only what the contract allows.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<A>(),
        )
    };
    crate::check(c_int::try_from(result).unwrap_or(-1))
}

/// A `bpf` command that creates a descriptor.
///
/// # Safety
/// The same conditions as for [`bpf`]. Also, the command returns a new descriptor.
unsafe fn create<A>(command: c_int, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller keeps the contract of `bpf`. The descriptor is new and has no other owner.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

impl Program {
    /// Loads a program.
    ///
    /// # Errors
    /// The kernel refuses the program. The error contains the verifier's log.
    pub fn load(kind: Kind, instructions: &[u64], license: License) -> Result<Self, BpfError> {
        let license = license.name();
        let attributes = || ProgramLoad {
            program_type: kind as u32,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            name: *b"perpacket\0\0\0\0\0\0\0",
            ..ProgramLoad::default()
        };
        // SAFETY: instructions and licence outlive the call and have the lengths stated.
        match unsafe { create(command::PROGRAM_LOAD, &mut attributes()) } {
            Ok(fd) => Ok(Self { fd }),
            Err(source) => {
                // Only the second attempt requests a log, because the kernel refuses any program if
                // the log is too short.
                let mut log = vec![0_u8; LOG_BYTES];
                let mut attributes = ProgramLoad {
                    log_level: 1,
                    log_size: LOG_BYTES as u32,
                    log_buffer: log.as_mut_ptr() as u64,
                    ..attributes()
                };
                // SAFETY: as above, and the log has the size stated.
                drop(unsafe { create(command::PROGRAM_LOAD, &mut attributes) });
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(0);
                Err(BpfError {
                    action: "load a program",
                    source,
                    log: String::from_utf8_lossy(&log[..end]).trim().to_owned(),
                })
            }
        }
    }

    /// Attaches an XDP program to the interface with this number in the calling thread's namespace.
    /// The program runs in the driver if possible, else in the generic receive path.
    ///
    /// # Errors
    /// Another program is attached, or the interface supports none.
    pub fn attach(&self, interface_index: u32) -> Result<Link, BpfError> {
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        for (flags, mode) in MODES {
            let mut attributes = LinkCreate {
                program_fd: self.fd.as_raw_fd() as u32,
                target_index: interface_index,
                attach_type: ATTACH_XDP,
                flags,
            };
            // SAFETY: the attributes have no address.
            match unsafe { create(command::LINK_CREATE, &mut attributes) } {
                Ok(fd) => return Ok(Link { _fd: fd, mode }),
                Err(error) => refused = error,
            }
        }
        Err(failed("attach a program to an interface")(refused))
    }

    /// Attaches a program of traffic control to the interface with this number in the calling
    /// thread's namespace. It runs after the programs that are attached already.
    ///
    /// # Errors
    /// The kernel does not support this, or this process lacks the permission.
    pub fn attach_to_traffic(
        &self,
        interface_index: u32,
        direction: Direction,
    ) -> Result<TrafficLink, BpfError> {
        let mut attributes = LinkCreate {
            program_fd: self.fd.as_raw_fd() as u32,
            target_index: interface_index,
            attach_type: direction as u32,
            flags: 0,
        };
        // SAFETY: the attributes have no address.
        unsafe { create(command::LINK_CREATE, &mut attributes) }
            .map(|fd| TrafficLink { _fd: fd })
            .map_err(failed(
                "attach a program to traffic control (Linux 6.6 or newer)",
            ))
    }

    /// Runs the program on copies of a frame and carries out its verdicts
    /// (Documentation/bpf/bpf_prog_run.rst).
    ///
    /// # Errors
    /// The kernel does not support this, or this process lacks the permission.
    pub fn run_live(&self, frame: &[u8], copies: u32) -> Result<(), BpfError> {
        let mut attributes = ProgramRun {
            program_fd: self.fd.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: copies,
            flags: LIVE_FRAMES,
            ..ProgramRun::default()
        };
        // SAFETY: the frame outlives the call and has the length stated.
        unsafe { bpf(command::PROGRAM_RUN, &mut attributes) }
            .map(drop)
            .map_err(failed("run a program on live frames (Linux 5.18 or newer)"))
    }
}

impl Numbers {
    /// Creates numbers that are all zero.
    ///
    /// # Errors
    /// The kernel has no maps, or this process may not create one.
    pub fn new() -> Result<Self, BpfError> {
        let mut attributes = MapCreate {
            map_type: ARRAY,
            key_size: 4,
            value_size: size_of::<[u64; SHARED]>() as u32,
            max_entries: 1,
            map_flags: 0,
        };
        // SAFETY: the attributes have no address.
        let fd = unsafe { create(command::MAP_CREATE, &mut attributes) };
        Ok(Self {
            fd: fd.map_err(failed("create a map"))?,
        })
    }

    /// The descriptor of the map, for use in programs.
    pub fn descriptor(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Sets all numbers.
    ///
    /// # Errors
    /// The errors of bpf(2).
    pub fn write(&self, mut values: [u64; SHARED]) -> Result<(), BpfError> {
        self.exchange(command::MAP_UPDATE, &mut values)
            .map_err(failed("write a map"))
    }

    /// All numbers.
    ///
    /// # Errors
    /// The errors of bpf(2).
    pub fn read(&self) -> Result<[u64; SHARED], BpfError> {
        let mut values = [0; SHARED];
        self.exchange(command::MAP_LOOKUP, &mut values)
            .map_err(failed("read a map"))?;
        Ok(values)
    }

    /// Copies the map's element from or to `values`.
    fn exchange(&self, command: c_int, values: &mut [u64; SHARED]) -> io::Result<()> {
        let key = 0_u32;
        let mut attributes = MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            key: (&raw const key) as u64,
            value: values.as_mut_ptr() as u64,
            ..MapElement::default()
        };
        // SAFETY: key and values outlive the call and have the sizes of the map.
        unsafe { bpf(command, &mut attributes) }.map(drop)
    }
}
