//! `perpacket_lab._core.Simulation`: one configuration, run once.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use perpacket_simulate::{
    ConfigurationError as InvalidParameter, Explanation, Outcome, Progress, RunError, Simulation,
    Timeline,
};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;

use crate::trace::replay;

create_exception!(
    perpacket_lab._core,
    ConfigurationError,
    PyValueError,
    "A parameter that cannot be used; has `parameter`, `value` and `allowed`."
);
create_exception!(
    perpacket_lab._core,
    Interrupted,
    PyException,
    "The simulation was cancelled."
);

fn configuration_error(py: Python<'_>, error: &InvalidParameter) -> PyErr {
    let exception = ConfigurationError::new_err(error.to_string());
    let value = exception.value(py);
    let attributes = [
        ("parameter", &error.parameter),
        ("value", &error.value),
        ("allowed", &error.allowed),
    ];
    for (name, text) in attributes {
        if let Err(failure) = value.setattr(name, text) {
            return failure;
        }
    }
    exception
}

fn internal(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("a result could not be written as JSON: {error}"))
}

fn store<T>(place: &Mutex<Option<T>>, value: Option<T>) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

/// The counts of the trace that the run replays.
#[derive(Serialize)]
struct Trace {
    /// Requests that can be replayed.
    usable_requests: u64,
    /// Lines or records that were skipped.
    rejected: u64,
}

/// The result with the trace's counts and the real time of the run.
#[derive(Serialize)]
struct Timed<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// Absent if the sessions are generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
    /// Seconds of real time for the whole run, warm-up included.
    wall_s: f64,
    /// Simulated packets per second of real time, warm-up included.
    packets_per_wall_s: f64,
}

/// One configuration, run once.
#[pyclass(frozen, name = "Simulation", module = "perpacket_lab._core")]
pub struct PySimulation {
    simulation: Simulation,
    seed: u64,
    wants_timeline: bool,
    progress: Progress,
    timeline: Mutex<Option<Timeline>>,
    explanation: Mutex<Option<Explanation>>,
}

#[pymethods]
impl PySimulation {
    #[new]
    #[pyo3(signature = (configuration, overrides, seed, trace=None, timeline=false))]
    fn new(
        py: Python<'_>,
        configuration: &str,
        overrides: Vec<(String, String)>,
        seed: u64,
        trace: Option<PathBuf>,
        timeline: bool,
    ) -> PyResult<Self> {
        let replay = trace.map(|path| py.detach(|| replay(&path))).transpose()?;
        let simulation = Simulation::new(configuration, &overrides, replay)
            .map_err(|error| configuration_error(py, &error))?;
        Ok(Self {
            simulation,
            seed,
            wants_timeline: timeline,
            progress: Progress::default(),
            timeline: Mutex::new(None),
            explanation: Mutex::new(None),
        })
    }

    /// Runs; returns the result as JSON.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        let (result, wall_s) = py.detach(|| {
            let started = Instant::now();
            let result = self
                .simulation
                .run(self.seed, self.wants_timeline, &self.progress);
            (result, started.elapsed().as_secs_f64())
        });
        let simulated = result.map_err(|error| match &error {
            RunError::Configuration(error) => configuration_error(py, error),
            RunError::Interrupted(error) => Interrupted::new_err(error.to_string()),
            RunError::Stalled { .. } => PyRuntimeError::new_err(error.to_string()),
        })?;
        store(&self.timeline, simulated.timeline);
        store(&self.explanation, Some(simulated.explanation));
        let timed = Timed {
            outcome: &simulated.outcome,
            trace: self.simulation.trace().map(|trace| Trace {
                usable_requests: trace.usable_requests(),
                rejected: trace.rejected(),
            }),
            wall_s,
            packets_per_wall_s: self.simulation.packets() as f64 / wall_s.max(1e-9),
        };
        serde_json::to_string(&timed).map_err(internal)
    }

    /// Packets simulated so far, and packets of the whole run.
    fn progress(&self) -> (u64, u64) {
        (self.progress.packets(), self.simulation.packets())
    }

    /// Asks the run to end soon. `run` then raises `Interrupted`.
    fn cancel(&self) {
        self.progress.cancel();
    }

    /// Every parameter that is used, as a JSON list of name, value, unit and source.
    fn parameters(&self) -> PyResult<String> {
        let parameters: Vec<_> = self.simulation.parameters().collect();
        serde_json::to_string(&parameters).map_err(internal)
    }

    /// Cycles, instructions and waits of a finished run by cause, as JSON.
    fn explanation(&self) -> PyResult<String> {
        let explanation = self.explanation.lock();
        match &*explanation.unwrap_or_else(PoisonError::into_inner) {
            Some(explanation) => serde_json::to_string(explanation).map_err(internal),
            None => Err(PyRuntimeError::new_err(
                "there is no explanation: expected a finished run",
            )),
        }
    }

    /// The timeline of the run as JSON columns; needs `timeline=True` and a finished run.
    fn timeline(&self) -> PyResult<String> {
        let timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        match &*timeline {
            Some(timeline) => serde_json::to_string(timeline).map_err(internal),
            None => Err(PyRuntimeError::new_err(
                "there is no timeline: expected timeline=True and a finished run",
            )),
        }
    }
}
