//! Control groups. A number identifies each group, and a path shows the container or unit to which
//! it belongs.
//!
//! The kernel numbers control groups by the inode of their folder and writes the number into each
//! sample (`PERF_SAMPLE_CGROUP`, Linux 5.7). The records of a profile contain the paths of groups
//! that were created during the profile. The paths of older groups are read from the file system.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use perpacket_linux::text;

/// Length of a container's identifier in letters: the hexadecimal digits of 256 bits.
const ID_LETTERS: usize = 64;

/// Number of letters of an identifier that a name shows. Container programs print as many.
const SHORT_ID_LETTERS: usize = 12;

/// Maximum number of groups that are read from the file system.
const GROUP_LIMIT: usize = 50_000;

/// The control groups of the hierarchy that perf events use.
#[derive(Debug)]
pub struct ControlGroups {
    /// The mount point of the hierarchy, if it is mounted.
    root: Option<PathBuf>,
    paths: HashMap<u64, String>,
    /// Numbers that the last search did not find.
    unknown: HashSet<u64>,
}

impl Default for ControlGroups {
    fn default() -> Self {
        let mounts = text::read("/proc/self/mountinfo").unwrap_or_default();
        Self::at(mount_point(&mounts))
    }
}

impl ControlGroups {
    /// The groups below a folder.
    #[must_use]
    pub fn at(root: Option<PathBuf>) -> Self {
        Self {
            root,
            paths: HashMap::new(),
            unknown: HashSet::new(),
        }
    }

    /// Whether paths of groups can be read from the file system. They cannot be read if no
    /// hierarchy is mounted, or if the groups are those of a recording.
    #[must_use]
    pub const fn are_mounted(&self) -> bool {
        self.root.is_some()
    }

    /// Records the path of a group.
    pub fn record(&mut self, number: u64, path: &str) {
        self.paths.insert(number, path.to_owned());
    }

    /// The path of a group, from `/`.
    pub fn path(&mut self, number: u64) -> Option<&str> {
        if !self.paths.contains_key(&number) && !self.unknown.contains(&number) {
            self.search();
            if !self.paths.contains_key(&number) {
                self.unknown.insert(number);
            }
        }
        self.paths.get(&number).map(String::as_str)
    }

    /// Forgets all groups. Groups that still exist are then read again.
    pub fn forget(&mut self) {
        self.paths.clear();
        self.unknown.clear();
    }

    /// Reads the numbers of all groups.
    fn search(&mut self) {
        let Some(root) = &self.root else { return };
        let mut waiting = vec![root.clone()];
        while let Some(folder) = waiting.pop() {
            let Ok(found) = fs::metadata(&folder) else {
                continue;
            };
            let path = folder.strip_prefix(root).unwrap_or(&folder);
            self.paths
                .insert(found.ino(), format!("/{}", path.display()));
            if self.paths.len() > GROUP_LIMIT {
                return;
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            waiting.extend(
                entries
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            );
        }
    }
}

/// The mount point of the hierarchy that perf events use. This is version 1's controller
/// `perf_event` if it is mounted, else version 2 (proc_pid_mountinfo(5)).
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let find = |is_wanted: fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            let mut kind = kind.split(' ');
            let (name, options) = (kind.next()?, kind.nth(1)?);
            let path = place.split(' ').nth(4)?;
            is_wanted(name, options).then(|| PathBuf::from(path))
        })
    };
    let is_first = |name: &str, options: &str| {
        name == "cgroup" && options.split(',').any(|o| o == "perf_event")
    };
    find(is_first).or_else(|| find(|name, _| name == "cgroup2"))
}

/// The group of a process. It is used on kernels that do not write the group into samples.
#[must_use]
pub fn of_process(pid: u32) -> Option<String> {
    let text = text::read(format!("/proc/{pid}/cgroup")).ok()?;
    let find = |is_wanted: fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_wanted(controllers).then(|| path.to_owned())
        })
    };
    find(|names| names.split(',').any(|name| name == "perf_event")).or_else(|| find(str::is_empty))
}

/// The engine and identifier of the container of a group. `name` is the name of the group, and
/// `parent` is the name of the folder above it. `None` if it is not the group of a container.
fn container<'a>(name: &'a str, parent: &str) -> Option<(&'static str, &'a str)> {
    let stem = name.strip_suffix(".scope").unwrap_or(name);
    let (prefix, id) = stem.rsplit_once('-').unwrap_or(("", stem));
    if id.len() != ID_LETTERS || !id.bytes().all(|letter| letter.is_ascii_hexdigit()) {
        return None;
    }
    let engine = match prefix {
        "docker" => "docker",
        "libpod" => "podman",
        "cri-containerd" => "containerd",
        "crio" => "cri-o",
        "" if parent == "docker" => "docker",
        "" => "container",
        // Ignore the group of a container's monitor and other groups that are named after a
        // container.
        _ => return None,
    };
    Some((engine, id))
}

/// The containers on a path, outermost first.
fn containers(path: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let names: Vec<&str> = path.split('/').collect();
    let parents: Vec<&str> = std::iter::once("").chain(names.iter().copied()).collect();
    names
        .into_iter()
        .zip(parents)
        .filter_map(|(name, parent)| container(name, parent))
}

