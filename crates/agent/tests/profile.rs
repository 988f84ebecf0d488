//! `profile` and `probe` as programs: exit status, standard output and standard error.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;
#[path = "../../instruments/profiler/tests/quiet/mod.rs"]
mod quiet;

use perpacket_requirements::{lacks_perf, skip};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use command::{agent, error as error_of};
use quiet::Verdict;

const AGENT: &str = env!("CARGO_BIN_EXE_perpacket-agent");

/// The accepted range around 20 us a request. If a hypervisor or a slow clock delays the machine,
/// the intervals that the self-check reports are wide and may not contain 20 us.
const FOUND_LEAST_US: f64 = 15.0;
const FOUND_MOST_US: f64 = 25.0;

/// The user id of nobody, who has no permissions on any Linux.
const NOBODY: u32 = 65_534;

fn probed() -> serde_json::Value {
    let output = agent("probe --format json");
    assert_eq!(output.status.code(), Some(0), "{}", error_of(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_probe_reports_the_cost_of_each_missing_capability() {
    let machine = probed();
    assert_eq!(machine["schema"], 1);
    for capability in machine["capabilities"].as_array().unwrap() {
        let is_there = capability["available"].as_bool().unwrap();
        assert_eq!(
            capability["next_step"].as_str().unwrap().is_empty(),
            is_there,
            "{capability}"
        );
    }
}

#[test]
fn an_interface_may_have_a_name_that_is_not_text() {
    let isolated = |script: &str| {
        Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .output()
            .unwrap()
    };
    if lacks_perf() {
        return;
    }
    let rename = "ip link set lo name \"$(printf 'a\\377b')\"";
    if !isolated(rename).status.success() {
        skip("netns", "no interface can be renamed in a namespace");
        return;
    }
    let output = isolated(&format!(
        "{rename} && {AGENT} profile --duration 0.2 --format json"
    ));
    assert_eq!(output.status.code(), Some(0), "{}", error_of(&output));
}

#[test]
fn a_profile_is_one_document_on_standard_output() {
    if lacks_perf() {
        return;
    }
    let output = agent("profile --duration 0.5 --format json");
    assert_eq!(output.status.code(), Some(0), "{}", error_of(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 1);
    for key in [
        "layers",
        "kinds",
        "regions",
        "categories",
        "modules",
        "host_stack",
    ] {
        assert!(report[key].is_object(), "{key}");
    }
    assert!(report["layers"]["tcp"]["share"].is_number());
    assert!(report["limits"].is_array());
}

#[test]
fn a_full_disk_does_not_lose_the_report() {
    if lacks_perf() {
        return;
    }
    for option in ["--pprof", "--folded"] {
        let output = agent(&format!("profile --duration 0.2 {option} /dev/full"));
        assert_eq!(output.status.code(), Some(4), "{}", error_of(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("\ntotal "));
        assert!(error_of(&output).contains("--") && error_of(&output).contains("hint: "));
    }
}

#[test]
fn a_full_standard_error_does_not_end_the_run() {
    let full = fs::File::create("/dev/full").unwrap();
    let ended = Command::new(AGENT)
        .args(["profile", "--events", "accounts", "--duration", "0.2"])
        .args(["--format", "json"])
        .stderr(full)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn every_taxonomy_has_a_table() {
    if lacks_perf() {
        return;
    }
    for taxonomy in ["layers", "regions", "modules", "categories", "host-stack"] {
        let output = agent(&format!("profile --duration 0.2 --taxonomy {taxonomy}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains("total") && text.contains("100.0 %"),
            "{taxonomy}: {text}"
        );
    }
}

#[test]
fn an_idle_machine_has_no_cost_of_its_few_packets() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = folder.path().join("script.txt");
    let samples = (100..200).map(|hundredths| {
        let (program, function) = match hundredths % 33 {
            0 => ("nginx", "tcp_sendmsg"),
            _ => ("swapper", "default_idle_call"),
        };
        format!(
            "{program} 7 [000] 1{hundredths}.000000: 10000000 cpu-clock:pppH:\n\
             \tffffffff81234567 {function}+0x10 ([kernel.kallsyms])\n\n"
        )
    });
    fs::write(&recorded, samples.collect::<String>()).unwrap();
    let table = |packets: u64| {
        let options = format!("--packets {packets} --by cpu");
        let output = agent(&format!("profile --perf {} {options}", recorded.display()));
        assert_eq!(output.status.code(), Some(0), "{}", error_of(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let few = table(99);
    assert!(!few.contains("ns/packet"), "{few}");
    assert!(
        few.contains("only 99 packets, expected 100 or more"),
        "{few}"
    );
    assert!(few.contains("only 3 busy samples"), "{few}");
    assert!(
        few.contains("the run times of processors are not known"),
        "{few}"
    );
    assert!(!few.contains("the profiler used"), "{few}");
    assert!(table(100).contains("ns/packet"));
}

/// The kernel's accounts have no functions that rules could match.
#[test]
fn a_profile_from_accounts_does_not_mention_rules() {
    let output = agent("profile --events accounts --duration 0.3");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", error_of(&output));
    assert!(text.contains("the kernel's own accounts"), "{text}");
    assert!(!text.contains("rule"), "{text}");
}

#[test]
fn each_window_is_one_line() {
    if lacks_perf() {
        return;
    }
    let output = agent("profile --every 0.2 --duration 0.5 --format json");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() >= 1);
    for line in text.lines() {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(report["schema"], 1);
    }
}

#[test]
fn without_permission_the_error_names_the_setting() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let is_strict = paranoid.is_ok_and(|text| text.trim().parse::<i32>().unwrap_or(0) > 1);
    let is_root = fs::metadata("/proc/self/exe").is_ok() && fs::read("/proc/1/environ").is_ok();
    if !is_strict || !is_root {
        skip(
            "strict_perf",
            "not root, or the kernel allows every user to profile",
        );
        return;
    }
    // Copy the executable, because other users may have no access to the build directory.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("agent");
    // Another process copies: nobody can run a file that a child of another test has open for writing.
    let copied = Command::new("cp").arg(AGENT).arg(&copy).status();
    assert!(copied.unwrap().success());
    let output = Command::new(&copy)
        .args(["profile", "--duration", "1"])
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = error_of(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(
        text.contains("/proc/sys/kernel/perf_event_paranoid is"),
        "{text}"
    );
    assert!(
        text.contains("hint: run as root, grant the agent CAP_PERFMON"),
        "{text}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn the_error_of_a_failed_command_follows_its_profile() {
    if lacks_perf() {
        return;
    }
    let output = agent("profile --format json -- timeout 0.1 sleep 9");
    assert_eq!(output.status.code(), Some(4));
    assert!(
        error_of(&output).contains("ended with exit status 124"),
        "{}",
        error_of(&output)
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["exit_status"], 124);
    let output = agent("profile -- /nowhere/program");
    assert_eq!(output.status.code(), Some(2));
    assert!(error_of(&output).contains("/nowhere/program: cannot be started"));
}

/// The output of a shell's script in a mount namespace of its own; `None` without the right to it.
fn with_own_mounts(script: &str) -> Option<std::process::Output> {
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command.output().unwrap()
    };
    if !run("mount -t tmpfs none /mnt").status.success() {
        skip("netns", "no file system can be mounted in a namespace");
        return None;
    }
    Some(run(script))
}

#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    if lacks_perf() {
        return;
    }
    let script = format!(
        "mount -t tmpfs -o size=8k none /mnt && echo old > /mnt/old.pb.gz && \
         head -c 4096 /dev/zero > /mnt/full; \
         for file in new old; do {AGENT} profile --duration 0.3 --pprof /mnt/$file.pb.gz > /dev/null; \
         echo $?; done; cd /mnt; ls -A; cat old.pb.gz"
    );
    let Some(output) = with_own_mounts(&script) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = error_of(&output);
    assert_eq!(text, "4\n4\nfull\nold.pb.gz\nold\n", "{errors}");
    assert!(
        errors.contains("--pprof /mnt/new.pb.gz: No space left"),
        "{errors}"
    );
}

#[test]
fn a_machine_without_sysfs_is_named_by_its_path() {
    let script = format!("mount -t tmpfs none /sys && {AGENT} profile --duration 0.3");
    let Some(output) = with_own_mounts(&script) else {
        return;
    };
    let errors = error_of(&output);
    assert_eq!(output.status.code(), Some(4), "{errors}");
    assert!(
        errors.contains("/sys/devices/system/cpu/online: No such file"),
        "{errors}"
    );
}

#[test]
fn a_reader_that_ends_is_no_error() {
    if lacks_perf() {
        return;
    }
    for (options, status) in [("--every 0.1s --duration 20s", 141), ("--duration 0.5s", 0)] {
        let script = format!("({AGENT} profile {options}; echo $? >&2) | head -c 1");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let errors = error_of(&output);
        let last = errors.trim_end();
        assert_eq!(last.parse(), Ok(status), "{options}: {errors}");
    }
}

#[test]
fn an_error_in_the_rules_names_the_line() {
    let place = tempfile::tempdir().unwrap();
    let rules = place.path().join("rules.toml");
    fs::write(
        &rules,
        "[[layers]]\nlayer = \"tpc\"\nfunctions = [\"tcp_*\"]\n",
    )
    .unwrap();
    let output = agent(&format!("profile --rules {}", rules.display()));
    assert_eq!(output.status.code(), Some(2));
    let text = error_of(&output);
    assert!(
        text.contains("rules.toml, line 2: no layer is called `tpc`"),
        "{text}"
    );
}

#[test]
fn a_known_user_time_of_each_request_is_found() {
    if lacks_perf() {
        return;
    }
    quiet::judge(|| {
        let output = agent("profile --self-check --format json");
        let check: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        eprintln!("{check}");
        let number = |key: &str| check[key].as_f64().unwrap();
        assert_eq!(number("injected_us"), 20.0);
        let is_found = check["is_found"].as_bool().unwrap();
        assert_eq!(output.status.code(), Some(if is_found { 0 } else { 1 }));
        assert_eq!(error_of(&output).contains("hint: "), !is_found);
        let (low_us, high_us) = (number("low_us"), number("high_us"));
        if is_found {
            Verdict::Right
        } else if low_us < FOUND_MOST_US && high_us > FOUND_LEAST_US {
            Verdict::Undecided(format!("it lies between {low_us:.1} and {high_us:.1} us"))
        } else {
            Verdict::Wrong(format!("{low_us:.1} to {high_us:.1} us of 20 us"))
        }
    });
}
