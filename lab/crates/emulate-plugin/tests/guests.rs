// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs small kernels with known answers in QEMU with the plugin.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used, clippy::panic)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use perpacket_emulate::recording::Recording;
use perpacket_emulate::{ModelParameters, replay};
use serde_json::{Value, json};
use tempfile::TempDir;

const QEMU: &str = "qemu-system-x86_64";
/// QEMU's exit status after the guest has written 0 to the port that ends it.
const ENDED: i32 = 1;
/// Time limit in seconds. A guest needs a second. A guest that hangs is ended after this time.
const LIMIT_S: &str = "60";

/// The plugin's library. It is built now, unless `PERPACKET_EMULATE_PLUGIN` names one.
fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        if let Some(path) = env::var_os("PERPACKET_EMULATE_PLUGIN") {
            return PathBuf::from(path);
        }
        let test = env::current_exe().unwrap();
        let folder = test.parent().and_then(Path::parent).unwrap();
        // The profile of this test, so that its dependencies are not compiled again.
        let profile = if folder.ends_with("release") {
            "release"
        } else {
            "test"
        };
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--locked",
                "--profile",
                profile,
                "--package",
            ])
            .arg(env!("CARGO_PKG_NAME"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.expect("cargo runs").success());
        folder.join("libperpacket_emulate_plugin.so")
    })
}

/// Whether QEMU is installed in a version with the plugin's interface. If not, the test is skipped.
fn has_qemu() -> bool {
    let version = match Command::new(QEMU).arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => {
            perpacket_requirements::skip("qemu", format!("{QEMU}: {error}"));
            return false;
        }
    };
    let major = version
        .split("version ")
        .nth(1)
        .and_then(|rest| rest.split('.').next());
    let is_new = major
        .and_then(|number| number.parse().ok())
        .is_some_and(|major: u32| major >= 10);
    if !is_new {
        perpacket_requirements::skip(
            "qemu",
            format!("{}: expected 10.0 or newer", version.trim()),
        );
    }
    is_new
}

fn succeed(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output.stdout
}

/// A guest's image and symbols in a folder.
fn build(folder: &Path, source: &str, definitions: &[&str]) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests");
    let elf = folder.join("guest.elf");
    succeed(
        Command::new("gcc")
            .args([
                "-O1",
                "-nostdlib",
                "-static",
                "-no-pie",
                "-ffreestanding",
                "-fno-pic",
                "-mno-red-zone",
            ])
            .args([
                "-mcmodel=kernel",
                "-mgeneral-regs-only",
                "-fno-stack-protector",
            ])
            .args([
                "-fcf-protection=none",
                "-fno-asynchronous-unwind-tables",
                "-Wl,--build-id=none",
            ])
            .args([
                "-Wl,-z,noexecstack",
                "-Wl,--no-warn-rwx-segments",
                "-Wno-main",
            ])
            .args(definitions.iter().map(|name| format!("-D{name}")))
            .arg("-o")
            .arg(&elf)
            .arg("-T")
            .arg(sources.join("guest.ld"))
            .arg(sources.join("boot.S"))
            .arg(sources.join(source)),
    );
    let image = folder.join("guest.bin");
    succeed(
        Command::new("objcopy")
            .args(["-O", "binary"])
            .arg(&elf)
            .arg(image),
    );
    let symbols = succeed(Command::new("nm").arg(&elf));
    fs::write(folder.join("symbols"), symbols).unwrap();
}

fn run(folder: &Path, processors: &str, options: &str) -> Output {
    run_with(folder, processors, options, "one-insn-per-tb=off")
}

