//! Tests of the programs `bench` and `route`: status, JSON, files and messages.
#![expect(clippy::unwrap_used, reason = "a test may end on a slip of its own")]

mod command;

use std::fs;
use std::process::Output;

use command::{agent, error};
use serde_json::Value;

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
fn the_self_test_of_the_search_passes() {
    let report = json(&agent("route self-test --capacity 123456 --format json"));
    let throughput = report["throughput_pps"].as_f64().unwrap();
    assert!((120_000.0..=123_457.0).contains(&throughput), "{report}");
}

#[test]
fn more_memory_than_addresses_ends_with_3() {
    let output = agent("bench memory --operations load --strides 1 --largest 1000000GiB");
    let complaint = error(&output);
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains("bytes of memory") && complaint.contains("--largest"));
}
