//! What every verb prints the same way: data on standard output, as a table or as JSON.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config;
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
#[derive(Clone, Debug, clap::Args)]
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

    /// Whether only the options are to be printed, which it does.
    pub fn shows_config(&self, options: &impl Serialize) -> Result<bool, Failure> {
        if self.show_config {
            print!("{}", config::to_toml(options)?);
        }
        Ok(self.show_config)
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

/// A file that a result goes to, tried before the work: a mistake in its name costs nothing then.
#[derive(Debug)]
pub struct ResultFile {
    option: &'static str,
    path: PathBuf,
    /// It was not there before, and nothing was written yet.
    is_new: bool,
}

impl ResultFile {
    /// Whether the file that `option` names can be written; what is in it stays until then.
    pub fn open(option: &'static str, path: &Path) -> Result<Self, Failure> {
        let was_there = path.exists();
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| {
                Failure::usage(format!("--{option} {}: {error}", path.display()))
                    .with_hint("name a file in a folder that exists and can be written to")
            })?;
        Ok(Self {
            option,
            path: path.to_owned(),
            is_new: !was_there,
        })
    }

    /// Puts the result in place of what was there.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        self.is_new = false;
        fs::write(&self.path, text).map_err(|error| {
            Failure::failed(format!(
                "--{} {}: {error}",
                self.option,
                self.path.display()
            ))
        })
    }
}

impl Drop for ResultFile {
    /// A file that was only tried is not left behind.
    fn drop(&mut self) {
        if self.is_new {
            // It is empty: nothing is lost if it stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_file_that_was_only_tried_is_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "kept").unwrap();
        drop(ResultFile::open("out", &new).unwrap());
        drop(ResultFile::open("out", &old).unwrap());
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "kept");
        ResultFile::open("out", &old).unwrap().write("x").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "x");
    }
}
