//! `trace info`, `trace convert` and `trace synthesize` for Python: opens the files, passes them to
//! `perpacket-workload` and returns JSON.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use perpacket_workload::{
    Compression, Conversion, Expected, LognormalSessions, ObjectPaths, ParameterError, Replay,
    SESSION_WINDOW_S, Sessions, SpecWeb99, Synthesis, SynthesisError, TraceError as Failure,
    TraceFormat, convert, summarize, synthesize,
};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;

create_exception!(
    perpacket_lab._core,
    TraceError,
    PyValueError,
    "A trace that cannot be read or written; the message names file and byte."
);

/// The summary of a trace file, as JSON.
#[pyfunction]
#[pyo3(signature = (path, format=None, window_s=15.0, log_fields=None))]
pub fn trace_info(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    window_s: f64,
    log_fields: Option<&str>,
) -> PyResult<String> {
    let expected = expected(format, log_fields)?;
    py.detach(|| {
        let summary =
            summarize(open(&path)?, expected, window_s).map_err(|error| exception(&path, error))?;
        json(&summary)
    })
}

/// Converts a trace to another format and returns the counts of requests, as JSON.
///
/// The destination's suffix decides its compression. The destination appears only when it is complete.
#[pyfunction]
#[pyo3(signature = (
    source, destination, to, format=None, object_paths=None, mappings=None, log_fields=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "each is an option of the command"
)]
pub fn trace_convert(
    py: Python<'_>,
    source: PathBuf,
    destination: PathBuf,
    to: &str,
    format: Option<&str>,
    object_paths: Option<PathBuf>,
    mappings: Option<PathBuf>,
    log_fields: Option<&str>,
) -> PyResult<String> {
    let to = parsed_format(to)?;
    let from = expected(format, log_fields)?;
    py.detach(|| {
        let paths = match object_paths {
            Some(path) => {
                ObjectPaths::read(open(&path)?).map_err(|error| exception(&path, error))?
            }
            None => ObjectPaths::default(),
        };
        let input = open(&source)?;
        let mut output = Draft::create(&destination)?;
        let mut mappings = mappings.as_deref().map(Draft::create).transpose()?;
        let conversion = Conversion {
            from,
            to,
            compression: compression_of(&destination),
            paths,
            mappings: mappings
                .as_mut()
                .map(|draft| draft as &mut (dyn Write + Send)),
        };
        let converted = convert(input, &mut output, conversion)
            .map_err(|error| exception_for_two(&source, &destination, error))?;
        output.rename()?;
        mappings.map(Draft::rename).transpose()?;
        json(&converted)
    })
}

/// Writes a generated workload as a trace and returns what was written, as JSON.
///
/// `workload` is W, I, S or D; `connections` sets the size of the file set of S and D.
#[pyfunction]
#[pyo3(signature = (
    destination, workload, requests, seed, sessions_per_s, gap_mean_s, connections, format
))]
#[expect(
    clippy::too_many_arguments,
    reason = "each is an option of the command"
)]
pub fn trace_synthesize(
    py: Python<'_>,
    destination: PathBuf,
    workload: &str,
    requests: u64,
    seed: u64,
    sessions_per_s: f64,
    gap_mean_s: f64,
    connections: u32,
    format: &str,
) -> PyResult<String> {
    let format = parsed_format(format)?;
    py.detach(|| {
        let mut sessions = generated(workload, connections, seed)?;
        let mut output = Draft::create(&destination)?;
        let synthesis = Synthesis {
            requests,
            sessions_per_s,
            gap_mean_s,
            seed,
            format,
            compression: compression_of(&destination),
            ..Synthesis::default()
        };
        let written =
            synthesize(&mut sessions, &mut output, &synthesis).map_err(|error| match error {
                SynthesisError::Parameter(error) => parameter_error(&error),
                SynthesisError::Trace(error) => exception(&destination, error),
            })?;
        output.rename()?;
        json(&written)
    })
}

/// The sessions of a trace file, for the simulator.
pub fn replay(path: &Path) -> PyResult<Replay> {
    Replay::read(open(path)?, None, SESSION_WINDOW_S).map_err(|error| exception(path, error))
}

/// The generator of a workload by its letter.
fn generated(workload: &str, connections: u32, seed: u64) -> PyResult<Sessions> {
    let sessions = match workload {
        "W" => LognormalSessions::world_cup()
            .generator(seed)
            .map(Sessions::Lognormal),
        "I" => LognormalSessions::ibm()
            .generator(seed)
            .map(Sessions::Lognormal),
        "S" => SpecWeb99::static_only(connections)
            .generator(seed)
            .map(Sessions::SpecWeb99),
        "D" => SpecWeb99::mixed(connections)
            .generator(seed)
            .map(Sessions::SpecWeb99),
        _ => {
            return Err(TraceError::new_err(format!(
                "workload is {workload:?}: it must be W, I, S or D"
            )));
        }
    };
    sessions.map_err(|error| parameter_error(&error))
}

