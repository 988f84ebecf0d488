//! Compares two results of `load http`.

use std::path::PathBuf;

use clap::Args;
use perpacket_spec::Spec;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::error::LoadError;

/// Compare two results of `load http`.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
pub struct CompareSpec {
    /// A result of `load http --format json`.
    pub a: PathBuf,
    /// A later result.
    pub b: PathBuf,
}

impl Spec for CompareSpec {}

/// The values to compare: the JSON pointer and the unit of each.
const ROWS: [(&str, &str); 14] = [
    ("/requests_per_s", "1/s"),
    ("/content_mbps", "Mb/s"),
    ("/latency_us/service/p50", "us"),
    ("/latency_us/service/p99", "us"),
    ("/latency_us/service/p999", "us"),
    ("/latency_us/response/p50", "us"),
    ("/latency_us/response/p90", "us"),
    ("/latency_us/response/p99", "us"),
    ("/latency_us/response/p999", "us"),
    ("/latency_us/response/max", "us"),
    ("/schedule_lag_us/p99", "us"),
    ("/unsent", ""),
    ("/client_cpu_us_per_request", "us"),
    ("/conforming", ""),
];

/// One value of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The value's keys from the root of the JSON, joined by dots.
    pub name: String,
    /// Unit of the value.
    pub unit: &'static str,
    /// Value in the first result.
    pub a: f64,
    /// Value in the second result.
    pub b: f64,
    /// Second divided by first; `None` if the first is 0.
    pub ratio: Option<f64>,
}

/// The comparison of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of the schema.
    pub schema: u32,
    /// The values that both results have.
    pub rows: Vec<ComparisonRow>,
    /// Settings that differ. They may explain differing values.
    pub differing: Vec<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Compares two results.
///
/// # Errors
/// `a` or `b` is not a result of `load http`.
pub fn compare(a: &Value, b: &Value) -> Result<Comparison, LoadError> {
    for (name, value) in [("a", a), ("b", b)] {
        let is_result = value.get("schema") == Some(&1.into()) && value.get("latency_us").is_some();
        if !is_result {
            return Err(LoadError::Usage(format!(
                "{name}: expected a result of `load http --format json` with schema 1"
            )));
        }
    }
    let mut rows = Vec::new();
    let mut add = |name: String, unit, a: Option<f64>, b: Option<f64>| {
        if let (Some(a), Some(b)) = (a, b) {
            let ratio = (a != 0.0).then(|| b / a);
            rows.push(ComparisonRow {
                name,
                unit,
                a,
                b,
                ratio,
            });
        }
    };
    for (pointer, unit) in ROWS {
        let number = |value: &Value| value.pointer(pointer).and_then(Value::as_f64);
        add(pointer[1..].replace('/', "."), unit, number(a), number(b));
    }
    let errors = |value: &Value| {
        let counts = value.get("errors")?.as_object()?.values();
        Some(counts.filter_map(Value::as_f64).sum::<f64>())
    };
    add("errors".to_owned(), "", errors(a), errors(b));
    let settings = ["url", "workload", "arrivals", "connections", "threads"];
    let differing = settings.iter().filter(|name| a.get(name) != b.get(name));
    Ok(Comparison {
        schema: 1,
        rows,
        differing: differing.map(|name| (*name).to_owned()).collect(),
        notes: vec![
            "one run each: the ratios have no intervals; repeat both runs in alternation"
                .to_owned(),
        ],
    })
}
