//! The program of each process, and the file that contains an instruction.
//!
//! The first sample of a process reads its maps from `/proc`. The kernel's records update them, so
//! that short-lived processes are known too. An instruction is stored as an offset in a file. Its
//! function is looked up after the window.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use perpacket_linux::text;

/// A file with code: its path, or the kernel's name in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeFile(Arc<str>);

impl CodeFile {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }
}

/// An instruction of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file that contains it.
    pub file: CodeFile,
    /// Its offset in the file.
    pub offset: u64,
}

/// A process with its maps.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The kernel's name for it, at most 15 characters.
    pub command: String,
    /// Path of the executable; `None` for a kernel thread.
    pub executable: Option<String>,
    maps: Vec<Map>,
}

/// A file mapped for execution.
#[derive(Clone, Debug)]
struct Map {
    start: u64,
    end: u64,
    offset: u64,
    file: CodeFile,
}

/// The processes and the files they run.
#[derive(Debug, Default)]
pub struct Processes {
    known: HashMap<u32, Process>,
    /// The files, so that maps of one file share its path.
    files: HashSet<Arc<str>>,
    parents: HashMap<u32, u32>,
    /// Processes that were left after the last round of forgetting.
    remained: usize,
    /// Whether only records describe processes, so that `/proc` is not read.
    is_recorded: bool,
}

/// Maximum number of ancestors to follow. A longer chain is a loop of reused process ids.
const ANCESTOR_LIMIT: usize = 64;

/// The name of code without a file, such as a just-in-time compiler's.
pub const GENERATED: &str = "[generated]";

impl Processes {
    /// The processes of a recording. `/proc` is not read, because its processes are others.
    #[must_use]
    pub fn recorded() -> Self {
        Self {
            is_recorded: true,
            ..Self::default()
        }
    }

    /// The process, if it is known.
    #[must_use]
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.known.get(&pid)
    }

    /// Reads a process from `/proc` unless it is known.
    pub fn ensure_known(&mut self, pid: u32) {
        if self.is_recorded || self.known.contains_key(&pid) {
            return;
        }
        let folder = Path::new("/proc").join(pid.to_string());
        let command = text::read(folder.join("comm")).unwrap_or_default();
        let mut process = Process {
            command: command.trim_end().to_owned(),
            executable: executable(pid),
            maps: Vec::new(),
        };
        for line in text::read(folder.join("maps")).unwrap_or_default().lines() {
            if let Some((start, end, offset, path)) = executable_map(line) {
                let file = self.file(path);
                process.insert(Map {
                    start,
                    end,
                    offset: if path == GENERATED { start } else { offset },
                    file,
                });
            }
        }
        self.known.insert(pid, process);
    }

    /// Records that a process executed a program, or that its first thread changed its name.
    pub fn record_command(&mut self, pid: u32, leader: bool, name: &str, executed: bool) {
        if executed {
            self.known.insert(
                pid,
                Process {
                    command: name.to_owned(),
                    executable: executable(pid).filter(|_| !self.is_recorded),
                    maps: Vec::new(),
                },
            );
        } else if leader && self.is_recorded {
            // perf also records the names of processes that ran before it.
            name.clone_into(&mut self.known.entry(pid).or_default().command);
        } else if leader && let Some(process) = self.known.get_mut(&pid) {
            name.clone_into(&mut process.command);
        }
    }

    /// Records that a process mapped a file.
    pub fn record_map(&mut self, pid: u32, start: u64, length: u64, offset: u64, path: &str) {
        let path = if path == "//anon" { GENERATED } else { path };
        let file = self.file(path);
        // A process that started before the window has other maps.
        self.ensure_known(pid);
        let process = self.known.entry(pid).or_default();
        if process.executable.is_none() && path.starts_with('/') {
            // The kernel maps the program itself first.
            process.executable = Some(path.to_owned());
        }
        process.insert(Map {
            start,
            end: start.saturating_add(length),
            // Code without a file is known by its address.
            offset: if path == GENERATED { start } else { offset },
            file,
        });
    }

    /// Records a fork. A new thread is in its parent's process and is ignored.
    pub fn record_fork(&mut self, pid: u32, parent: u32) {
        if pid == parent {
            return;
        }
        self.parents.insert(pid, parent);
        self.ensure_known(parent);
        if let Some(process) = self.known.get(&parent) {
            self.known.insert(pid, process.clone());
        }
    }

    /// Forgets processes that have ended, and files that no running process maps.
    pub fn forget_ended(&mut self) {
        let running: HashSet<u32> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        self.known.retain(|pid, _| running.contains(pid));
        self.remained = self.known.len();
        self.forget_parents(&running);
        self.files.retain(|path| Arc::strong_count(path) > 1);
    }

    /// Forgets all recorded parents except those of running processes and of their ancestors. These
    /// ancestors may have ended.
    fn forget_parents(&mut self, running: &HashSet<u32>) {
        let mut kept = HashMap::new();
        for &process in running {
            let mut pid = process;
            while let Some(&parent) = self.parents.get(&pid) {
                if kept.insert(pid, parent).is_some() {
                    break;
                }
                pid = parent;
            }
        }
        self.parents = kept;
    }

    /// The number of processes and of files.
    #[must_use]
    pub fn stored(&self) -> (usize, usize) {
        (self.known.len(), self.files.len())
    }

    /// Processes that were added since the last round of forgetting.
    #[must_use]
    pub fn added(&self) -> usize {
        self.known.len().saturating_sub(self.remained)
    }

    /// Whether a process is `ancestor` or a descendant of it.
    pub fn descends(&mut self, mut pid: u32, ancestor: u32) -> bool {
        for _ in 0..ANCESTOR_LIMIT {
            if pid == ancestor {
                return true;
            }
            // Remember the first parent: an orphan gets another.
            let is_recorded = self.is_recorded;
            pid = *self.parents.entry(pid).or_insert_with(|| {
                let known = if is_recorded { None } else { parent(pid) };
                known.unwrap_or(0)
            });
            if pid == 0 {
                break;
            }
        }
        false
    }

    /// Whether a process has code of a file whose name begins with `name`.
    #[must_use]
    pub fn has_code_of(&self, pid: u32, name: &str) -> bool {
        let maps = self.known.get(&pid).map(|process| process.maps.as_slice());
        maps.unwrap_or_default()
            .iter()
            .any(|map| file_name(map.file.path()).starts_with(name))
    }

    /// The place of an instruction of a process.
    #[must_use]
    pub fn find(&self, pid: u32, address: u64) -> Option<Place> {
        let maps = &self.known.get(&pid)?.maps;
        let after = maps.partition_point(|map| map.start <= address);
        let map = &maps[after.checked_sub(1)?];
        (address < map.end).then(|| Place {
            file: map.file.clone(),
            offset: address - map.start + map.offset,
        })
    }

    fn file(&mut self, path: &str) -> CodeFile {
        if let Some(path) = self.files.get(path) {
            return CodeFile(Arc::clone(path));
        }
        let path = Arc::<str>::from(path);
        self.files.insert(Arc::clone(&path));
        CodeFile(path)
    }
}

