//! Options of both benchmarks.

use std::path::PathBuf;

use clap::Args;
use perpacket_spec::{Share, SpecError};
use schemars::JsonSchema;
use serde::Serialize;

/// How often a point is repeated, where, and where its rows go.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
pub struct Repeating {
    /// Repeat each point until half the width of its confidence interval is this share of its
    /// median, or time is up.
    #[arg(long, value_name = "SHARE", default_value = "0.02")]
    pub(crate) precision: Share,
    /// Processor to run on; by default the one that starts the benchmark.
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
    /// Write the rows to this file, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

impl Repeating {
    /// Checks the precision.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        match self.precision {
            Share(share) if share > 0.0 && share < 1.0 => Ok(()),
            share => Err(SpecError::new(format!(
                "--precision {share}: expected a share between 0 and 1"
            ))),
        }
    }
}
