//! Options on the command line and in files: equal values, errors for options without effect, and
//! messages with the command that was typed.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

mod command;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use command::{agent, error};

const URL: &str = "http://127.0.0.1:1/";

/// The words of a command line that name its verb, and the rest.
fn verb_of<'a>(arguments: &'a [&'a str]) -> (&'a [&'a str], &'a [&'a str]) {
    arguments.split_at(if arguments[0] == "profile" { 1 } else { 2 })
}

/// The output of `--show-config`.
fn shown(arguments: &[&str]) -> String {
    let (verb, rest) = verb_of(arguments);
    let output = agent(&[verb, &["--show-config"], rest].concat());
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Each verb with its required arguments.
const VERBS: [&[&str]; 11] = [
    &["load", "http", URL, "--rate", "2.5"],
    &[
        "load",
        "http",
        "https://h/",
        "--workload",
        "surge",
        "--ca",
        "f",
    ],
    &["load", "http", URL, "--replay", "log", "--speed", "max"],
    &[
        "load",
        "stream",
        "--to",
        "127.0.0.1:1",
        "--bit-rate",
        "8Mb/s",
    ],
    &["load", "stream", "--listen", "127.0.0.1:0", "--once"],
    &["load", "files", "worldcup", "--into", "site"],
    &["load", "compare", "a.json", "b.json"],
    &["serve", "web", "--root", ".", "--architecture", "threads"],
    &["profile", "--duration", "3", "--", "ls", "--all"],
    &["profile", "--event-file", "own.toml"],
    &["profile", "--self-check"],
];

#[test]
fn show_config_prints_a_complete_configuration_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("options.toml");
    for arguments in VERBS {
        let text = shown(arguments);
        fs::write(&file, &text).unwrap();
        let named = ["--config", file.to_str().unwrap()];
        let again = shown(&[verb_of(arguments).0, &named].concat());
        assert_eq!(again, text, "{arguments:?}");
        let keys = text.lines().filter_map(|line| line.split(" = ").next());
        for key in keys {
            assert!(!key.contains('_'), "{key} is not the option's name");
        }
    }
}

#[test]
fn show_config_prints_the_resolved_options() {
    let text = shown(&["load", "http", URL]);
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
    let cases: [(&[&str], &[&str]); 5] = [
        (
            &["serve", "web", "--root", ".", "--architecture", "threads"],
            &["threads", "sendfile-above", "cache-size", "revalidate"],
        ),
        (
            &["load", "stream", "--to", "127.0.0.1:1"],
            &["connections", "segment-size", "direction", "duration"],
        ),
        (&["load", "http", URL, "--workload", "surge"], &["users"]),
        (&["serve", "web", "--routes"], &["coalesce"]),
        (&["profile"], &["frequency", "taxonomy", "events"]),
    ];
    for (arguments, options) in cases {
        let (verb, _) = verb_of(arguments);
        let help = agent(&[verb, &["--help"]].concat());
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let table: toml::Table = shown(arguments).parse().unwrap();
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
    let file = file.to_str().unwrap();
    let text = shown(&["load", "http", URL, "--config", file, "--connections=3"]);
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["url"].as_str(), Some(URL));
    assert_eq!(table["connections"].as_integer(), Some(3));
    assert_eq!(table["threads"].as_integer(), Some(1));
}

#[test]
fn options_after_two_dashes_belong_to_the_profiled_command() {
    let command = ["server", "--config", "/nowhere/server.toml", "--delay-us=1"];
    let text = shown(&[&["profile", "--"], &command[..]].concat());
    let table: toml::Table = text.parse().unwrap();
    let words: Vec<String> = table["command"].clone().try_into().unwrap();
    assert_eq!(words, command);
}

#[test]
fn the_error_for_an_option_without_effect_names_the_option_that_it_needs() {
    let cases: [(&[&str], [&str; 2]); 17] = [
        (&["http", URL, "--spin", "5us"], ["--spin", "--rate"]),
        (&["http", URL, "--users", "5"], ["--users", "surge"]),
        (
            &["http", URL, "--workload", "surge", "--connections", "5"],
            ["--connections", "--users"],
        ),
        (
            &["http", URL, "--arrivals", "poisson"],
            ["--arrivals", "--rate"],
        ),
        (&["http", URL, "--speed", "2"], ["--speed", "--replay"]),
        (&["http", URL, "--spread", "none"], ["--spread", "--replay"]),
        (
            &[
                "http", URL, "--replay", "f", "--speed", "max", "--spread", "none",
            ],
            ["--spread", "--speed max"],
        ),
        (
            &["http", URL, "--replay", "f", "--repeat"],
            ["--repeat", "--speed max"],
        ),
        (
            &["http", URL, "--object-mappings", "f"],
            ["--object-mappings", "--replay"],
        ),
        (&["http", URL, "--insecure"], ["--insecure", "https"]),
        (
            &["http", URL, "--tls-resumption", "on"],
            ["--tls-resumption", "https"],
        ),
        (&["http", URL, "--ca", "f"], ["--ca", "https"]),
        (
            &["files", "surge", "--into", "d", "--seed", "1"],
            ["--seed", "worldcup"],
        ),
        (
            &["files", "surge", "--into", "d", "--connections", "1"],
            ["--connections", "specweb99"],
        ),
        (
            &["stream", "--listen", "127.0.0.1:0", "--bit-rate", "1"],
            ["--bit-rate", "--to"],
        ),
        (
            &["stream", "--to", "127.0.0.1:1", "--once"],
            ["--once", "--listen"],
        ),
        (
            &[
                "stream",
                "--to",
                "127.0.0.1:1",
                "--cpus",
                "0",
                "--threads",
                "1",
            ],
            ["--threads", "--cpus"],
        ),
    ];
    for (arguments, names) in cases {
        let output = agent(&[&["load"], arguments].concat());
        let text = error(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        for name in names {
            assert!(text.contains(name), "{arguments:?}: {text}");
        }
    }
}

#[test]
fn the_error_for_a_wrong_value_names_the_option_and_the_expected_value() {
    let cases: [(&[&str], &str); 14] = [
        (
            &["load", "http", URL, "--duration", "-1"],
            "invalid value '-1' for '--duration <TIME>': expected seconds",
        ),
        (
            &["load", "http", "127.0.0.1:8080/x"],
            "no http:// or https://",
        ),
        (&["load", "http", "http://h/%zz"], "two hexadecimal digits"),
        (&["load", "stream"], "--listen ADDR:PORT or --to ADDR:PORT"),
        (
            &["load", "stream", "--to", "127.0.0.1:1", "--warmup", "-2"],
            "invalid value '-2' for '--warmup <TIME>'",
        ),
        (
            &["profile", "--rules", "/nowhere/rules.toml"],
            "--rules /nowhere/rules.toml",
        ),
        (
            &["profile", "--rules", "f", "--events", "accounts"],
            "--rules has no effect with --events accounts",
        ),
        (
            &["serve", "media", "--root", ".", "--buffer-packets", "5"],
            "--buffer-packets has no effect without --buffering single or --buffering double",
        ),
        (
            &[
                "serve",
                "media",
                "--root=.",
                "--buffering=unbuffered",
                "--buffer-packets=5",
            ],
            "--buffer-packets has no effect without --buffering single or --buffering double",
        ),
        (
            &[
                "serve",
                "media",
                "--root=.",
                "--buffering=double",
                "--readers=2",
            ],
            "--readers has no effect without --buffering shared or --buffering mapped",
        ),
        (
            &[
                "serve",
                "media",
                "--root=.",
                "--buffering=single",
                "--cache-size=1MiB",
            ],
            "--cache-size has no effect without --buffering shared or --buffering mapped",
        ),
        (
            &[
                "serve",
                "media",
                "--root=.",
                "--buffering=single",
                "--ahead=1ms",
            ],
            "--ahead has no effect without --buffering shared or --buffering mapped",
        ),
        (
            &["profile", "--frequency", "9", "--events", "accounts"],
            "--frequency has no effect with --events accounts",
        ),
        (
            &["profile", "--event-file", "/nowhere/set.toml"],
            "--event-file /nowhere/set.toml",
        ),
    ];
    for (arguments, expected) in cases {
        let output = agent(arguments);
        let text = error(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
        assert!(!text.contains("tip:"), "{text}");
    }
}

/// The output of the agent under the front's name, `perpacket`.
fn front(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_perpacket-lab-agent"))
        .arg0("perpacket")
        .args(arguments)
        .output()
        .unwrap();
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn help_and_hints_name_the_command_that_was_typed() {
    let verbs: [&[&str]; 9] = [
        &["load", "http"],
        &["load", "stream"],
        &["load", "files"],
        &["load", "compare"],
        &["load", "media"],
        &["serve", "web"],
        &["serve", "media"],
        &["profile"],
        &["link"],
    ];
    for verb in verbs {
        let typed = format!("perpacket {}", verb.join(" "));
        let help = [verb, &["--help"]].concat();
        let text = front(&help);
        assert!(!text.contains("perpacket-agent"), "{text}");
        assert!(
            text.matches(&typed).count() >= 2,
            "usage and example: {text}"
        );
        let output = agent(&help);
        let own = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(own.contains("perpacket-agent"), "{own}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("options.toml");
    fs::write(&file, "nonsense = 1\n").unwrap();
    let text = front(&["load", "http", URL, "--config", file.to_str().unwrap()]);
    assert!(text.contains("`perpacket load http --help`"), "{text}");
}
