//! `emulate replay` and `emulate footprint` for Python: read the recording and return JSON.

use std::path::PathBuf;

use perpacket_emulate::recording::{Recording, RecordingError};
use perpacket_emulate::{ModelParameters, footprint, replay};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::trace::os_error;

create_exception!(
    perpacket_lab._core,
    RecordingFailure,
    PyValueError,
    "The recording cannot be replayed, or the cache options do not fit it. The arguments are \
     the message and the next step."
);

/// Simulates other caches with the accesses of a recording. Returns the windows as a JSON list, in
/// the format of the plugin.
///
/// `options` are the plugin's cache options, in the form `key=value`.
#[pyfunction]
pub fn emulate_replay(py: Python<'_>, path: PathBuf, options: Vec<String>) -> PyResult<String> {
    let parameters =
        ModelParameters::parse(options.iter().map(String::as_str)).map_err(|error| {
            RecordingFailure::new_err((error.to_string(), "change the option".to_owned()))
        })?;
    let windows = of_recording(py, path, |recording| replay(recording, &parameters))?;
    serde_json::to_string(&windows).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The lines that each operation touches in a recording of a bulk sender, as JSON.
#[pyfunction]
pub fn emulate_footprint(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let result = of_recording(py, path, footprint)?;
    serde_json::to_string(&result).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Applies a function to the recording in a file, and returns the result.
fn of_recording<T: Send>(
    py: Python<'_>,
    path: PathBuf,
    compute: impl FnOnce(Recording<'_>) -> Result<T, RecordingError> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let name = path.display();
        let bytes = std::fs::read(&path).map_err(|error| os_error(&path, error))?;
        let failure = |error: RecordingError| {
            let next_step = error.next_step().to_owned();
            RecordingFailure::new_err((format!("{name}: {error}"), next_step))
        };
        let recording = Recording::new(&bytes).map_err(failure)?;
        compute(recording).map_err(failure)
    })
}
