//! Programs for the kernel's virtual machine: making, loading, attaching and running them.
//!
//! The raw system call is used, so that nothing has to be installed. A program lives as long as its
//! [`Program`], an attachment as long as its [`Link`]: when the process ends, however it ends, the
//! kernel takes both away.

mod assembler;
mod programs;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub use assembler::{Assembler, Condition, Register, Width};
pub use programs::{count, forward, pass, redirect};

use crate::error::RouterError;
use crate::sys;

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

/// A program that runs before the stack sees a frame (`BPF_PROG_TYPE_XDP`).
const XDP: u32 = 6;

/// Where such a program is attached (`BPF_XDP`).
const ATTACH_XDP: u32 = 37;

/// In the driver, or else where drivers hand frames over (linux/if_link.h).
const MODES: [(u32, Mode); 2] = [(1 << 2, Mode::Driver), (1 << 1, Mode::Generic)];

/// Frames are real ones and what the program decides is done (`BPF_F_TEST_XDP_LIVE_FRAMES`).
const LIVE_FRAMES: u32 = 1 << 1;

/// Bytes for what the verifier says.
const LOG_BYTES: usize = 64 << 10;

/// Where a program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the driver, before the kernel has made a packet of the frame.
    Driver,
    /// After, on any device, and slower.
    Generic,
}

/// What the kernel is told of a program's licence. All of ours are under MIT; MIT permits use under
/// the GPL as well, and the kernel lends some of its helpers to programs that say so alone
/// (linux/license.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum License {
    /// MIT.
    Mit,
    /// MIT, or the GPL: for the look-up of routes.
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

/// A program attached to an interface, until this is dropped.
#[derive(Debug)]
pub struct Link {
    /// Held for its end.
    _fd: OwnedFd,
    /// Where it sits.
    pub mode: Mode,
}

/// How many numbers are shared with a program.
const SHARED: usize = 3;

/// Some numbers shared with a program.
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

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> RouterError {
    move |source| RouterError::Bpf {
        what,
        source,
        log: String::new(),
    }
}

impl Program {
    /// Loads an XDP program.
    ///
    /// # Errors
    /// The kernel does not take it; the verifier's words are in the error.
    pub fn load(assembler: &Assembler, license: License) -> Result<Self, RouterError> {
        let instructions = assembler
            .finish()
            .ok_or_else(|| failed("assemble a program")(io::ErrorKind::InvalidInput.into()))?;
        let license = license.name();
        let attributes = || ProgramLoad {
            program_type: XDP,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            name: *b"perpacket\0\0\0\0\0\0\0",
            ..ProgramLoad::default()
        };
        match sys::bpf(command::PROGRAM_LOAD, &mut attributes()) {
            Ok(fd) => Ok(Self { fd: sys::own(fd) }),
            Err(source) => {
                // Once more for the words: with a log that is too short even a good program fails.
                let mut log = vec![0_u8; LOG_BYTES];
                let mut attributes = ProgramLoad {
                    log_level: 1,
                    log_size: LOG_BYTES as u32,
                    log_buffer: log.as_mut_ptr() as u64,
                    ..attributes()
                };
                drop(sys::bpf(command::PROGRAM_LOAD, &mut attributes).map(sys::own));
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(0);
                Err(RouterError::Bpf {
                    what: "load a program",
                    source,
                    log: String::from_utf8_lossy(&log[..end]).trim().to_owned(),
                })
            }
        }
    }

    /// Attaches it to the interface of that number in this thread's network namespace: in the
    /// driver if it can, else where drivers hand frames over.
    ///
    /// # Errors
    /// Another program is attached, or the interface takes none.
    pub fn attach(&self, interface_index: u32) -> Result<Link, RouterError> {
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        for (flags, mode) in MODES {
            let mut attributes = LinkCreate {
                program_fd: self.fd.as_raw_fd() as u32,
                target_index: interface_index,
                attach_type: ATTACH_XDP,
                flags,
            };
            match sys::bpf(command::LINK_CREATE, &mut attributes) {
                Ok(fd) => {
                    return Ok(Link {
                        _fd: sys::own(fd),
                        mode,
                    });
                }
                Err(error) => refused = error,
            }
        }
        Err(failed("attach a program to an interface")(refused))
    }

    /// Runs it on copies of a frame and does with them what it says (Documentation/bpf/bpf_prog_run).
    /// # Errors
    /// The kernel cannot, or not as this user.
    pub fn run_live(&self, frame: &[u8], copies: u32) -> Result<(), RouterError> {
        let mut attributes = ProgramRun {
            program_fd: self.fd.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: copies,
            flags: LIVE_FRAMES,
            ..ProgramRun::default()
        };
        sys::bpf(command::PROGRAM_RUN, &mut attributes)
            .map(|_| ())
            .map_err(failed("run a program on live frames"))
    }
}

impl Numbers {
    /// Numbers that are all zero.
    ///
    /// # Errors
    /// The kernel makes no maps, or not for this user.
    pub fn new() -> Result<Self, RouterError> {
        let mut attributes = MapCreate {
            map_type: ARRAY,
            key_size: 4,
            value_size: size_of::<[u64; SHARED]>() as u32,
            max_entries: 1,
            map_flags: 0,
        };
        let fd = sys::bpf(command::MAP_CREATE, &mut attributes).map_err(failed("make a map"))?;
        Ok(Self { fd: sys::own(fd) })
    }

    /// The descriptor, for programs.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Sets all numbers.
    ///
    /// # Errors
    /// The kernel does not take them.
    pub fn write(&self, values: [u64; SHARED]) -> Result<(), RouterError> {
        let key = 0_u32;
        let mut attributes = MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            key: (&raw const key) as u64,
            value: (&raw const values) as u64,
            ..MapElement::default()
        };
        sys::bpf(command::MAP_UPDATE, &mut attributes)
            .map(|_| ())
            .map_err(failed("write a map"))
    }

    /// All numbers.
    ///
    /// # Errors
    /// The kernel does not give them.
    pub fn read(&self) -> Result<[u64; SHARED], RouterError> {
        let key = 0_u32;
        let mut values = [0_u64; SHARED];
        let mut attributes = MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            key: (&raw const key) as u64,
            value: (&raw mut values) as u64,
            ..MapElement::default()
        };
        sys::bpf(command::MAP_LOOKUP, &mut attributes).map_err(failed("read a map"))?;
        Ok(values)
    }
}
