//! SPECweb99's POST log: one record of fixed length for each POST.
//!
//! The benchmark checks after a run that each POST it sent stands in the log. A record goes out
//! with one write to a file opened for appending, so that threads and processes do not mix theirs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::specweb99::Form;
use crate::error::ServeError;

/// Length of a record: ten fields, the blanks between them, and the end of the line.
pub const RECORD_BYTES: u64 = 139;

/// The open log.
#[derive(Debug)]
pub struct PostLog {
    file: File,
}

impl PostLog {
    /// Opens or makes the log; also tells how many records it has.
    ///
    /// # Errors
    /// It cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<(Self, u64), ServeError> {
        let fault = |problem: String| ServeError::File {
            option: "--post-log",
            path: path.to_owned(),
            problem,
        };
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| fault(error.to_string()))?;
        let bytes = file
            .metadata()
            .map_err(|error| fault(error.to_string()))?
            .len();
        if bytes % RECORD_BYTES != 0 {
            return Err(fault(format!(
                "{bytes} bytes are no whole number of records of {RECORD_BYTES}: name a new file"
            )));
        }
        Ok((Self { file }, bytes / RECORD_BYTES))
    }

    /// Appends a record: its number, the time in seconds, the process, directory, class and file,
    /// the client, the file's path, the process again, and the cookie sent back.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn append(&self, record: u64, form: &Form) -> io::Result<()> {
        let now_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let process = std::process::id();
        let file = form.file;
        let line = format!(
            "{record:10} {now_s:10} {process:10} {:5} {:2} {:2} {:10} {:<60} {process:10} {record:10}\n",
            file.directory,
            file.class,
            file.file,
            form.client % 10_000_000_000,
            file.path(),
        );
        (&self.file).write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_whole_records_and_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("post.log");
        let (log, records) = PostLog::open(&path).unwrap();
        assert_eq!(records, 0);
        let form = Form::of(b"dir=12&class=3&file=8&client=7").unwrap();
        log.append(0, &form).unwrap();
        log.append(1, &form).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.len() as u64, 2 * RECORD_BYTES);
        assert!(text.contains(" /file_set/dir00012/class3_8 "));
        assert_eq!(PostLog::open(&path).unwrap().1, 2);
        std::fs::write(&path, "something else").unwrap();
        assert!(PostLog::open(&path).is_err());
    }
}
