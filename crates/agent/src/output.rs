//! The output of every verb: data on standard output, as a table or as JSON.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::status::Failure;

/// Prints a line on standard error. A closed or full standard error does not end the run.
#[macro_export]
macro_rules! message {
    ($($part:tt)*) => {
        $crate::output::write_message(format_args!($($part)*))
    };
}

/// The function of `message!`.
pub fn write_message(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A table for people.
    Table,
    /// One JSON document with a schema version.
    Json,
}

/// The output of a verb: options that every verb has.
#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    /// Format of the data on standard output.
    #[arg(long, value_enum, default_value = "table", help_heading = "Output")]
    pub format: Format,
    /// On standard error, print only errors.
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Read options from a TOML file; options on the command line override it.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub config: Option<PathBuf>,
    /// Print the resolved options as such a file, and do not run.
    #[arg(long, help_heading = "Output")]
    pub show_config: bool,
}

impl Output {
    /// Whether to show progress: only on a terminal, and not with --quiet.
    pub fn shows_progress(&self) -> bool {
        use std::io::IsTerminal;
        !self.quiet && io::stderr().is_terminal()
    }

    /// Prints a result in the format of --format.
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
        write(&text)
    }

    /// Prints a report as one line of JSON.
    pub fn print_line<R: Serialize>(report: &R) -> Result<(), Failure> {
        let mut line = serde_json::to_string(report).map_err(Failure::failed)?;
        line.push('\n');
        write(&line)
    }
}

/// Writes a text on standard output, at once.
pub fn write(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::failed(format!("standard output: {error}")))
}

/// A file for a result. It is opened before the run, so that a wrong name fails at once.
#[derive(Debug)]
pub struct ResultFile {
    option: &'static str,
    path: PathBuf,
    /// Whether this program created the file and has not written to it yet.
    is_new: bool,
}

impl ResultFile {
    /// Checks that the file of `option` can be written. `write` replaces its content.
    pub fn open(option: &'static str, path: &Path) -> Result<Self, Failure> {
        let existed = path.exists();
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
            is_new: !existed,
        })
    }

    /// Replaces the file's content with the result.
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
    /// Removes a file that was created and never written.
    fn drop(&mut self) {
        if self.is_new {
            // The file is empty, so nothing is lost if it cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritten_result_file_leaves_the_folder_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "old").unwrap();
        drop(ResultFile::open("out", &new).unwrap());
        drop(ResultFile::open("out", &old).unwrap());
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        ResultFile::open("out", &old).unwrap().write("x").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "x");
    }
}
