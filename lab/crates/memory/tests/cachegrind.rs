//! Comparison with the misses that Valgrind's cachegrind counts for the same addresses.
//!
//! A small program runs once under lackey, which lists the addresses of all its data accesses, and
//! once under cachegrind for each pair of caches. Cachegrind's levels are LRU and not inclusive, so
//! the misses of the first level must be equal. Its last level also contains instructions, which
//! this test does not simulate. Each line of instructions evicts one data line of its set from the
//! last level. Every miss that this causes moves the line of instructions one way closer to
//! eviction. So before its eviction, it causes at most as many misses as the set has ways.
#![allow(clippy::expect_used)]
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use perpacket_memory::{
    CacheParameters, DramParameters, Hierarchy, HierarchyParameters, Line, Policy,
};
use perpacket_requirements::skip;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINE_BYTES: u32 = 64;

/// Size in KiB, and number of ways.
type Shape = (u32, u32);

/// Pairs of caches: small and associative, direct-mapped, and like the simulated web server's
/// caches but smaller.
const PAIRS: [(Shape, Shape); 4] = [
    ((4, 2), (64, 16)),
    ((8, 1), (32, 4)),
    ((16, 8), (128, 8)),
    ((2, 4), (16, 2)),
];

fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The folder of the tools' files.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cachegrind")
}

/// The program; `None` if a tool is missing.
fn program() -> Option<PathBuf> {
    if !run(Command::new("valgrind").arg("--version")) {
        skip("valgrind", "it is not installed");
        return None;
    }
    fs::create_dir_all(directory()).expect("the target directory can be written");
    let program = directory().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cachegrind/program.c");
    let options = [
        "-O1",
        "-static",
        "-nostdlib",
        "-ffreestanding",
        "-fno-pie",
        "-no-pie",
    ];
    let compiled = run(Command::new("cc")
        .args(options)
        .arg("-fno-stack-protector")
        .arg("-o")
        .args([&program, &source]));
    if !compiled {
        skip("valgrind", "no C compiler makes static programs");
    }
    compiled.then_some(program)
}

/// The lines of the program's data accesses, in order.
fn data_lines(program: &Path) -> Vec<Line> {
    let trace = directory().join("trace");
    let traced = run(Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", trace.display()))
        .arg(program));
    assert!(traced, "lackey runs the program");
    let text = fs::read_to_string(trace).expect("lackey writes its trace");
    text.lines().filter_map(data_line).collect()
}

fn line_of(address: u64) -> Line {
    Line((address / u64::from(LINE_BYTES)) as u32)
}

/// A load, store or modification in lackey's trace, such as ` S 1ffefffe30,8`.
fn data_line(text: &str) -> Option<Line> {
    let rest = [" L ", " S ", " M "]
        .iter()
        .find_map(|kind| text.strip_prefix(kind))?;
    let (address, size) = rest.split_once(',')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let size: u64 = size.parse().ok()?;
    let line = line_of(address);
    let last = line_of(address + size - 1);
    assert_eq!(
        line, last,
        "the program's accesses do not cross lines: {text}"
    );
    Some(line)
}

/// Cachegrind's totals by name.
fn cachegrind(program: &Path, first: Shape, last: Shape) -> HashMap<String, u64> {
    let out = directory().join("out");
    let option =
        |name: &str, (kib, ways): Shape| format!("--{name}={},{ways},{LINE_BYTES}", kib * 1024);
    let counted = run(Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes"])
        .args([
            option("I1", (32, 8)),
            option("D1", first),
            option("LL", last),
        ])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program));
    assert!(counted, "cachegrind runs the program");
    let text = fs::read_to_string(out).expect("cachegrind writes its counts");
    let after = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.expect("a line of totals").split_whitespace()
    };
    let totals = after("summary:").map(|count| count.parse().expect("a count"));
    after("events:").map(str::to_string).zip(totals).collect()
}

fn ours(lines: &[Line], first: Shape, last: Shape) -> (u64, u64) {
    let level = |(size_kib, ways), latency_cycles| CacheParameters {
        size_kib,
        ways,
        latency_cycles,
    };
    let mut hierarchy = Hierarchy::new(&HierarchyParameters {
        line_bytes: LINE_BYTES,
        levels: vec![level(first, 1), level(last, 10)],
        policy: Policy::NonInclusive,
        next_line_prefetch: false,
        dram: DramParameters {
            latency_cycles: 100,
            service_cycles: 0,
        },
    })
    .expect("possible");
    for line in lines {
        hierarchy.access(*line, 0);
    }
    let counters = hierarchy.counters();
    (counters.misses(0), counters.misses(1))
}

#[test]
fn misses_are_those_that_cachegrind_counts() {
    let Some(program) = program() else { return };
    let lines = data_lines(&program);
    for (first, last) in PAIRS {
        let theirs = cachegrind(&program, first, last);
        let count = |names: [&str; 2]| names.iter().map(|name| theirs[*name]).sum::<u64>();
        let (first_misses, last_misses) = ours(&lines, first, last);
        assert_eq!(lines.len() as u64, count(["Dr", "Dw"]), "data accesses");
        assert_eq!(first_misses, count(["D1mr", "D1mw"]), "D1 {first:?}");
        let most = last_misses + theirs["I1mr"] * u64::from(last.1);
        let counted = count(["DLmr", "DLmw"]);
        eprintln!(
            "{first:?} {last:?}: {} accesses, D1 misses {first_misses}, LL misses {last_misses}, \
             cachegrind {counted}",
            lines.len()
        );
        assert!(
            (last_misses..=most).contains(&counted),
            "LL {last:?}: {counted} is not in {last_misses}..={most}"
        );
    }
}
