//! Options that several instruments share.

use std::time::Duration;

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

use crate::quantity::{CpuList, Period, Time};

/// Whether something is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// It is on.
    #[value(alias = "yes")]
    On,
    /// It is off.
    #[value(alias = "no")]
    Off,
}

/// The CPUs that an instrument runs on.
#[derive(Args, Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RunsOn {
    /// CPUs to run on, such as `0,2-3`; servers and loads bind a thread to each [default: all].
    #[arg(long, value_name = "LIST")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
}

impl RunsOn {
    /// The CPUs of the list; empty without a list.
    pub fn list(&self) -> &[usize] {
        self.cpus.as_ref().map_or(&[], |list| &list.0)
    }
}

/// The window that a load measures.
#[derive(Args, Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Window {
    /// Measure for this time [default: 10s].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Period>,
    /// Run for this time before the measurement [default: 0s; `load media`: 1s].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Time>,
}

impl Window {
    /// Default length of the measurement.
    pub const DEFAULT_DURATION: Period = Period::from_secs(10);

    /// Sets the warm-up if it is not set, and the duration if it is not set and nothing else ends the run.
    pub fn resolve(&mut self, warmup: Time, ends_by_itself: bool) {
        self.warmup.get_or_insert(warmup);
        if !ends_by_itself {
            self.duration.get_or_insert(Self::DEFAULT_DURATION);
        }
    }

    /// Length of the measurement, if it has a limit.
    pub fn duration(&self) -> Option<Duration> {
        self.duration.map(|time| time.0)
    }

    /// Time before the measurement.
    pub fn warmup(&self) -> Duration {
        self.warmup.map_or(Duration::ZERO, |time| time.0)
    }
}

/// The end of an instrument that otherwise runs until a signal.
#[derive(Args, Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Until {
    /// End after this time; without it, at a signal.
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<Time>,
}

impl Until {
    /// The time after which to end.
    pub fn duration(self) -> Option<Duration> {
        self.duration.map(|time| time.0)
    }
}

/// The seed of all random numbers.
#[derive(Args, Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Seed {
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}
