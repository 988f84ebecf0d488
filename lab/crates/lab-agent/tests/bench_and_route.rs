//! Tests of the programs `bench` and `route`: status, JSON, files and messages.
#![expect(clippy::unwrap_used, reason = "a test may end on a slip of its own")]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn agent(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perpacket-lab-agent"))
        .args(arguments.split(' '))
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn bench_memory_reports_the_rows_of_a_heat_map() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    let report = json(&agent(&format!(
        "bench memory --operations load,copy --strides 1,8 --largest 16KiB --point-limit 1ms \
         --format json --quiet --csv {}",
        file.display()
    )));
    assert_eq!(report["schema"], 1);
    assert_eq!(report["complete"], true);
    assert!(report["machine"]["page_bytes"].as_u64().unwrap() >= 4096);
    assert!(
        report["counting"]
            .as_str()
            .unwrap()
            .contains("copied byte counts twice")
    );
    let surface = report["surface"].as_array().unwrap();
    let keys = [
        "operation",
        "working_set_bytes",
        "stride_words",
        "mbytes_per_s",
        "low",
        "high",
        "n",
    ];
    for row in surface {
        assert!(keys.iter().all(|key| !row[key].is_null()), "{row}");
        assert!(row["low"].as_f64() <= row["mbytes_per_s"].as_f64(), "{row}");
    }
    let chain = report["chain"].as_array().unwrap();
    let rows = fs::read_to_string(file).unwrap();
    assert_eq!(rows.lines().count(), 1 + surface.len() + chain.len());
}

#[test]
fn bench_switch_reports_a_row_for_each_combination() {
    let report = json(&agent(
        "bench switch --members 2,3 --working-sets 0,4KiB --pinned yes --point-limit 1ms \
         --format json --quiet",
    ));
    assert_eq!(report["schema"], 1);
    assert_eq!(report["rows"].as_array().unwrap().len(), 2 * 2 * 2);
}

#[test]
fn show_config_prints_a_file_that_config_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let shown = agent("bench switch --members 2 --kinds threads --point-limit 1ms --show-config");
    let file = folder.path().join("switch.toml");
    fs::write(&file, &shown.stdout).unwrap();
    let again = agent(&format!(
        "bench switch --config {} --show-config",
        file.display()
    ));
    assert_eq!(again.stdout, shown.stdout);
}

#[test]
fn the_self_test_of_the_search_passes() {
    let report = json(&agent("route self-test --capacity 123456 --format json"));
    let throughput = report["throughput_pps"].as_f64().unwrap();
    assert!((120_000.0..=123_457.0).contains(&throughput), "{report}");
}

#[test]
fn more_memory_than_addresses_ends_with_3() {
    let output = agent("bench memory --operations load --strides 1 --largest 1000000GiB");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains("bytes of memory") && complaint.contains("--largest"));
}

#[test]
fn a_usage_error_ends_with_2_and_names_the_option_or_the_line() {
    for (arguments, named) in [
        ("bench memory --strides 3", "--strides 3"),
        ("bench memory --largest 100", "--largest 100"),
        ("bench switch --members 1", "--members <N>"),
        ("route check --port r0", "--port r0"),
        (
            "route check --port nowhere:r0=nowhere:h0 --port nowhere:r1=nowhere:h1",
            "nowhere",
        ),
        ("route self-test --trial 0", "--trial <TIME>"),
        (
            "load media rtsp://127.0.0.1/x --duration 0",
            "--duration <TIME>",
        ),
        ("route self-test --resolution 7", "--resolution 7"),
    ] {
        let output = agent(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {complaint}");
        assert!(complaint.contains(named), "{arguments}: {complaint}");
    }
}
