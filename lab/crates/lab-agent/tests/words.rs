//! Snapshots of help, error messages and tables, so that every change of words is visible.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p perpacket-lab-agent --test words` updates them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use command::{agent, error};
use serde_json::Value;

/// All verbs and their groups. The first is the executable itself.
fn verbs() -> BTreeSet<String> {
    let output = agent("schema");
    let schema: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
    let groups = schema.keys().filter_map(|verb| verb.split_once(' '));
    let groups = groups.map(|(group, _)| group.to_owned());
    [String::new(), "run".to_owned(), "parse".to_owned()]
        .into_iter()
        .chain(groups)
        .chain(schema.keys().cloned())
        .collect()
}

/// Command lines that end with an error on every machine.
const MISTAKES: &[&str] = &[
    "bench memory --largest 1.5",
    "bench memory --largest 100",
    "bench memory --strides 3",
    "bench switch --members 1",
    "bench switch --point-limit soon",
    "export --listen 9430",
    "export --names 0",
    "frobnicate",
    "link --left a --right b --cpus 3-1",
    "link --left no-such --right neither --bit-rate 1Mb/s --queue-packets 9 \
     --left-to-right-queue-packets 9",
    "link --left no-such --right neither --left-to-right-bit-rate 1Mb/s \
     --right-to-left-queue-packets 9",
    "link --left no-such --right neither --queue-packets 9",
    "link --left no-such --right neither --right-to-left-bit-rate 1Mb/s \
     --left-to-right-queue-packets 9",
    "link --left no-such --right neither --right-to-left-bit-rate 1Mb/s --queue-packets 9",
    "load files surge --into d --connections 1",
    "load files surge --into d --seed 1",
    "load files trace --into /tmp/x",
    "load http 127.0.0.1:8080/x",
    "load http ftp://x/",
    "load http http://127.0.0.1:1/ --arrivals poisson",
    "load http http://127.0.0.1:1/ --ca f",
    "load http http://127.0.0.1:1/ --dynamic",
    "load http http://127.0.0.1:1/ --histograms /nowhere/file",
    "load http http://127.0.0.1:1/ --insecure",
    "load http http://127.0.0.1:1/ --object-mappings f",
    "load http http://127.0.0.1:1/ --rate -1",
    "load http http://127.0.0.1:1/ --replay /nowhere/log",
    "load http http://127.0.0.1:1/ --replay f --repeat",
    "load http http://127.0.0.1:1/ --replay f --speed max --spread none",
    "load http http://127.0.0.1:1/ --request-log /nowhere/file",
    "load http http://127.0.0.1:1/ --shard 3/2",
    "load http http://127.0.0.1:1/ --speed 2",
    "load http http://127.0.0.1:1/ --spin 5us",
    "load http http://127.0.0.1:1/ --spread none",
    "load http http://127.0.0.1:1/ --tls-resumption on",
    "load http http://127.0.0.1:1/ --users 5",
    "load http http://127.0.0.1:1/ --workload surge --connections 5",
    "load http http://127.0.0.1:1/ --workload trace",
    "load http http://h/ --duration -1",
    "load http http://h/ --rate 1/min",
    "load http http://h/ --users 5",
    "load http http://h/%zz",
    "load media rtsp://127.0.0.1/x --duration 0",
    "load media rtsp://127.0.0.1/x --files 4",
    "load media rtsp://127.0.0.1/x --first-file 4",
    "load stream",
    "load stream --listen 127.0.0.1:0 --bit-rate 1",
    "load stream --to 127.0.0.1:1 --bit-rate 1MB/s",
    "load stream --to 127.0.0.1:1 --cpus 0 --threads 1",
    "load stream --to 127.0.0.1:1 --once",
    "load stream --to 127.0.0.1:1 --warmup -2",
    "load stream --to nowhere",
    "media synthesize --into d --duration 0",
    "profile --cgroup=",
    "profile --config /nowhere/profile.toml",
    "profile --container=",
    "profile --cpus 1023",
    "profile --event-file /nowhere/set.toml",
    "profile --every 0",
    "profile --frequency 9 --events accounts",
    "profile --rules /nowhere/rules.toml",
    "profile --rules f --events accounts",
    "profile --unit=",
    "route check --port nowhere:r0=nowhere:h0 --port nowhere:r1=nowhere:h1",
    "route check --port r0",
    "route self-test --resolution 7",
    "route self-test --trial 0",
    "serve media --root . --buffer-packets 5",
    "serve media --root . --buffering double --readers 2",
    "serve media --root . --buffering single --ahead 1ms",
    "serve media --root . --buffering single --cache-size 1MiB",
    "serve media --root . --buffering unbuffered --buffer-packets 5",
    "serve web",
    "serve web --cache-size 1",
    "serve web --cpus 1-0",
    "serve web --root . --post-log log",
    "serve web --root /nowhere",
    "serve web --routes --max-header-size 1",
    "serve web --threads 2",
    "serve web --tls-cert a.pem",
    "serve web --tls-resumption on",
];

/// Command lines whose tables are the same on every machine.
const TABLES: [&str; 2] = [
    "route self-test --capacity 100k",
    "route self-test --capacity 1k --lowest-rate 10k",
];

/// The output of a command line, with its exit status.
fn printed(line: &str) -> String {
    let output = agent(line);
    let mut text = format!("$ perpacket-agent {line}\n");
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    text.push_str(&error(&output));
    writeln!(text, "[exit status {}]\n", output.status.code().unwrap()).unwrap();
    text
}

fn snapshot_file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    folder.join(format!("{name}.txt"))
}

/// Compares a text with its snapshot, or replaces the snapshot.
fn check(name: &str, text: &str) {
    let file = snapshot_file(name);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    let pair = text.lines().zip(expected.lines());
    let changed = pair.clone().find(|(line, expected)| line != expected);
    assert!(
        text == expected,
        "{}: {changed:?}; UPDATE_SNAPSHOTS=1 accepts the change",
        file.display()
    );
}

/// The output of `--help` for a verb.
fn help(verb: &str) -> String {
    let output = agent(&format!("{verb} --help"));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_help_of_every_verb_equals_its_snapshot() {
    for verb in verbs() {
        let name = if verb.is_empty() { "agent" } else { &verb };
        check(&format!("help-{}", name.replace(' ', "-")), &help(&verb));
    }
}

#[test]
fn the_help_of_every_verb_that_runs_has_an_example() {
    for verb in verbs() {
        if verb == "parse" {
            continue;
        }
        let text = help(&verb);
        let (_, end) = text.split_once("Options:\n").unwrap();
        let has_verbs = text.contains("\nCommands:\n");
        let has_example = end.contains(&format!("perpacket-agent {verb}"));
        assert!(has_verbs || has_example, "{verb}");
    }
}

#[test]
fn error_messages_equal_their_snapshot() {
    // The list of CPUs depends on the machine.
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let text: String = MISTAKES.iter().map(|line| printed(line)).collect();
    let text = text.replace(&format!("CPUs of {}", online.trim()), "CPUs of ONLINE");
    assert!(
        !text.contains("[exit status 0]") && !text.contains("tip:"),
        "{text}"
    );
    check("errors", &text);
}

#[test]
fn tables_equal_their_snapshot() {
    let text: String = TABLES.into_iter().map(printed).collect();
    check("tables", &text);
}
