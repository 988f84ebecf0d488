//! Recordings by the program `perf` on this machine.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use perpacket_profiler::recording::{Settings, Traffic, analyse};

use super::layout::Folder;

/// Records with perf; `None` if it cannot record here.
fn recorded_by_perf(folder: &Folder, arguments: &[&str]) -> Option<PathBuf> {
    let path = folder.0.path().join("own.data");
    let recorded = Command::new("perf")
        .args(["record", "-g", "-F", "997", "-o"])
        .arg(&path)
        .args(arguments)
        .current_dir(folder.0.path())
        .output();
    if !recorded.is_ok_and(|output| output.status.success()) {
        perpacket_requirements::skip("peers", "the program `perf` cannot record here");
        return None;
    }
    Some(path)
}

/// Settings for a recording of this machine.
fn own(path: PathBuf, traffic: Traffic) -> Settings {
    Settings {
        file: path,
        traffic,
        kallsyms: Some("/proc/kallsyms".into()),
        rules: None,
        pid: None,
        keeps_offsets: false,
    }
}

#[test]
fn a_recording_of_this_machine_has_the_samples_that_perf_counts() {
    let folder = Folder::new();
    let command = "ip -s -j link > before; sleep 0.5; ip -s -j link > after";
    let arguments = [
        "-a",
        "-e",
        "cpu-clock",
        "--namespaces",
        "--",
        "sh",
        "-c",
        command,
    ];
    let Some(path) = recorded_by_perf(&folder, &arguments) else {
        return;
    };
    let listed = Command::new("perf")
        .args(["script", "-F", "cpu", "-G", "-i"])
        .arg(&path)
        .output()
        .unwrap();
    let samples = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    let report = analyse(&own(path.clone(), Traffic::Unknown))
        .unwrap()
        .report;
    assert_eq!(report.samples, samples as u64);
    assert!(report.unclaimed_share < 0.5, "{}", report.unclaimed_share);

    let [before, after] = ["before", "after"].map(|name| folder.0.path().join(name));
    let between = analyse(&own(path, Traffic::Links(before, after))).unwrap();
    let between = between.report;
    assert!(between.window_s >= 0.5, "{}", between.window_s);
    assert!(between.window_s <= report.window_s, "{}", report.window_s);
    assert!((1..=report.samples).contains(&between.samples));
}

#[test]
fn parts_of_a_machine_are_refused_by_the_option_that_chose_them() {
    let folder = Folder::new();
    let own_pid = std::process::id().to_string();
    for (arguments, reason) in [
        (vec!["-p", &own_pid, "--", "sleep", "0.1"], "perf record -p"),
        (
            vec!["--sample-cpu", "-dp", &own_pid, "--", "sleep", "0.1"],
            "perf record -dp",
        ),
        (vec!["--", "sleep", "0.1"], "without -a"),
    ] {
        let arguments = [&["-e", "cpu-clock"], &arguments[..]].concat();
        let Some(path) = recorded_by_perf(&folder, &arguments) else {
            return;
        };
        let error = analyse(&own(path, Traffic::Unknown)).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn code_that_the_recording_excludes_is_not_missing() {
    let folder = Folder::new();
    let arguments = ["-a", "-e", "cpu-clock:u", "--", "sleep", "0.3"];
    let Some(path) = recorded_by_perf(&folder, &arguments) else {
        return;
    };
    let report = match analyse(&own(path, Traffic::Unknown)) {
        Ok(recorded) => recorded.report,
        // No user code ran.
        Err(error) => return assert!(error.to_string().contains("no samples"), "{error}"),
    };
    assert_eq!(report.missing_share, None);
    let notes = report.limits.join("\n");
    assert!(notes.contains("excludes the kernel"), "{notes}");
    assert!(!notes.contains("samples are missing"), "{notes}");
}

/// The shapes that this machine can record. Recordings of some processes are tested above, and other
/// architectures in `tests/test_machines.py`.
#[test]
fn each_shape_of_a_recording_is_read_or_refused_with_the_option_that_avoids_it() {
    let folder = Folder::new();
    let whole = ["-a", "-e", "cpu-clock", "--", "sleep", "0.3"];
    for (shape, refusal) in [
        (vec!["--call-graph", "dwarf"], None),
        (vec!["-e", "context-switches"], None),
        (vec!["--timestamp", "--sample-identifier"], None),
        (vec!["-z"], Some("expected a recording without -z")),
    ] {
        let Some(path) = recorded_by_perf(&folder, &[&shape[..], &whole].concat()) else {
            return;
        };
        match (analyse(&own(path, Traffic::Unknown)), refusal) {
            (Ok(recorded), None) => assert!(recorded.report.samples > 0, "{shape:?}"),
            (Err(error), Some(refusal)) => assert!(error.to_string().contains(refusal), "{error}"),
            (Ok(_), Some(refusal)) => panic!("{shape:?}: read, expected {refusal:?}"),
            (Err(error), None) => panic!("{shape:?}: {error}"),
        }
    }

    let piped = folder.0.path().join("piped");
    let recorded = Command::new("perf")
        .args([
            "record",
            "-a",
            "-e",
            "cpu-clock",
            "-o",
            "-",
            "--",
            "sleep",
            "0.1",
        ])
        .stdout(File::create(&piped).unwrap())
        .status();
    assert!(recorded.unwrap().success());
    let error = analyse(&own(piped, Traffic::Unknown)).unwrap_err();
    assert!(error.to_string().contains("perf record -o FILE"), "{error}");

    let killed = folder.0.path().join("killed");
    let mut perf = Command::new("perf")
        .args(["record", "-a", "-g", "-e", "cpu-clock", "-o"])
        .arg(&killed)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // perf writes the header first, and the size of the data at its end.
    while fs::metadata(&killed).map_or(0, |file| file.len()) == 0 {
        assert!(perf.try_wait().unwrap().is_none(), "perf ended");
        thread::sleep(Duration::from_millis(10));
    }
    perf.kill().unwrap();
    perf.wait().unwrap();
    let error = analyse(&own(killed, Traffic::Unknown)).unwrap_err();
    assert!(error.to_string().contains("ends early"), "{error}");
}