/// The name of a group in reports. It is the outermost container. If there is none, it is the
/// innermost unit, else the path.
#[must_use]
pub fn name(path: &str) -> String {
    if let Some((engine, id)) = containers(path).next() {
        return format!("{engine}-{}", &id[..SHORT_ID_LETTERS]);
    }
    let unit = path
        .rsplit('/')
        .find(|name| name.ends_with(".service") || name.ends_with(".scope"));
    unit.unwrap_or(path).to_owned()
}

/// Chooses control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A path from the root of the hierarchy. It includes all groups below the path.
    Path(String),
    /// A systemd unit. A name without a suffix is a service.
    Unit(String),
    /// A container, by its identifier or the beginning of the identifier.
    Container(String),
}

impl Selector {
    /// The option that makes this choice, and its value.
    #[must_use]
    pub fn option(&self) -> (&'static str, &str) {
        match self {
            Self::Path(value) => ("cgroup", value),
            Self::Unit(value) => ("unit", value),
            Self::Container(value) => ("container", value),
        }
    }

    /// Whether a group is chosen.
    #[must_use]
    pub fn accepts(&self, path: &str) -> bool {
        match self {
            Self::Path(wanted) => {
                let wanted = wanted.trim_end_matches('/');
                path.strip_prefix(wanted)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Unit(wanted) => path.split('/').any(|name| {
                name == wanted || name.strip_suffix(".service") == Some(wanted.as_str())
            }),
            Self::Container(wanted) => containers(path).any(|(_, id)| id.starts_with(wanted)),
        }
    }

    /// The names of the containers that a choice of a container accepts.
    #[must_use]
    pub fn containers(&self) -> Vec<String> {
        let Self::Container(wanted) = self else {
            return Vec::new();
        };
        let mut found = ControlGroups::default();
        found.search();
        let names: BTreeMap<&str, String> = found
            .paths
            .values()
            .flat_map(|path| containers(path))
            .filter(|(_, id)| id.starts_with(wanted))
            .map(|(engine, id)| (id, format!("{engine}-{id}")))
            .collect();
        names.into_values().collect()
    }

    /// A process in the chosen groups. The network namespace of the groups is that of this process.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        let mut found = ControlGroups::default();
        found.search();
        let mut paths: Vec<&String> = found
            .paths
            .values()
            .filter(|path| self.accepts(path))
            .collect();
        paths.sort();
        let root = found.root.as_deref()?;
        paths.into_iter().find_map(|path| first_process(root, path))
    }
}

/// The first process of a group. Processes of other PID namespaces are listed as 0.
fn first_process(root: &Path, path: &str) -> Option<u32> {
    let file = root.join(path.trim_start_matches('/')).join("cgroup.procs");
    let text = text::read(file).ok()?;
    text.lines()
        .filter_map(|line| line.parse().ok())
        .find(|&pid| pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_group_is_named_after_its_outermost_container_or_its_unit() {
        for (path, expected) in [
            (format!("/docker/{ID}"), "docker-0123456789ab"),
            (
                format!("/system.slice/docker-{ID}.scope/init"),
                "docker-0123456789ab",
            ),
            (
                format!("/machine.slice/libpod-{ID}.scope/container"),
                "podman-0123456789ab",
            ),
            (
                format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
                "containerd-0123456789ab",
            ),
            (
                format!("/kubepods/burstable/pod1/{ID}"),
                "container-0123456789ab",
            ),
            (
                format!("/kubepods.slice/crio-{ID}.scope"),
                "cri-o-0123456789ab",
            ),
            (
                format!("/machine.slice/libpod-conmon-{ID}.scope"),
                "libpod-conmon-",
            ),
            ("/system.slice/nginx.service".to_owned(), "nginx.service"),
            (
                "/user.slice/user-1.slice/user@1.service/app.slice/a.service/x".to_owned(),
                "a.service",
            ),
            ("/batch/job-7".to_owned(), "/batch/job-7"),
            ("/".to_owned(), "/"),
        ] {
            assert!(name(&path).starts_with(expected), "{path}: {}", name(&path));
        }
    }

    #[test]
    fn a_selector_accepts_whole_names_and_everything_below() {
        let path = format!("/system.slice/docker-{ID}.scope/nested");
        assert!(Selector::Path("/system.slice/".to_owned()).accepts(&path));
        assert!(!Selector::Path("/system".to_owned()).accepts(&path));
        assert!(Selector::Container(ID[..6].to_owned()).accepts(&path));
        assert!(!Selector::Container("abc".to_owned()).accepts(&path));
        let unit = "/system.slice/nginx.service";
        assert!(Selector::Unit("nginx".to_owned()).accepts(unit));
        assert!(Selector::Unit("nginx.service".to_owned()).accepts(unit));
        assert!(!Selector::Unit("ngin".to_owned()).accepts(unit));
    }

    #[test]
    fn groups_are_found_by_the_number_of_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let number = fs::metadata(&inner).unwrap().ino();
        let mut groups = ControlGroups::at(Some(folder.path().to_owned()));
        assert_eq!(groups.path(number), Some("/a/b"));
        assert_eq!(groups.path(1), None);
        groups.record(1, "/ended");
        assert_eq!(groups.path(1), Some("/ended"));
    }

    #[test]
    fn the_hierarchy_of_perf_events_is_preferred() {
        let second = "30 25 0:26 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n";
        let first = "31 25 0:27 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n";
        let found = |mounts: &str| mount_point(mounts).unwrap();
        assert_eq!(found(second), Path::new("/sys/fs/cgroup/unified"));
        let both = format!("{second}{first}");
        assert_eq!(found(&both), Path::new("/sys/fs/cgroup/perf_event"));
    }
}