/// What is known of a trace. Fields are those of a JSON log, so they decide its format.
fn expected(format: Option<&str>, log_fields: Option<&str>) -> PyResult<Expected> {
    let format = format.map(parsed_format).transpose()?;
    let Some(fields) = log_fields else {
        return Ok(format.into());
    };
    if format.is_some_and(|format| format != TraceFormat::Json) {
        return Err(TraceError::new_err(
            "log_fields: only the format json has a mapping of fields",
        ));
    }
    Ok(Expected {
        format: Some(TraceFormat::Json),
        fields: fields
            .parse()
            .map_err(|error| TraceError::new_err(format!("log_fields: {error}")))?,
    })
}

fn parsed_format(name: &str) -> PyResult<TraceFormat> {
    name.parse()
        .map_err(|error| TraceError::new_err(format!("{error}")))
}

fn compression_of(destination: &Path) -> Compression {
    Compression::of_suffix(&destination.to_string_lossy())
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| TraceError::new_err(error.to_string()))
}

fn parameter_error(error: &ParameterError) -> PyErr {
    TraceError::new_err(error.to_string())
}

/// The exception for a failure with one file.
fn exception(path: &Path, error: Failure) -> PyErr {
    match error {
        Failure::Read { source, .. } | Failure::Compression { source, .. }
            if source.get_ref().is_some_and(|inner| inner.is::<PyErr>()) =>
        {
            interrupted(source)
        }
        Failure::Write(source) => os_error(path, source),
        error => TraceError::new_err(format!("{}: {error}", path.display())),
    }
}

/// The exception for a failure with the file that is read or the one that is written.
fn exception_for_two(source: &Path, destination: &Path, error: Failure) -> PyErr {
    match error {
        Failure::Write(_) => exception(destination, error),
        error => exception(source, error),
    }
}

/// `OSError`, or its subclass for the error's number, with the file's name.
pub(crate) fn os_error(path: &Path, error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            PyOSError::new_err((number, error.kind().to_string(), path.display().to_string()))
        }
        None if error.get_ref().is_some_and(|inner| inner.is::<PyErr>()) => interrupted(error),
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// The exception of a signal handler, taken from the error that [`Interruptible`] returned.
fn interrupted(error: io::Error) -> PyErr {
    error.downcast::<PyErr>().unwrap_or_else(PyErr::from)
}

fn open(path: &Path) -> PyResult<Interruptible<File>> {
    File::open(path)
        .map(Interruptible::new)
        .map_err(|error| os_error(path, error))
}

/// Number of bytes between two checks for Python's signals. There are about ten milliseconds between
/// the checks.
const CHECK_BYTES: usize = 4 << 20;

/// A file whose reads and writes fail when Python has a signal to handle, such as Ctrl-C.
struct Interruptible<F> {
    file: F,
    since_check: usize,
}

impl<F> Interruptible<F> {
    fn new(file: F) -> Self {
        Self {
            file,
            since_check: 0,
        }
    }

    fn check_signals(&mut self, count: usize) -> io::Result<usize> {
        self.since_check += count;
        if self.since_check >= CHECK_BYTES {
            self.since_check = 0;
            Python::attach(|py| py.check_signals()).map_err(io::Error::other)?;
        }
        Ok(count)
    }
}

impl<F: Read> Read for Interruptible<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.check_signals(count)
    }
}

/// A file with a temporary name in the same folder as its final name. Dropping it removes the file,
/// unless it was renamed.
struct Draft {
    file: Interruptible<File>,
    draft: PathBuf,
    path: PathBuf,
    is_renamed: bool,
}

impl Draft {
    fn create(path: &Path) -> PyResult<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let draft = path.with_file_name(name);
        let file = File::create(&draft).map_err(|error| os_error(path, error))?;
        Ok(Self {
            file: Interruptible::new(file),
            draft,
            path: path.to_owned(),
            is_renamed: false,
        })
    }

    /// Renames the file to its final name.
    fn rename(mut self) -> PyResult<()> {
        std::fs::rename(&self.draft, &self.path).map_err(|error| os_error(&self.path, error))?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.file.write(bytes)?;
        self.file.check_signals(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_renamed {
            // If the file cannot be removed, it stays.
            let _ = std::fs::remove_file(&self.draft);
        }
    }
}