/// Runs a guest with a property of QEMU's translator.
fn run_with(folder: &Path, processors: &str, options: &str, translator: &str) -> Output {
    let file = |name: &str| folder.join(name).display().to_string();
    let plugin = format!(
        "{},out={},symbols={},{options}",
        plugin().display(),
        file("out"),
        file("symbols")
    );
    Command::new("timeout")
        .args([
            "--signal=KILL",
            LIMIT_S,
            QEMU,
            "-M",
            "pc",
            "-accel",
            &format!("tcg,thread=single,{translator}"),
        ])
        .args([
            "-icount",
            "shift=10,sleep=off",
            "-cpu",
            "qemu64",
            "-m",
            "128",
            "-smp",
            processors,
        ])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
        .args([
            "-netdev",
            "hubport,id=a,hubid=0",
            "-netdev",
            "hubport,id=b,hubid=0",
        ])
        .args(["-device", "e1000,netdev=a,addr=4,romfile="])
        .args(["-device", "e1000,netdev=b,addr=5,romfile="])
        .arg("-kernel")
        .arg(file("guest.bin"))
        .arg("-plugin")
        .arg(plugin)
        .stdin(Stdio::null())
        .output()
        .expect("QEMU runs")
}

/// The window that a guest counted.
fn window(source: &str, definitions: &[&str], options: &str) -> Value {
    window_with(source, definitions, options, "one-insn-per-tb=off")
}

fn window_with(source: &str, definitions: &[&str], options: &str, translator: &str) -> Value {
    let folder = TempDir::new().unwrap();
    build(folder.path(), source, definitions);
    let output = run_with(folder.path(), "2", options, translator);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(ENDED), "{errors}");
    let text = fs::read_to_string(folder.path().join("out")).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}\n{errors}");
    serde_json::from_str(&text).unwrap()
}

/// The sum of a count over the rows of a function. Counts of misses are those of one configuration.
fn of_function(window: &Value, function: &str, name: &str, configuration: usize) -> u64 {
    let rows = window["counts"].as_array().unwrap();
    let own = rows.iter().filter(|row| row["function"] == function);
    own.map(|row| match &row[name] {
        Value::Array(by_configuration) => by_configuration[configuration].as_u64().unwrap(),
        number => number.as_u64().unwrap(),
    })
    .sum()
}

#[test]
fn loops_over_memory_miss_what_does_not_fit() {
    if !has_qemu() {
        return;
    }
    let window = window(
        "sweep.S",
        &[],
        "by=function,l1=64:2,l2=128:16+512:16,tlb=64:4",
    );
    let count = |function, name, configuration| of_function(&window, function, name, configuration);
    let small = 0;
    let large = 1;
    // 4096 lines of 64 bytes are 256 KiB, which is more than the first level and the small second
    // level.
    assert_eq!(count("tcp_ack", "instructions", 0), 4 * 4096 + 1);
    assert_eq!(count("tcp_ack", "l1d_misses", small), 4096);
    assert_eq!(count("tcp_ack", "l2d_misses", small), 4096);
    assert_eq!(count("tcp_ack", "l2d_misses", large), 4096);
    assert_eq!(count("tcp_ack", "dtlb_misses", 0), 64);
    assert_eq!(count("ip_output", "l1d_misses", small), 4096);
    assert_eq!(count("ip_output", "l2d_misses", small), 4096);
    assert_eq!(count("ip_output", "l2d_misses", large), 0);
    assert_eq!(count("ip_output", "dtlb_misses", 0), 0);
    // The chain has 1000 nodes in as many lines. The second round finds them in the first level.
    assert_eq!(count("__dev_queue_xmit", "instructions", 0), 3 * 1000 + 1);
    assert_eq!(count("__dev_queue_xmit", "l1d_misses", small), 1000);
    assert_eq!(count("do_syscall_64", "l1d_misses", small), 0);
    assert_eq!(count("do_syscall_64", "l1i_misses", small), 1);
}

/// Rounds of `calls.S`.
const ROUNDS: u64 = 64;

/// Instructions by layer and kind that `calls.S` runs in a round, below its first call.
const CALLS: [(&str, &str, u64); 8] = [
    ("syscall", "other", 10 + 3),
    ("socket", "protocol", 20 + 3),
    // These are the instructions of tcp itself, 30 + 3, and then those of the helper, which an
    // interrupt divides.
    ("tcp", "protocol", 30 + 3 + 5 + 1 + 5 + 2 + 1 + 1),
    ("tcp", "copy", 7 + 1),
    ("ip", "protocol", 40 + 3),
    ("ethernet", "protocol", 50 + 1),
    ("interrupt", "other", 1 + 3 + 1 + 2 + 11 + 1),
    ("driver", "protocol", 0),
];
/// Returns of a round.
const RETURNS: u64 = 8;

