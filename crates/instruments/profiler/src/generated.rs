//! The names of code that a process compiled at run time.
//!
//! A compiler may write `/tmp/perf-PID.map`: start, size and name of each routine
//! (tools/perf/Documentation/jit-interface.txt of Linux). A Java virtual machine of version 17 or
//! later writes the file on request. `jcmd PID Compiler.perfmap` sends such a request.
//! `src/hotspot/os/posix/attachListener_posix.cpp` of OpenJDK has the protocol.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for the answer of the virtual machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The routines of a process, sorted by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routines(Vec<(u64, u64, String)>);

impl Routines {
    /// The routines of a process. There are none if the process writes no map. With `is_java`,
    /// first requests a map from the process's virtual machine.
    pub(crate) fn of(pid: u32, is_java: bool) -> Self {
        let Some(own_pid) = pid_inside(pid) else {
            return Self::default();
        };
        let folder = PathBuf::from(format!("/proc/{pid}/root/tmp"));
        let map = folder.join(format!("perf-{own_pid}.map"));
        let existed = map.exists();
        let asked = is_java && request_map(pid, own_pid, &folder).is_some();
        let text = fs::read_to_string(&map).unwrap_or_default();
        if asked && !existed {
            // If the file cannot be removed, it stays, which is harmless.
            let _ = fs::remove_file(&map);
        }
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mut routines: Vec<_> = text.lines().filter_map(routine).collect();
        routines.sort_by_key(|(start, ..)| *start);
        Self(routines)
    }

    /// The name of the routine at an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = &self.0[after.checked_sub(1)?];
        (address < *end).then_some(name)
    }
}

/// Parses a line of a map. It has the start and the size in hexadecimal digits, and the name.
fn routine(line: &str) -> Option<(u64, u64, String)> {
    let mut fields = line.splitn(3, ' ');
    let mut number = || {
        let digits = fields.next()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    Some((start, start.saturating_add(size), method(fields.next()?)))
}

/// The name of a Java method without type and arguments: `void a.B.c(int)` becomes `a.B.c`.
fn method(name: &str) -> String {
    match name.split_once('(') {
        Some((before, _)) => before.rsplit(' ').next().unwrap_or(before).to_owned(),
        None => name.to_owned(),
    }
}

/// The number of a process in its own namespace.
fn pid_inside(pid: u32) -> Option<u32> {
    let line = status(pid, "NSpid:")?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// The value of a line of `/proc/PID/status`.
fn status(pid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

/// Requests a map of the generated code from a Java virtual machine. `None` if the virtual machine
/// does not answer.
fn request_map(pid: u32, own_pid: u32, folder: &Path) -> Option<()> {
    let socket = folder.join(format!(".java_pid{own_pid}"));
    if !socket.exists() {
        // A SIGQUIT would end a process that does not handle it.
        let caught = u64::from_str_radix(&status(pid, "SigCgt:")?, 16).ok()?;
        if caught & (1 << (Signal::QUIT.as_raw() - 1)) == 0 {
            return None;
        }
        let request = folder.join(format!(".attach_pid{own_pid}"));
        fs::write(&request, "").ok()?;
        let process = fs::metadata(format!("/proc/{pid}")).ok()?;
        // The virtual machine ignores a request file of another user.
        let _ = chown(&request, Some(process.uid()), Some(process.gid()));
        let began = Instant::now();
        if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
            // The process may have ended.
            let _ = kill_process(pid, Signal::QUIT);
        }
        while !socket.exists() && began.elapsed() < ANSWER_LIMIT {
            thread::sleep(Duration::from_millis(20));
        }
        // The virtual machine may have removed the file already.
        let _ = fs::remove_file(&request);
    }
    let mut stream = UnixStream::connect(&socket).ok()?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
    stream.write_all(b"1\0jcmd\0Compiler.perfmap\0\0\0").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with('0').then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_routine() {
        let routines = Routines::parse(
            "0x2000 0x100 void org.example.Shop.buy(int, java.lang.String)\n1000 80 Interpreter\nbad\n",
        );
        assert_eq!(routines.find(0x1010), Some("Interpreter"));
        assert_eq!(routines.find(0x20ff), Some("org.example.Shop.buy"));
        assert_eq!(routines.find(0x1080), None);
        assert_eq!(routines.find(0xfff), None);
    }
}