impl Process {
    /// Adds a map and removes those that it overlaps.
    fn insert(&mut self, map: Map) {
        self.maps
            .retain(|old| old.end <= map.start || old.start >= map.end);
        let index = self.maps.partition_point(|old| old.start < map.start);
        self.maps.insert(index, map);
    }
}

/// Path of a process's executable; `None` for kernel threads and ended processes.
#[must_use]
pub fn executable(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let status = text::read(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// Follows the parents of a process as long as each child is a fork that has not called execve.
/// Returns the oldest of these processes. For any process of a server, this is the process that was
/// started as the server.
///
/// A fork has its parent's auxiliary vector. execve makes a vector with new random addresses
/// (proc(5), getauxval(3)), also for the same file.
#[must_use]
pub fn original(mut pid: u32) -> u32 {
    let vector = |pid: u32| fs::read(format!("/proc/{pid}/auxv")).ok();
    for _ in 0..ANCESTOR_LIMIT {
        let Some(parent) = parent(pid).filter(|&parent| parent > 1) else {
            break;
        };
        let is_fork =
            vector(pid).is_some_and(|mine| !mine.is_empty() && vector(parent) == Some(mine));
        if !is_fork {
            break;
        }
        pid = parent;
    }
    pid
}

/// The last part of a path.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Start, end, offset and file of a line of `/proc/PID/maps` that maps code.
fn executable_map(line: &str) -> Option<(u64, u64, u64, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let mut fields = rest.split_ascii_whitespace();
    if !fields.next()?.contains('x') {
        return None;
    }
    let offset = fields.next()?;
    let (_device, _inode) = (fields.next()?, fields.next()?);
    // A path may contain blanks. It begins at the first slash or bracket.
    let path = rest
        .find(['/', '['])
        .map_or(GENERATED, |start| rest[start..].trim_end());
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?, number(offset)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_found_in_its_file() {
        let mut processes = Processes::default();
        processes.record_map(900_000_007, 0x1000, 0x1000, 0x400, "/usr/sbin/server");
        processes.record_map(900_000_007, 0x8000, 0x1000, 0, "/lib/libc.so.6");
        let place = processes.find(900_000_007, 0x1010).unwrap();
        assert_eq!(
            (place.file.path(), place.offset),
            ("/usr/sbin/server", 0x410)
        );
        assert_eq!(processes.find(900_000_007, 0x3000), None);
        assert_eq!(
            processes.get(900_000_007).unwrap().executable.as_deref(),
            Some("/usr/sbin/server")
        );
    }

    #[test]
    fn a_new_map_of_a_running_process_is_not_its_only_one() {
        let mut processes = Processes::default();
        let own = std::process::id();
        processes.record_map(own, 0x1000, 0x1000, 0, "/opt/plugin.so");
        let here = processes.find(own, executable_map as *const () as u64);
        assert_eq!(Some(here.unwrap().file.path()), executable(own).as_deref());
    }

    #[test]
    fn ended_processes_are_forgotten_and_running_ones_are_not() {
        let mut processes = Processes::default();
        let own = std::process::id();
        processes.record_map(900_000_001, 0x1000, 0x1000, 0, "/tmp/ended");
        let ended = processes.find(900_000_001, 0x1010).unwrap();
        processes.record_map(own, 0x1000, 0x1000, 0, "/usr/sbin/server");
        let (_, files) = processes.stored();
        assert_eq!(processes.added(), 2);
        processes.forget_ended();
        assert!(processes.get(900_000_001).is_none());
        // A place of an earlier window still has its file.
        assert_eq!(ended.file.path(), "/tmp/ended");
        assert_eq!((processes.added(), processes.stored()), (0, (1, files)));
        drop(ended);
        processes.forget_ended();
        assert_eq!(processes.stored(), (1, files - 1));
        let place = processes.find(own, 0x1010).unwrap();
        assert_eq!(
            (place.file.path(), place.offset),
            ("/usr/sbin/server", 0x10)
        );
    }

    #[test]
    fn a_descendant_of_an_ended_process_is_still_one() {
        let mut processes = Processes::default();
        let own = std::process::id();
        processes.record_fork(own, 900_000_002);
        processes.record_fork(900_000_002, 900_000_001);
        processes.record_fork(900_000_004, 900_000_001);
        processes.forget_ended();
        assert!(processes.descends(own, 900_000_001));
        assert!(!processes.descends(900_000_004, 900_000_001));
    }

    #[test]
    fn fork_copies_the_maps_and_exec_drops_them() {
        let mut processes = Processes::default();
        processes.record_map(900_000_007, 0x1000, 0x1000, 0, "/usr/sbin/server");
        processes.record_fork(900_000_001, 900_000_007);
        assert!(processes.find(900_000_001, 0x1010).is_some());
        processes.record_command(900_000_001, true, "other", true);
        assert!(processes.find(900_000_001, 0x1010).is_none());
    }

    #[test]
    fn a_process_descends_from_its_ancestors_only() {
        let mut processes = Processes::default();
        processes.record_fork(900_000_001, 900_000_000);
        processes.record_fork(900_000_002, 900_000_001);
        processes.record_fork(900_000_003, 900_000_000);
        assert!(processes.descends(900_000_001, 900_000_001));
        assert!(processes.descends(900_000_002, 900_000_000));
        assert!(!processes.descends(900_000_003, 900_000_001));
        let own = std::process::id();
        assert!(processes.descends(own, std::os::unix::process::parent_id()));
    }

    #[test]
    fn a_fork_leads_to_its_original_and_another_run_of_the_file_does_not() {
        use std::io::{BufRead, BufReader};
        // Two background jobs: a fork of the shell, and a new run of the shell's file.
        let script = "(while read line; do :; done; :) <&3 & echo $!; \
                      sh -c 'while read line; do :; done; :' <&3 & echo $!; wait";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", &format!("exec 3<&0; {script}")])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let mut number = || lines.next().unwrap().unwrap().parse::<u32>().unwrap();
        let (fork, other) = (number(), number());
        // The second is a fork until it calls execve.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while original(other) != other && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let found = (original(fork), original(other));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(found, (shell.id(), other));
    }

    #[test]
    fn a_later_map_replaces_an_earlier_one() {
        let mut processes = Processes::default();
        processes.record_map(900_000_007, 0x1000, 0x1000, 0, "/a");
        processes.record_map(900_000_007, 0x1800, 0x100, 0, "/b");
        let place = processes.find(900_000_007, 0x1810).unwrap();
        assert_eq!(place.file.path(), "/b");
    }

    #[test]
    fn a_line_of_proc_maps_is_parsed() {
        let line = "7f0000001000-7f0000003000 r-xp 00002000 08:01 123   /opt/a b/lib.so";
        let expected = (
            0x7f00_0000_1000,
            0x7f00_0000_3000,
            0x2000,
            "/opt/a b/lib.so",
        );
        assert_eq!(executable_map(line), Some(expected));
        assert_eq!(executable_map("1000-2000 rw-p 0 00:00 0"), None);
        let generated = executable_map("1000-2000 rwxp 00000000 00:00 0").unwrap();
        assert_eq!(generated.3, GENERATED);
    }
}
