//! The files of a workload, created on the server's machine. They have the same bytes on every
//! machine.
//!
//! Contents are random letters, because files of zeros would compress to almost nothing. The path
//! of a file is the seed of its letters, so the order of creation does not matter.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Component, Path, PathBuf};

use clap::{Args, ValueEnum};
use perpacket_http::target::percent_decode;
use perpacket_spec::{Size, Spec, SpecError, Whole};
use perpacket_workload::{JsonFields, LognormalSessions, PlannedRequest, SessionSource, Sessions};
use perpacket_workload::{SpecWeb99, Stream, Surge, specweb99, surge, webstone};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::LoadError;
use crate::http::log::{Log, LogFile};

/// Bytes of the pattern from which files are cut.
const PATTERN_BYTES: usize = 65_536;
/// Number of sessions to generate when searching for all objects. On average, this many sessions
/// request the least popular object some dozens of times.
const SEARCHED_SESSIONS: usize = 20_000_000;

/// A set of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum FileSet {
    /// SPECweb99: the directories for the number of `--connections`.
    SpecWeb99,
    /// Surge: 20,000 files, 480 MB.
    Surge,
    /// WebStone: five files.
    WebStone,
    /// World Cup 1998: the objects that the generator makes from `--seed`.
    WorldCup,
    /// IBM: the objects that the generator makes from `--seed`.
    Ibm,
    /// The objects of the log `--trace`, each with the largest size of its responses with status 200.
    Trace,
}

/// Create the files of a workload.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FilesSpec {
    /// The workload.
    #[arg(value_enum)]
    pub workload: FileSet,
    /// The root directory of the server, created if necessary.
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
    /// Simultaneous connections of SPECweb99, which set the number of directories [default: 100].
    #[arg(long, value_name = "L")]
    #[schemars(extend("x-needs" = "workload=specweb99"))]
    pub connections: Option<Whole<1, 1_000_000>>,
    /// The log of `trace`.
    #[arg(long, value_name = "FILE")]
    #[schemars(extend("x-needs" = "workload=trace"))]
    pub trace: Option<PathBuf>,
    /// Paths of the objects of a World Cup 1998 log.
    #[arg(long, value_name = "FILE")]
    #[schemars(extend("x-needs" = "workload=trace"))]
    pub object_mappings: Option<PathBuf>,
    /// Fields of a JSON log, such as `time=when,uri=req.path`; those of Caddy, Traefik and nginx are known.
    #[arg(long, value_name = "PART=FIELD,...")]
    #[schemars(with = "Option<String>", extend("x-needs" = "workload=trace"))]
    pub log_fields: Option<JsonFields>,
    /// Seed of the load that will request the files, for `worldcup` and `ibm` [default: 1].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "workload=worldcup, workload=ibm"))]
    pub seed: Option<u64>,
    /// Refuse to make more bytes than this.
    #[arg(long, value_name = "SIZE", default_value_t = Size(10_000_000_000))]
    pub size_limit: Size,
}

impl Spec for FilesSpec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        match self.workload {
            FileSet::SpecWeb99 => drop(self.connections.get_or_insert(Whole::nearest(100))),
            FileSet::WorldCup | FileSet::Ibm => drop(self.seed.get_or_insert(1)),
            FileSet::Trace if self.trace.is_none() => {
                return Err(SpecError::new("load files trace: no log")
                    .with_hint("name it with `--trace FILE`"));
            }
            FileSet::Surge | FileSet::WebStone | FileSet::Trace => (),
        }
        Ok(self)
    }
}

/// The created files.
#[derive(Clone, Debug, Serialize)]
pub struct FileSetReport {
    /// Version of the schema.
    pub schema: u32,
    /// The directory.
    pub into: String,
    /// Files created.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Files that already existed with the right size.
    pub kept: u64,
    /// Objects that cannot be files: queries, directories of other objects, long names.
    pub left_out: u64,
    /// The first of these objects.
    pub left_out_examples: Vec<String>,
}

