//! What every verb prints the same way: data on standard output, as a table or as JSON.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use crate::status::Failure;

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Columns for people.
    Table,
    /// One JSON document with a schema version.
    Json,
}

/// Options that every verb has.
#[derive(Debug, clap::Args)]
pub struct Shared {
    /// How data is printed.
    #[arg(long, value_enum, default_value = "table", help_heading = "Output")]
    pub format: Format,
    /// Nothing on standard error but errors.
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Read options from a TOML file; those on the command line win.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub config: Option<PathBuf>,
    /// Print what would run, as such a file, and run nothing.
    #[arg(long, help_heading = "Output")]
    pub show_config: bool,
}

impl Shared {
    /// Whether progress is to be shown: not when it was asked not to, nor where nobody reads it.
    pub fn shows_progress(&self) -> bool {
        use std::io::IsTerminal;
        !self.quiet && io::stderr().is_terminal()
    }

    /// Print a result in the format that was asked for.
    pub fn print<R: Serialize>(
        &self,
        result: &R,
        table: impl FnOnce(&R) -> String,
    ) -> Result<(), Failure> {
        let text = match self.format {
            Format::Table => table(result),
            Format::Json => {
                let mut text = serde_json::to_string_pretty(result).map_err(Failure::failed)?;
                text.push('\n');
                text
            }
        };
        io::stdout()
            .lock()
            .write_all(text.as_bytes())
            .map_err(|error| Failure::failed(format!("standard output: {error}")))
    }
}
