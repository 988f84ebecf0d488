//! Options on the command line and in files: equal values, errors for options without effect, and
//! messages with the command that was typed.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

mod command;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use command::{agent, error};

const URL: &str = "http://127.0.0.1:1/";

/// The words of a command line that name its verb.
fn verb_of(line: &str) -> String {
    let words = if line.starts_with("profile") { 1 } else { 2 };
    let words: Vec<&str> = line.split_whitespace().take(words).collect();
    words.join(" ")
}

/// The output of `--show-config`.
fn shown(line: &str) -> String {
    let verb = verb_of(line);
    let output = agent(&format!("{verb} --show-config {}", &line[verb.len()..]));
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Each verb with its required arguments.
const LINES: [&str; 12] = [
    "bench switch --members 2 --kinds threads --point-limit 1ms",
    "load http http://127.0.0.1:1/ --rate 2.5",
    "load http https://h/ --workload surge --ca f",
    "load http http://127.0.0.1:1/ --replay log --speed max",
    "load stream --to 127.0.0.1:1 --bit-rate 8Mb/s",
    "load stream --listen 127.0.0.1:0 --once",
    "load files worldcup --into site",
    "load compare a.json b.json",
    "serve web --root . --architecture threads",
    "profile --duration 3 -- ls --all",
    "profile --event-file own.toml",
    "profile --self-check",
];

#[test]
fn show_config_prints_a_complete_configuration_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("options.toml");
    for line in LINES {
        let text = shown(line);
        fs::write(&file, &text).unwrap();
        let again = shown(&format!("{} --config {}", verb_of(line), file.display()));
        assert_eq!(again, text, "{line}");
        let keys = text.lines().filter_map(|line| line.split(" = ").next());
        for key in keys {
            assert!(!key.contains('_'), "{key} is not the option's name");
        }
    }
}

#[test]
fn show_config_prints_the_resolved_options() {
    let text = shown(&format!("load http {URL}"));
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["url"].as_str(), Some(URL));
    assert_eq!(table["connections"].as_integer(), Some(64));
    assert_eq!(table["duration"].as_str(), Some("10s"));
    assert_eq!(table["workload"].as_str(), Some("file"));
    assert!(table["threads"].as_integer().unwrap() > 0);
    assert!(!table.contains_key("users"), "{text}");
}

/// If a default depends on other options, the help has words instead of a value.
#[test]
fn the_help_states_the_actual_defaults() {
    let cases: [(&str, &[&str]); 5] = [
        (
            "serve web --root . --architecture threads",
            &["threads", "sendfile-above", "cache-size", "revalidate"],
        ),
        (
            "load stream --to 127.0.0.1:1",
            &["connections", "segment-size", "direction", "duration"],
        ),
        ("load http http://127.0.0.1:1/ --workload surge", &["users"]),
        ("serve web --routes", &["coalesce"]),
        ("profile", &["frequency", "taxonomy", "events"]),
    ];
    for (line, options) in cases {
        let help = agent(&format!("{} --help", verb_of(line)));
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let table: toml::Table = shown(line).parse().unwrap();
        for option in options {
            let value = table[*option].to_string();
            let value = value.trim_matches('"');
            let (_, rest) = help.split_once(&format!("--{option} ")).unwrap();
            let end = rest.find("\n      --").unwrap_or(rest.len());
            let words = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
            let expected = format!("[default: {value}]");
            assert!(words.contains(&expected), "--{option}: {words}");
        }
    }
}

#[test]
fn the_command_line_overrides_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("options.toml");
    fs::write(
        &file,
        "url = 'http://file/'\nthreads = 1\nconnections = 7\n",
    )
    .unwrap();
    let file = file.display();
    let text = shown(&format!("load http {URL} --config {file} --connections=3"));
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["url"].as_str(), Some(URL));
    assert_eq!(table["connections"].as_integer(), Some(3));
    assert_eq!(table["threads"].as_integer(), Some(1));
}

#[test]
fn options_after_two_dashes_belong_to_the_profiled_command() {
    let command = ["server", "--config", "/nowhere/server.toml", "--delay-us=1"];
    let text = shown(&format!("profile -- {}", command.join(" ")));
    let table: toml::Table = text.parse().unwrap();
    let words: Vec<String> = table["command"].clone().try_into().unwrap();
    assert_eq!(words, command);
}

/// The output of the agent under the front's name, `perpacket`.
fn front(line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_perpacket-lab-agent"))
        .arg0("perpacket")
        .args(line.split_whitespace())
        .output()
        .unwrap();
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn help_and_hints_name_the_command_that_was_typed() {
    for verb in [
        "load http",
        "load stream",
        "load files",
        "load compare",
        "load media",
        "serve web",
        "serve media",
        "profile",
        "link",
    ] {
        let help = format!("{verb} --help");
        let text = front(&help);
        assert!(!text.contains("perpacket-agent"), "{text}");
        assert!(
            text.matches(&format!("perpacket {verb}")).count() >= 2,
            "usage and example: {text}"
        );
        let output = agent(&help);
        let own = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(own.contains("perpacket-agent"), "{own}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("options.toml");
    fs::write(&file, "nonsense = 1\n").unwrap();
    let text = front(&format!("load http {URL} --config {}", file.display()));
    assert!(text.contains("`perpacket load http --help`"), "{text}");
}
