//! Which program a process runs and which file an instruction of it lies in.
//!
//! A process is looked up in `/proc` when its first sample comes, and followed from then on by the
//! kernel's own records, so that short-lived ones are known too. Instructions are kept as places
//! in files; names are found after the window.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A file that holds code, by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(u32);

impl ObjectId {
    /// Its place in the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its name as the kernel has it, 15 characters at most.
    pub command: String,
    /// The file it runs; none for a kernel thread.
    pub executable: Option<String>,
    maps: Vec<Map>,
}

/// A file mapped for execution.
#[derive(Clone, Copy, Debug)]
struct Map {
    start: u64,
    end: u64,
    offset: u64,
    object: ObjectId,
}

/// The processes and the files they run.
#[derive(Debug, Default)]
pub struct Processes {
    known: HashMap<u32, Process>,
    objects: Vec<String>,
    numbers: HashMap<String, ObjectId>,
    parents: HashMap<u32, u32>,
}

/// Generations that are looked back: more are a loop of reused numbers.
const GENERATIONS: usize = 64;

/// The name of memory that holds code and no file: what a just-in-time compiler made.
pub const GENERATED: &str = "[generated]";

impl Processes {
    /// The path of a file that holds code, or the kernel's name of it in brackets.
    #[must_use]
    pub fn object(&self, id: ObjectId) -> &str {
        &self.objects[id.index()]
    }

    /// What is known of a process.
    #[must_use]
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.known.get(&pid)
    }

    /// Looks a process up in `/proc` unless it is known.
    pub fn meet(&mut self, pid: u32) {
        if self.known.contains_key(&pid) {
            return;
        }
        let place = Path::new("/proc").join(pid.to_string());
        let command = fs::read_to_string(place.join("comm")).unwrap_or_default();
        let mut process = Process {
            command: command.trim_end().to_owned(),
            executable: executable(pid),
            maps: Vec::new(),
        };
        for line in fs::read_to_string(place.join("maps"))
            .unwrap_or_default()
            .lines()
        {
            if let Some((start, end, offset, path)) = executable_map(line) {
                let object = self.number(path);
                process.insert(Map {
                    start,
                    end,
                    offset,
                    object,
                });
            }
        }
        self.known.insert(pid, process);
    }

    /// A process began another program, or its first thread renamed itself.
    pub fn renamed(&mut self, pid: u32, leader: bool, name: &str, executed: bool) {
        if executed {
            self.known.insert(
                pid,
                Process {
                    command: name.to_owned(),
                    executable: executable(pid),
                    maps: Vec::new(),
                },
            );
        } else if leader && let Some(process) = self.known.get_mut(&pid) {
            name.clone_into(&mut process.command);
        }
    }

    /// A file was mapped.
    pub fn mapped(&mut self, pid: u32, start: u64, length: u64, offset: u64, path: &str) {
        let path = if path == "//anon" { GENERATED } else { path };
        let object = self.number(path);
        let process = self.known.entry(pid).or_default();
        if process.executable.is_none() && path.starts_with('/') {
            // The kernel maps the program itself first.
            process.executable = Some(path.to_owned());
        }
        process.insert(Map {
            start,
            end: start.saturating_add(length),
            offset,
            object,
        });
    }

    /// A process began as a copy of another; a thread is none.
    pub fn forked(&mut self, pid: u32, parent: u32) {
        if pid != parent {
            self.parents.insert(pid, parent);
        }
        if pid != parent
            && let Some(process) = self.known.get(&parent)
        {
            let copy = process.clone();
            self.known.insert(pid, copy);
        }
    }

    /// Whether a process is another or began from it, its children or theirs.
    pub fn descends(&mut self, mut pid: u32, ancestor: u32) -> bool {
        for _ in 0..GENERATIONS {
            if pid == ancestor {
                return true;
            }
            // The parent when it was first asked for: that of an orphan changes.
            pid = *self
                .parents
                .entry(pid)
                .or_insert_with(|| parent(pid).unwrap_or(0));
            if pid == 0 {
                break;
            }
        }
        false
    }

    /// The file that an instruction of a process lies in, and where in it.
    #[must_use]
    pub fn find(&self, pid: u32, address: u64) -> Option<(ObjectId, u64)> {
        let maps = &self.known.get(&pid)?.maps;
        let after = maps.partition_point(|map| map.start <= address);
        let map = maps[after.checked_sub(1)?];
        (address < map.end).then_some((map.object, address - map.start + map.offset))
    }

    fn number(&mut self, path: &str) -> ObjectId {
        if let Some(&id) = self.numbers.get(path) {
            return id;
        }
        let id = ObjectId(self.objects.len() as u32);
        self.objects.push(path.to_owned());
        self.numbers.insert(path.to_owned(), id);
        id
    }
}

