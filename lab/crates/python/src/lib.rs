//! The extension module `perpacket_lab._core`: the compiled core for Python. It accepts text and numbers and
//! returns JSON. It opens files and reads clocks; the crates below never do.

use pyo3::prelude::*;

mod emulate;
mod simulate;
mod trace;

/// The compiled core.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::emulate::{RecordingFailure, emulate_footprint, emulate_replay};
    #[pymodule_export]
    use super::simulate::{ConfigurationError, Interrupted, PySimulation};
    #[pymodule_export]
    use super::trace::{TraceError, trace_convert, trace_info, trace_synthesize};
}
