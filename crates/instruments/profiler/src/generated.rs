//! The names of code that a process compiled at run time.
//!
//! A compiler may write `/tmp/perf-PID.map`: start, size and name of each routine
//! (tools/perf/Documentation/jit-interface.txt of Linux). A Java virtual machine of version 17 or
//! later writes the file on request. `jcmd PID Compiler.perfmap` sends such a request.
//! `src/hotspot/os/posix/attachListener_posix.cpp` of OpenJDK has the protocol.

use std::fs::{self, File, Metadata};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::text;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, open, openat, statat, unlinkat};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for the answer of the virtual machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Largest map that is read. Maps of large Java servers have a few MB.
const LARGEST_MAP_BYTES: u64 = 256 << 20;

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
        let Some(folder) = Folder::of(&PathBuf::from(format!("/proc/{pid}/root"))) else {
            return Self::default();
        };
        let map = format!("perf-{own_pid}.map");
        let existed = folder.status(&map).is_some();
        let asked = is_java && request_map(pid, own_pid, &folder).is_some();
        let text = folder.read(&map).unwrap_or_default();
        if asked && !existed {
            folder.remove(&map);
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
    let text = text::read(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

/// The folder /tmp of a process, whose files another user may have made to mislead a profiler that
/// runs as root. Therefore no symbolic link is followed, and no file is overwritten.
struct Folder(OwnedFd);

impl Folder {
    /// The folder `tmp` in a root folder.
    fn of(root: &Path) -> Option<Self> {
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(root, folder, Mode::empty()).ok()?;
        openat(root, "tmp", folder | OFlags::NOFOLLOW, Mode::empty())
            .ok()
            .map(Self)
    }

    fn status(&self, name: &str) -> Option<Stat> {
        statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Whether a name is that of a socket.
    fn has_socket(&self, name: &str) -> bool {
        self.status(name)
            .is_some_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Socket)
    }

    /// The text of a regular file. Opening a pipe does not wait for its writer.
    fn read(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::empty()).ok()?);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        file.take(LARGEST_MAP_BYTES)
            .read_to_string(&mut text)
            .ok()?;
        Some(text)
    }

    /// Makes an empty file that belongs to the owner of a process. `None` if the name exists.
    fn create(&self, name: &str, owner: &Metadata) -> Option<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR).ok()?;
        // The virtual machine ignores a request file of another user.
        let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
        Some(())
    }

    /// Removes a file. If it cannot be removed, it stays, which is harmless.
    fn remove(&self, name: &str) {
        let _ = unlinkat(&self.0, name, AtFlags::empty());
    }

    /// A connection to a socket of a process's owner.
    fn connect(&self, name: &str, owner: &Metadata) -> Option<UnixStream> {
        let path = format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd());
        let stream = UnixStream::connect(path).ok()?;
        let peer = socket_peercred(&stream).ok()?;
        (peer.uid.as_raw() == owner.uid()).then_some(stream)
    }
}

/// Requests a map of the generated code from a Java virtual machine. `None` if the virtual machine
/// does not answer.
fn request_map(pid: u32, own_pid: u32, folder: &Folder) -> Option<()> {
    let socket = format!(".java_pid{own_pid}");
    let process = fs::metadata(format!("/proc/{pid}")).ok()?;
    if !folder.has_socket(&socket) {
        // A SIGQUIT would end a process that does not handle it.
        let caught = u64::from_str_radix(&status(pid, "SigCgt:")?, 16).ok()?;
        if caught & (1 << (Signal::QUIT.as_raw() - 1)) == 0 {
            return None;
        }
        let request = format!(".attach_pid{own_pid}");
        folder.create(&request, &process)?;
        let began = Instant::now();
        if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
            // The process may have ended.
            let _ = kill_process(pid, Signal::QUIT);
        }
        while !folder.has_socket(&socket) && began.elapsed() < ANSWER_LIMIT {
            thread::sleep(Duration::from_millis(20));
        }
        folder.remove(&request);
    }
    let mut stream = folder.connect(&socket, &process)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
    stream.write_all(b"1\0jcmd\0Compiler.perfmap\0\0\0").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with('0').then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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

    #[test]
    fn a_file_that_leads_elsewhere_is_not_read_or_overwritten() {
        let root = std::env::temp_dir().join(format!("perpacket-generated-{}", std::process::id()));
        let folder = root.join("tmp");
        fs::create_dir_all(&folder).unwrap();
        let target = root.join("target");
        fs::write(&target, "10 10 routine\n").unwrap();
        let owner = fs::metadata(&target).unwrap();
        let opened = Folder::of(&root).unwrap();

        symlink(&target, folder.join("link")).unwrap();
        assert_eq!(opened.read("link"), None);
        assert_eq!(opened.create("link", &owner), None);
        assert_eq!(fs::read_to_string(&target).unwrap(), "10 10 routine\n");
        let (path, mode) = (folder.join("pipe"), Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        assert_eq!(opened.read("pipe"), None);
        let _listener = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        assert!(opened.has_socket("socket"));
        assert!(opened.connect("socket", &owner).is_some());

        opened.create("new", &owner).unwrap();
        assert_eq!(opened.read("new").unwrap(), "");
        opened.remove("new");
        assert!(opened.status("new").is_none());
        fs::rename(&folder, root.join("elsewhere")).unwrap();
        symlink(root.join("elsewhere"), &folder).unwrap();
        assert!(Folder::of(&root).is_none());
        fs::remove_dir_all(&root).unwrap();
    }
}