/// Creates a set of files below a directory, and the directory.
///
/// # Errors
/// The set is larger than the limit, the log of a set cannot be read, or a file cannot be
/// written.
pub fn make_files(spec: &FilesSpec) -> Result<FileSetReport, LoadError> {
    let (into, limit_bytes) = (spec.into.as_path(), spec.size_limit.0);
    let files = list(spec)?;
    let needed: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    if needed > limit_bytes {
        return Err(LoadError::Limit {
            resource: "bytes of files",
            needed,
            available: limit_bytes,
            hint: format!("allow them with `--size-limit {needed}`, if the disk has room"),
        });
    }
    let mut report = FileSetReport {
        schema: 1,
        into: into.display().to_string(),
        files: 0,
        bytes: 0,
        kept: 0,
        left_out: 0,
        left_out_examples: Vec::new(),
    };
    fs::create_dir_all(into).map_err(LoadError::file(into))?;
    let pattern = pattern();
    for (path, bytes) in files {
        match file_of(into, &path) {
            Some(file) if write_file(&file, &path, bytes, &pattern, &mut report)? => {}
            _ => {
                report.left_out += 1;
                if report.left_out_examples.len() < 5 {
                    report.left_out_examples.push(path);
                }
            }
        }
    }
    Ok(report)
}

/// Paths and sizes of a set.
fn list(spec: &FilesSpec) -> Result<Vec<(String, u64)>, LoadError> {
    let seed = spec.seed.unwrap_or_default();
    Ok(match spec.workload {
        FileSet::SpecWeb99 => {
            let parameters = SpecWeb99::static_only(spec.connections.map_or(0, Whole::get));
            parameters.check()?;
            let objects = parameters.directories() * specweb99::FILES_PER_DIRECTORY;
            let bytes = |object| specweb99::file_bytes(object % specweb99::FILES_PER_DIRECTORY);
            let file = |object| (specweb99::object_path(object), u64::from(bytes(object)));
            (0..objects).map(file).collect()
        }
        FileSet::Surge => {
            let sizes = Surge::default().file_sizes()?;
            let file = |(object, bytes)| (surge::object_path(object), u64::from(bytes));
            (0u32..).zip(sizes).map(file).collect()
        }
        FileSet::WebStone => {
            let files = webstone::FILES.iter();
            files
                .map(|(path, bytes, _)| ((*path).to_owned(), u64::from(*bytes)))
                .collect()
        }
        FileSet::WorldCup => generated(&LognormalSessions::world_cup(), seed)?,
        FileSet::Ibm => generated(&LognormalSessions::ibm(), seed)?,
        FileSet::Trace => {
            let objects = spec.object_mappings.as_deref();
            let file = spec.trace.as_deref().unwrap_or(Path::new(""));
            let log = LogFile {
                path: file,
                objects,
                fields: spec.log_fields.as_ref(),
            };
            let trace = Log::read(log, None, "", 0)?;
            let sizes = (0u32..).zip(&trace.size_bytes);
            let known = sizes.filter_map(|(object, bytes)| Some((object, (*bytes)?)));
            let text = |object| String::from_utf8_lossy(trace.paths.path(object)).into_owned();
            known.map(|(object, bytes)| (text(object), bytes)).collect()
        }
    })
}

/// The objects of a generator. Only the requests of its sessions contain their sizes.
fn generated(parameters: &LognormalSessions, seed: u64) -> Result<Vec<(String, u64)>, LoadError> {
    let mut sessions = Sessions::Lognormal(parameters.generator(seed)?);
    let mut sizes = vec![None; parameters.objects as usize];
    let mut missing = sizes.len();
    let mut planned: Vec<PlannedRequest> = Vec::new();
    for _ in 0..SEARCHED_SESSIONS {
        if missing == 0 {
            break;
        }
        sessions.next_session(&mut planned);
        for request in &planned {
            let known = &mut sizes[request.object as usize];
            missing -= usize::from(known.is_none());
            *known = Some(u64::from(request.response_bytes));
        }
    }
    let sizes = (0u32..).zip(sizes);
    Ok(sizes
        .filter_map(|(object, bytes)| Some((sessions.object_path(object), bytes?)))
        .collect())
}

