//! The POST log on a disk that accepts only a part of a record.
//!
//! This test is a program of its own, because the limit of file sizes applies to the whole process.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod started;

use std::fs;

use perpacket_serve::{Architecture, Spec};
use rustix::process::{Resource, Rlimit, setrlimit};
use started::{Started, spec};

/// Length of a record of the log.
const RECORD_BYTES: u64 = 139;

#[test]
fn a_record_that_the_disk_accepts_only_in_part_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("file_set/dir00000")).unwrap();
    fs::write(folder.path().join("file_set/dir00000/class1_3"), "content").unwrap();
    let log = folder.path().join("post.log");
    let spec = Spec {
        post_log: Some(log.clone()),
        ..spec(Architecture::Threads)
    };
    let server = Started::over(folder, spec);
    let body = "dir=0&class=1&file=3&client=7";
    let request = format!(
        "POST /specweb99/post HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let limit_bytes = |current| Rlimit {
        current: Some(current),
        maximum: None,
    };
    setrlimit(Resource::Fsize, limit_bytes(2 * RECORD_BYTES + 50)).unwrap();
    let statuses = [(); 4].map(|()| server.request(&request).status);
    assert_eq!(statuses, [200, 200, 500, 500]);
    assert_eq!(fs::metadata(&log).unwrap().len(), 2 * RECORD_BYTES);
    setrlimit(Resource::Fsize, limit_bytes(1 << 30)).unwrap();
    assert_eq!(server.request(&request).status, 200);
    assert_eq!(fs::metadata(&log).unwrap().len(), 3 * RECORD_BYTES);
}
