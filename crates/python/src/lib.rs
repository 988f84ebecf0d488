//! The extension module `perpacket._core`: the compiled core for Python. Text and numbers go in,
//! JSON comes out; files are opened and clocks are read here, never in the crates below.

use pyo3::prelude::*;

mod simulate;
mod trace;

/// The compiled core.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::simulate::{ConfigurationError, Interrupted, PySimulation};
    #[pymodule_export]
    use super::trace::{TraceError, trace_convert, trace_info, trace_synthesize};
}