/// The file for a path below the directory; `None` if it cannot be a file. The file of a directory is
/// its `index.html`.
fn file_of(into: &Path, path: &str) -> Option<PathBuf> {
    let relative = percent_decode(path.trim_start_matches('/').as_bytes())?;
    let mut relative = String::from_utf8(relative)
        .ok()
        .filter(|name| !name.contains('\0'))?;
    if path.ends_with('/') {
        relative.push_str("index.html");
    }
    let is_plain = Path::new(&relative)
        .components()
        .all(|component| matches!(component, Component::Normal(name) if name.len() < 255));
    (is_plain && !relative.is_empty() && !path.contains('?')).then(|| into.join(relative))
}

/// Writes one file unless it exists. Returns false if its path is a directory, or is below a file.
fn write_file(
    file: &Path,
    path: &str,
    bytes: u64,
    pattern: &[u8],
    report: &mut FileSetReport,
) -> Result<bool, LoadError> {
    if let Ok(known) = fs::metadata(file) {
        if known.is_dir() {
            return Ok(false);
        }
        if known.len() == bytes {
            report.kept += 1;
            return Ok(true);
        }
    }
    let directory = file.parent().unwrap_or(file);
    if fs::create_dir_all(directory).is_err() && !directory.is_dir() {
        return Ok(false);
    }
    let mut writer = BufWriter::new(File::create(file).map_err(LoadError::file(file))?);
    let mut at = start(path);
    let mut left = bytes;
    while left > 0 {
        let length = ((pattern.len() - at) as u64).min(left) as usize;
        writer
            .write_all(&pattern[at..at + length])
            .map_err(LoadError::file(file))?;
        left -= length as u64;
        at = 0;
    }
    writer.flush().map_err(LoadError::file(file))?;
    report.files += 1;
    report.bytes += bytes;
    Ok(true)
}

/// Position in the pattern at which a file begins.
fn start(path: &str) -> usize {
    Stream::new(0, path).below(PATTERN_BYTES as u32) as usize
}

/// Letters in lines of 64.
fn pattern() -> Vec<u8> {
    let mut stream = Stream::new(0, "contents of files");
    let letter = |index: usize| match index % 64 {
        63 => b'\n',
        _ => b'a' + stream.below(26) as u8,
    };
    (0..PATTERN_BYTES).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpacket_spec::parse;

    #[test]
    fn a_hundred_specweb99_connections_have_90_directories_of_460_megabytes_together() {
        let files = list(&parse("specweb99 --into d").unwrap()).unwrap();
        assert_eq!(files.len(), 90 * 36);
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        // A directory has 5,119,488 B, less the bytes that rounding down removes in class 0.
        assert_eq!(bytes, 90 * 5_119_484);
    }

    #[test]
    fn surge_has_20000_files_of_480_megabytes_together_to_one_percent() {
        let files = list(&parse("surge --into d").unwrap()).unwrap();
        assert_eq!(files.len(), 20_000);
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        assert!((bytes as f64 / 480e6 - 1.0).abs() < 0.01, "{bytes}");
    }

    #[test]
    fn no_file_is_outside_the_directory() {
        let inside = |path: &str| file_of(Path::new("/x"), path);
        assert_eq!(inside("/a%20b/c"), Some("/x/a b/c".into()));
        assert_eq!(inside("/a/"), Some("/x/a/index.html".into()));
        for path in ["/../etc", "/a/../../b", "/%2e%2e/b", "/a?b", "/%00"] {
            assert_eq!(inside(path), None, "{path}");
        }
    }
}
