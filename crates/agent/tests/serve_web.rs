//! Tests of the program `serve web`: how it starts, ends, reports, and runs out of descriptors.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is the test's failure"
)]

use perpacket_requirements::{DISTURBED, skip};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const AGENT: &str = env!("CARGO_BIN_EXE_perpacket-agent");
const WEB: &str = "serve web --routes --listen 127.0.0.1:0 --quiet";

/// A running `serve web`. It is ended with the test.
struct Web {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Web {
    fn start(options: &str) -> Self {
        Self::start_by(Command::new(AGENT), options)
    }

    fn start_by(mut command: Command, options: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("file_set/dir00000")).unwrap();
        fs::write(folder.path().join("file_set/dir00000/class0_1"), "content").unwrap();
        command
            .args(WEB.split(' '))
            .arg("--root")
            .arg(folder.path());
        if is_root() && !options.contains("--user") {
            command.args(["--user", "root"]);
        }
        let mut child = command
            .args(options.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        child.stderr = Some(errors.into_inner());
        Self {
            child,
            address,
            folder,
        }
    }

    /// Sends a request on a new connection and returns the whole response.
    fn get(&self, target: &str) -> String {
        let mut stream = self.connect();
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let mut answer = Vec::new();
        // A server without free descriptors may close the connection early.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(600)))
            .unwrap();
        stream
    }

    fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let status = Command::new("kill").args([name, &process]).status();
        assert!(status.unwrap().success());
    }

    /// Ends the server with a signal. Returns its exit status and the rest of its output.
    fn finish(mut self) -> (Option<i32>, String) {
        self.signal("-INT");
        self.end()
    }

    /// Waits until the server ends. Returns its exit status and the rest of its output.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        let mut output = self.child.stdout.take().unwrap();
        output.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn the_user_of_the_server_reads_no_private_file() {
    if !is_root() {
        skip("root", "this test changes the user of a server");
        return;
    }
    for (user, uid, status) in [
        ("nobody", "65534", "HTTP/1.1 403"),
        ("root", "0", "HTTP/1.1 200"),
    ] {
        let web = Web::start(&format!("--user {user}"));
        let folder = web.folder.path();
        fs::write(folder.join("private"), "private").unwrap();
        for (path, mode) in [(folder.to_owned(), 0o755), (folder.join("private"), 0o600)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let process = fs::read_to_string(format!("/proc/{}/status", web.child.id())).unwrap();
        let uids = process
            .lines()
            .find(|line| line.starts_with("Uid:"))
            .unwrap();
        assert!(
            uids.split_whitespace().skip(1).all(|shown| shown == uid),
            "{uids}"
        );
        let public = web.get("/file_set/dir00000/class0_1");
        assert!(public.starts_with("HTTP/1.1 200"), "{user}: {public}");
        let private = web.get("/private");
        assert!(private.starts_with(status), "{user}: {private}");
    }
}

#[test]
fn it_prints_its_address_serves_files_and_reports_at_its_end() {
    let web = Web::start("--format json --cpus 0");
    for _ in 0..3 {
        assert!(
            web.get("/file_set/dir00000/class0_1")
                .ends_with("\r\n\r\ncontent")
        );
    }
    let (status, text) = web.finish();
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], 2);
    assert_eq!(report["requests"], 3);
    assert_eq!(report["cores"], serde_json::json!([0]));
    let number = |value: &Value| value.as_f64().unwrap();
    let each_us = number(&report["per_request"]["cpu_us"]);
    let startup_s = number(&report["startup"]["cpu_s"]);
    let all_s = number(&report["cpu_s"]["user"]) + number(&report["cpu_s"]["system"]);
    assert!(each_us > 0.0 && startup_s > 0.0, "{report}");
    let serving_s = each_us * 3.0 / 1e6;
    assert!((serving_s + startup_s - all_s).abs() < 1e-6, "{report}");
}

