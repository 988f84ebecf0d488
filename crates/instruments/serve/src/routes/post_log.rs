//! SPECweb99's POST log: one record of fixed length for each POST.
//!
//! The benchmark checks after a run that the log has a record of each POST. A record is one write
//! to a file opened for appending. If the disk accepts only a part of it, the log is truncated to
//! its previous length, so that later records do not follow an incomplete one. No other writer may
//! append in between: a mutex excludes other threads, and a record lock (fcntl(2), `F_SETLKW`)
//! excludes other processes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use perpacket_linux::mailbox::lock;
use rustix::fs::{FlockOperation, fcntl_lock};

use super::specweb99::Form;
use crate::error::ServeError;

/// Length of a record: ten fields, the blanks between them, and the end of the line.
pub const RECORD_BYTES: u64 = 139;

/// The open log.
#[derive(Debug)]
pub struct PostLog {
    file: Mutex<File>,
}

impl PostLog {
    /// Opens or creates the log. Returns the log and its number of records.
    ///
    /// # Errors
    /// The file cannot be opened, or it is not a POST log.
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
                "{bytes} bytes: expected a multiple of {RECORD_BYTES}, the length of a record; hint: name a new file"
            )));
        }
        let file = Mutex::new(file);
        Ok((Self { file }, bytes / RECORD_BYTES))
    }

    /// Appends a record: its number, the time in seconds, the process, directory, class and file,
    /// the client, the file's path, the process again, and the cookie sent back.
    ///
    /// # Errors
    /// The disk is full, or writing failed.
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
        let mut file = lock(&self.file);
        fcntl_lock(&*file, FlockOperation::LockExclusive)?;
        let result = append(&mut file, line.as_bytes());
        let unlocked = fcntl_lock(&*file, FlockOperation::Unlock);
        result.and(unlocked.map_err(io::Error::from))
    }
}

/// Appends the whole record or nothing.
fn append(file: &mut File, record: &[u8]) -> io::Result<()> {
    let before_bytes = file.metadata()?.len();
    let written = loop {
        match file.write(record) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    if written == record.len() {
        return Ok(());
    }
    file.set_len(before_bytes)?;
    Err(io::ErrorKind::StorageFull.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_log_is_continued_and_another_file_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("post.log");
        let (log, records) = PostLog::open(&path).unwrap();
        assert_eq!(records, 0);
        let form = Form::parse(b"dir=12&class=3&file=8&client=7").unwrap();
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