fn check_calls(window: &Value) {
    for (layer, kind, expected) in CALLS {
        let rows = window["counts"].as_array().unwrap().iter();
        let own = rows.filter(|row| row["layer"] == layer && row["kind"] == kind);
        let counted: u64 = own.map(|row| row["instructions"].as_u64().unwrap()).sum();
        assert_eq!(counted, ROUNDS * expected, "{layer} {kind}: {window:#}");
    }
    assert_eq!(window["returns"]["matched"], ROUNDS * RETURNS);
    assert_eq!(window["returns"]["unmatched"], 0);
}

#[test]
fn calls_five_deep_are_charged_to_their_layers() {
    if has_qemu() {
        check_calls(&window("calls.S", &[], "turn=0"));
    }
}

#[test]
fn another_processor_changes_no_count() {
    if has_qemu() {
        let window = window("calls.S", &["SECOND"], "turn=500");
        check_calls(&window);
        let rounds = &window["guest"]["values"];
        assert!(rounds[0].as_u64() < rounds[1].as_u64(), "{rounds}");
        assert_eq!(rounds[2], 0, "traps that returned to a wrong address");
        assert_eq!(window["separate_processors"], true);
        assert_eq!(window["foreign_blocks"], 0);
    }
}

/// The guest of the package's self-test is `calls.S`, and its counts are those above. With
/// `UPDATE_SNAPSHOTS=1` the test writes the package's files.
#[test]
fn the_self_test_of_the_package_is_this_guest() {
    let folder = TempDir::new().unwrap();
    build(folder.path(), "calls.S", &["SECOND"]);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let instructions: Vec<_> = CALLS
        .iter()
        .map(|(layer, kind, of_round)| json!([layer, kind, ROUNDS * of_round]))
        .collect();
    let counts = json!({"instructions": instructions, "returns": ROUNDS * RETURNS});
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../perpacket_lab/emulate/guest");
    for (name, content) in [
        ("self_test.bin", read("guest.bin")),
        ("self_test.symbols", read("symbols")),
        ("self_test.json", format!("{counts}\n").into_bytes()),
    ] {
        let file = package.join(name);
        if env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&file, &content).unwrap();
        }
        assert!(
            fs::read(&file).unwrap_or_default() == content,
            "{name} differs: run this test with UPDATE_SNAPSHOTS=1"
        );
    }
}

#[test]
fn every_start_separates_the_processors() {
    if !has_qemu() {
        return;
    }
    // A wrong word of QEMU's state may look like the right one in one of many starts.
    let starts = env::var("STARTS").map_or(4, |number| number.parse().unwrap());
    let folder = TempDir::new().unwrap();
    build(folder.path(), "calls.S", &["SECOND"]);
    let counted = || {
        let output = run(folder.path(), "3", "turn=500");
        assert_eq!(output.status.code(), Some(ENDED), "{output:?}");
        fs::read_to_string(folder.path().join("out")).unwrap()
    };
    let first = counted();
    let window: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(window["separate_processors"], true);
    for start in 1..starts {
        assert_eq!(first, counted(), "start {start}");
    }
}

#[test]
fn accesses_that_are_not_reported_change_no_count() {
    if !has_qemu() {
        return;
    }
    for (source, definition) in [
        ("sweep.S", "A"),
        ("calls.S", "SECOND"),
        ("frames.c", "FRAME_BYTES=1000"),
    ] {
        // An unfiltered recording has all accesses.
        let [all, without] = [",record=/dev/null,filter=none", ""].map(|recording| {
            let options = format!("by=function,l1=64:2,l2=128:16{recording}");
            window(source, &[definition], &options)
        });
        assert_eq!(all, without, "{source}");
    }
}