#[test]
fn a_signal_prints_a_report_of_one_line() {
    let mut web = Web::start("");
    web.get("/bytes/10");
    web.signal("-USR1");
    let mut line = String::new();
    let mut output = BufReader::new(web.child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(report["responses"]["200"], 1);
    web.child.stdout = Some(output.into_inner());
    assert_eq!(web.finish().0, Some(0));
}

/// timeout(1) signals its command, and then the command's process group.
#[test]
fn two_signals_within_half_a_second_count_as_one() {
    let mut web = Web::start("--format json");
    let begin = Instant::now();
    web.signal("-TERM");
    web.signal("-INT");
    if begin.elapsed() > Duration::from_millis(400) {
        skip(DISTURBED, "the signals came too far apart");
        return;
    }
    let (status, text) = web.end();
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], 2);
}

#[test]
fn processes_share_the_work_and_their_counts_are_summed() {
    let web = Web::start("--architecture processes --threads 3 --format json");
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = web.connect();
        stream
            .write_all(b"GET /work?us=20000 HTTP/1.1\r\nHost: h\r\n\r\n")
            .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        open.push(stream);
    }
    drop(open);
    let answer = web.get("/.perpacket/report");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let report: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        report["requests"], 3,
        "each by another process, as connections stayed open"
    );
    let cpu_s = |name: &str| report["cpu_s"][name].as_f64().unwrap();
    assert!(
        cpu_s("user") + cpu_s("system") >= 0.055,
        "the work of all three: {report}"
    );
    let (status, text) = web.finish();
    assert_eq!(status, Some(0));
    let last: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(last["requests"], 3);
}

/// The live child processes of a process.
fn children_of(parent: u32) -> Vec<String> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let names = numbers.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_child = |process: &String| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        fields.split(' ').nth(1) == Some(parent.to_string().as_str())
    };
    names.filter(is_child).collect()
}

/// Whether a process still runs, that is, has not ended and is not a zombie.
fn is_alive(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

/// This also tests a server that became another user. The change of user clears the signal that a
/// child gets at its parent's death (prctl(2)).
#[test]
fn a_killed_server_leaves_no_process() {
    let mut server = Command::new(AGENT)
        .args(WEB.split(' '))
        .args(["--architecture", "processes", "--threads", "3"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = |is_so: &dyn Fn() -> bool| {
        (0..12_000).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            is_so()
        })
    };
    let all_there = until(&|| children_of(server.id()).len() == 3);
    let children = children_of(server.id());
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(all_there, "{children:?}");
    assert!(until(&|| !children.iter().any(|child| is_alive(child))));
}

#[test]
fn without_free_descriptors_it_sheds_load_and_recovers() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\"", AGENT]);
    let web = Web::start_by(shell, "--max-connections 100000 --cpus 0");
    let crowd: Vec<TcpStream> = (0..100).map(|_| web.connect()).collect();
    let turned_away = web.get("/bytes/10");
    assert!(
        turned_away.is_empty() || turned_away.starts_with("HTTP/1.1 503"),
        "{turned_away}"
    );
    drop(crowd);
    let mut answer = String::new();
    for _ in 0..60_000 {
        answer = web.get("/file_set/dir00000/class0_1");
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(answer.ends_with("content"), "{answer}");
    let (status, text) = web.finish();
    assert_eq!(status, Some(0));
    assert!(text.contains("shed"), "{text}");
}

#[test]
fn a_program_answers_the_cgi_operation() {
    for options in [
        "--architecture events",
        "--architecture threads --threads 2",
    ] {
        let web = Web::start(options);
        let answer = web.get("/specweb99/cgi?file=/file_set/dir00000/class0_1");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("<pre>\ncontent\n</pre>"), "{answer}");
        let absent = web.get("/specweb99/cgi?file=/file_set/dir00009/class0_1");
        assert!(absent.starts_with("HTTP/1.1 502"), "{absent}");
        assert!(web.folder.path().exists());
    }
}
