//! The output of every verb: data on standard output, as a table or as JSON.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use serde::Serialize;

use crate::status::{Failure, Status};

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
        match write(&text) {
            // Nobody reads the result, but the verb also writes files and has an exit status.
            Err(failure) if failure.status == Status::Unread => Ok(()),
            written => written,
        }
    }

    /// Prints a report as one line of JSON. Fails if nobody reads further lines.
    pub fn print_line<R: Serialize>(report: &R) -> Result<(), Failure> {
        let mut line = serde_json::to_string(report).map_err(Failure::failed)?;
        line.push('\n');
        write(&line)
    }
}

/// Writes a text on standard output, at once.
pub fn write(text: &str) -> Result<(), Failure> {
    write_bytes(text.as_bytes())
}

/// Writes bytes on standard output, at once.
pub fn write_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output
        .write_all(bytes)
        .and_then(|()| output.flush())
        .map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::unread(),
            _ => Failure::failed(format!("standard output: {error}")),
        })
}

/// A file for a result. It is opened before the run, so that a wrong name fails at once. Its old
/// content stays until the whole result is on the disk.
#[derive(Debug)]
pub struct ResultFile {
    option: &'static str,
    path: PathBuf,
    file: File,
    /// The file that replaces `path`; `None` if `path` is a device or a pipe.
    draft: Option<PathBuf>,
}

impl ResultFile {
    /// Opens the file of `option`, if the option has one.
    pub fn of(option: &'static str, path: Option<&Path>) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::open(option, path)).transpose()
    }

    /// Checks that the file of `option` can be written. `write` replaces its content.
    pub fn open(option: &'static str, path: &Path) -> Result<Self, Failure> {
        Self::prepare(option, path).map_err(|error| {
            Failure::usage(format!("--{option} {}: {error}", path.display()))
                .with_hint("name a file in a folder that exists and can be written to")
        })
    }

    fn prepare(option: &'static str, path: &Path) -> io::Result<Self> {
        // A link stays, and leads to the new content.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let old = path.metadata().ok();
        if let Some(old) = &old {
            let file = OpenOptions::new().append(true).open(&path)?;
            if !old.is_file() {
                let draft = None;
                return Ok(Self {
                    option,
                    path,
                    file,
                    draft,
                });
            }
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.draft", process::id()));
        let draft = path.with_file_name(name);
        let file = File::create(&draft)?;
        let opened = Self {
            option,
            path,
            file,
            draft: Some(draft),
        };
        if let Some(old) = old {
            opened.file.set_permissions(old.permissions())?;
        }
        Ok(opened)
    }

    /// Replaces the file's content with the result.
    pub fn write(self, text: &str) -> Result<(), Failure> {
        self.write_by(|out| out.write_all(text.as_bytes()))
    }

    /// Replaces the file's content with the bytes that `write` writes.
    pub fn write_by(
        mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.replace(write).map_err(|error| {
            Failure::failed(format!(
                "--{} {}: {error}",
                self.option,
                self.path.display()
            ))
            .with_hint("name a file on a disk with free space; the report is complete")
        })
    }

    fn replace(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut out = BufWriter::new(&mut self.file);
        write(&mut out)?;
        out.flush()?;
        drop(out);
        let Some(draft) = &self.draft else {
            return Ok(());
        };
        // Some file systems report a full disk only now.
        self.file.sync_all()?;
        fs::rename(draft, &self.path)?;
        self.draft = None;
        Ok(())
    }
}

impl Drop for ResultFile {
    /// Removes a draft that did not replace the file.
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // The result is incomplete or absent, so nothing is lost if it cannot be removed.
            let _ = fs::remove_file(draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        fs::write(&old, "old").unwrap();
        let full = |out: &mut dyn Write| {
            out.write_all(b"part")?;
            Err(io::Error::from(ErrorKind::StorageFull))
        };
        let failure = ResultFile::open("pprof", &old).unwrap().write_by(full);
        assert!(failure.unwrap_err().message.starts_with("--pprof /"));
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_and_a_device_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        ResultFile::open("out", &link).unwrap().write("x").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "x");
        let null = Path::new("/dev/null");
        ResultFile::open("out", null).unwrap().write("x").unwrap();
        assert!(!null.metadata().unwrap().is_file());
    }

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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
