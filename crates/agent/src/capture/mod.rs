//! `capture`: what `perpacket advise` reads, as one file. It needs a shell and no Python.
//!
//! `capture.sh` collects. On machines without perpacket, the same script runs alone. The agent adds the
//! stacks by its own profile.

use std::io::{self, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{env, thread};

use perpacket_profiler::spec::Length;
use perpacket_spec::Spec;
use rustix::process::{Pid, Signal, kill_process_group};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Output, ResultFile, write, write_bytes};
use crate::status::{Failure, Status};
use crate::stop;
use crate::verb::Verb;

const EXAMPLE: &str = "\
Examples:
  perpacket-agent capture --output web7.case --pid $(pidof -s nginx)
  perpacket-agent capture --script > capture.sh

The script makes the file where nothing may be installed: sh capture.sh 30 > web7.case";

const SCRIPT: &str = include_str!("capture.sh");

/// How often a running script is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Collect what `advise` reads into one file: counters, settings, and stacks.
///
/// The file has no addresses, no names of hosts or users, and no arguments of programs. `perpacket case
/// show` prints all of it, and `perpacket advise FILE` reads it.
#[derive(Clone, Debug, clap::Args, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CaptureSpec {
    /// The file to write, by default standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Length of the window.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    duration: Length,
    /// Process of the server: its network namespace, and its user code.
    #[arg(long, value_name = "PID", conflicts_with = "script")]
    pid: Option<u32>,
    /// Also sum the work of a control group and everything below it.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["script", "pid"])]
    cgroup: Option<String>,
    /// Keep the addresses and the names of the machine.
    #[arg(long, conflicts_with = "script")]
    names: bool,
    /// Print a shell script that makes the file on a machine without perpacket.
    #[arg(long, conflicts_with = "output")]
    script: bool,
}

impl Spec for CaptureSpec {}

/// The file that was written.
#[derive(Clone, Debug, Serialize)]
struct Captured {
    /// Version of this document.
    schema: u32,
    /// The file.
    output: PathBuf,
    /// Its size.
    bytes: u64,
}

pub fn verb() -> Verb {
    Verb::new("capture", EXAMPLE, |spec, output| run(&spec, output))
}

fn run(spec: &CaptureSpec, output: &Output) -> Result<Status, Failure> {
    if spec.script {
        write(SCRIPT)?;
        return Ok(Status::Done);
    }
    let file = ResultFile::of("output", spec.output.as_deref())?;
    if file.is_none() && io::stdout().is_terminal() {
        let message = "the file is not for a terminal: expected --output FILE, or `> FILE`";
        return Err(Failure::usage(message.to_owned()));
    }
    if let Some(pid) = spec.pid
        && !PathBuf::from(format!("/proc/{pid}")).exists()
    {
        return Err(Failure::usage(format!("--pid {pid}: no such process")));
    }
    let stop = stop::on_signals()?;
    let own = env::current_exe().map_err(Failure::failed)?;
    let seconds = spec.duration.0.as_secs_f64();
    let pid = spec.pid.map(|pid| pid.to_string()).unwrap_or_default();
    let mut child = Command::new("sh")
        .args(["-s", &seconds.to_string(), &pid])
        .arg(own)
        .arg(spec.cgroup.as_deref().unwrap_or_default())
        .arg(if spec.names { "names" } else { "" })
        // Signals reach the script and its programs through this process.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(if output.quiet {
            Stdio::null()
        } else {
            Stdio::inherit()
        })
        .spawn()
        .map_err(|error| Failure::lacking(format!("sh: {error}")))?;
    if let Some(mut input) = child.stdin.take() {
        input
            .write_all(SCRIPT.as_bytes())
            .map_err(Failure::failed)?;
    }
    let group = Pid::from_child(&child);
    let ends = thread::spawn(move || child.wait_with_output());
    while !ends.is_finished() {
        if stop.load(Ordering::Relaxed) {
            let _ = kill_process_group(group, Signal::TERM);
        }
        thread::sleep(POLL);
    }
    let done = ends
        .join()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    let done = done.map_err(Failure::failed)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(Status::Interrupted);
    }
    if !done.status.success() || done.stdout.is_empty() {
        return Err(Failure::failed(format!(
            "the script that collects ended with {}",
            done.status
        )));
    }
    let Some(file) = file else {
        write_bytes(&done.stdout)?;
        return Ok(Status::Done);
    };
    file.write_by(|out| out.write_all(&done.stdout))?;
    let captured = Captured {
        schema: 1,
        output: spec.output.clone().unwrap_or_default(),
        bytes: done.stdout.len() as u64,
    };
    output.print(&captured, |captured| {
        format!("{}: {} bytes\n", captured.output.display(), captured.bytes)
    })?;
    Ok(Status::Done)
}