#[test]
fn a_frame_of_the_card_invalidates_its_bytes() {
    if !has_qemu() {
        return;
    }
    // 1000 bytes are 16 lines, of which the last is written in part. The buffer has 32 lines.
    for (dma, l1, l2) in [("invalidate", 16, 16), ("allocate", 16, 0), ("none", 0, 0)] {
        let options = format!("by=function,l1=64:2,l2=512:16,dma={dma}");
        let window = window("frames.c", &["FRAME_BYTES=1000"], &options);
        let count = |function, name| of_function(&window, function, name, 0);
        assert_eq!(count("tcp_ack", "l1d_misses"), 32, "{dma}");
        assert_eq!(count("ip_output", "l1d_misses"), 0, "{dma}");
        assert_eq!(count("sock_sendmsg", "l1d_misses"), l1, "{dma}");
        assert_eq!(count("sock_sendmsg", "l2d_misses"), l2, "{dma}");
        assert_eq!(window["frames"]["received"], 1);
        assert_eq!(window["frames"]["sent"], 0);
        assert_eq!(window["dma_lines"], 17, "the frame and its descriptor");
    }
}

#[test]
fn an_option_that_is_wrong_ends_the_emulator_with_a_hint() {
    if !has_qemu() {
        return;
    }
    let folder = TempDir::new().unwrap();
    build(folder.path(), "sweep.S", &[]);
    for (options, expected) in [
        (
            "l2=100:16",
            "error: second[0].ways = 16 is not possible: 100 KiB are 1600 lines",
        ),
        (
            "l4=1:1",
            "error: option `l4=1:1`: expected out, work, files, symbols",
        ),
        (
            "record=/nonexistent/file",
            "error: /nonexistent/file: No such file or directory",
        ),
    ] {
        let output = run(folder.path(), "1", options);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert!(errors.contains("\nperpacket-emulate: hint: "), "{errors}");
    }
}

#[test]
fn a_full_disk_ends_the_recording_with_an_error() {
    if !has_qemu() {
        return;
    }
    let folder = TempDir::new().unwrap();
    build(folder.path(), "sweep.S", &[]);
    let output = run(folder.path(), "1", "record=/dev/full");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(71), "{errors}");
    assert!(
        errors.contains("error: /dev/full: No space left on device"),
        "{errors}"
    );
    let line = fs::read_to_string(folder.path().join("out")).unwrap();
    assert!(line.contains("\"error\""), "{line}");
}

/// Instructions that `middle.S` runs in a round, by function. Each counts once, although QEMU begins
/// some of its blocks several times.
const MIDDLE: [(&str, u64); 7] = [
    ("do_syscall_64", 3 + 2 + 2),
    ("tcp_ack", 3 + 2 + 2 + 5 + 4 + 3),
    ("a_helper", 4 + 1 + 6 + 1),
    ("ip_output", 6 + 1 + 7 + 3 + 1 + 3 + 4 + 3 * 8 + 2),
    ("__dev_queue_xmit", 5 + 1),
    ("asm_exc_page_fault", 3 * 4),
    ("another_helper", 3 * 12),
];

#[test]
fn the_rest_of_a_block_that_is_left_counts_once() {
    if !has_qemu() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("recording");
    let model = ["l1=64:2", "l2=128:16", "tlb=64:4"];
    let options = |filter| {
        let record = file.display();
        format!("by=function,{},record={record}{filter}", model.join(","))
    };
    for filter in ["", ",filter=none"] {
        let counted = window("middle.S", &[], &options(filter));
        for (function, of_round) in MIDDLE {
            let instructions = of_function(&counted, function, "instructions", 0);
            assert_eq!(instructions, ROUNDS * of_round, "{function}{filter}");
        }
        assert_eq!(counted["returns"]["unmatched"], 0);
        let bytes = fs::read(&file).unwrap();
        let parameters = ModelParameters::parse(model).unwrap();
        let replayed = replay(Recording::new(&bytes).unwrap(), &parameters).unwrap();
        let mut replayed = serde_json::to_value(&replayed[0]).unwrap();
        for of_plugin in ["separate_processors", "foreign_blocks"] {
            replayed[of_plugin] = counted[of_plugin].clone();
        }
        assert_eq!(counted, replayed, "{filter}");
    }
    // Without a recording, accesses that repeat others of their block are not reported.
    let options = "by=function,l1=64:2,l2=128:16";
    let counted = window("middle.S", &[], options);
    // Such a block has one instruction, so that none is left in the middle.
    let single = window_with("middle.S", &[], options, "one-insn-per-tb=on");
    assert_eq!(counted, single);
}