impl Process {
    /// A new map takes the place of those it covers.
    fn insert(&mut self, map: Map) {
        self.maps
            .retain(|old| old.end <= map.start || old.start >= map.end);
        let place = self.maps.partition_point(|old| old.start < map.start);
        self.maps.insert(place, map);
    }
}

/// The file a process runs; none for kernel threads and processes that have ended.
#[must_use]
pub fn executable(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// The process that a process began from.
fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// The first of the processes that a process is a copy of: the one that a server with several
/// processes was started as, whichever of them is named.
///
/// A copy has the auxiliary vector of its original, whose addresses are random in each program that
/// is started (proc(5), getauxval(3)): so two runs of one file are told from copies.
#[must_use]
pub fn original(mut pid: u32) -> u32 {
    let vector = |pid: u32| fs::read(format!("/proc/{pid}/auxv")).ok();
    for _ in 0..GENERATIONS {
        let Some(parent) = parent(pid).filter(|&parent| parent > 1) else {
            break;
        };
        let is_copy =
            vector(pid).is_some_and(|mine| !mine.is_empty() && vector(parent) == Some(mine));
        if !is_copy {
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
    // A path may hold blanks; it begins at the first slash or bracket after the numbers.
    let path = rest
        .find(['/', '['])
        .map_or(GENERATED, |place| rest[place..].trim_end());
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?, number(offset)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_found_in_its_file() {
        let mut processes = Processes::default();
        processes.mapped(7, 0x1000, 0x1000, 0x400, "/usr/sbin/server");
        processes.mapped(7, 0x8000, 0x1000, 0, "/lib/libc.so.6");
        let (object, offset) = processes.find(7, 0x1010).unwrap();
        assert_eq!(
            (processes.object(object), offset),
            ("/usr/sbin/server", 0x410)
        );
        assert_eq!(processes.find(7, 0x3000), None);
        assert_eq!(
            processes.get(7).unwrap().executable.as_deref(),
            Some("/usr/sbin/server")
        );
    }

    #[test]
    fn a_copy_of_a_process_has_its_files_and_a_new_program_has_not() {
        let mut processes = Processes::default();
        processes.mapped(7, 0x1000, 0x1000, 0, "/usr/sbin/server");
        processes.forked(900_000_001, 7);
        assert!(processes.find(900_000_001, 0x1010).is_some());
        processes.renamed(900_000_001, true, "other", true);
        assert!(processes.find(900_000_001, 0x1010).is_none());
    }

    #[test]
    fn a_process_descends_from_who_began_it_and_from_nobody_else() {
        let mut processes = Processes::default();
        processes.forked(900_000_001, 900_000_000);
        processes.forked(900_000_002, 900_000_001);
        processes.forked(900_000_003, 900_000_000);
        assert!(processes.descends(900_000_001, 900_000_001));
        assert!(processes.descends(900_000_002, 900_000_000));
        assert!(!processes.descends(900_000_003, 900_000_001));
        let own = std::process::id();
        assert!(processes.descends(own, std::os::unix::process::parent_id()));
    }

    #[test]
    fn copies_lead_to_what_was_started_and_another_run_of_the_file_does_not() {
        use std::io::{BufRead, BufReader};
        // Two background jobs: a copy of the shell, and the shell's file run anew.
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
        let (copy, other) = (number(), number());
        // The second is a copy until it has begun its program.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while original(other) != other && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let found = (original(copy), original(other));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(found, (shell.id(), other));
    }

    #[test]
    fn a_later_map_covers_an_earlier_one() {
        let mut processes = Processes::default();
        processes.mapped(7, 0x1000, 0x1000, 0, "/a");
        processes.mapped(7, 0x1800, 0x100, 0, "/b");
        let (object, _) = processes.find(7, 0x1810).unwrap();
        assert_eq!(processes.object(object), "/b");
    }

    #[test]
    fn a_line_of_maps_is_read() {
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
