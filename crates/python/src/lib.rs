//! The extension module `perpacket._core`.
use pyo3::prelude::*;

/// The compiled core.
#[pymodule]
mod _core {}
