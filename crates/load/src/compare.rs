//! Two results of `load http` beside each other.

use serde::Serialize;
use serde_json::Value;

use crate::error::LoadError;

/// What is compared: where it stands in the JSON, and its unit.
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

/// One figure of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Where it stands.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// In the first result.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// Second over first; nothing when the first is 0.
    pub ratio: Option<f64>,
}

/// Two results beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this form.
    pub schema: u32,
    /// The figures that both have.
    pub rows: Vec<ComparisonRow>,
    /// Settings in which they differ: a difference of figures may come from those.
    pub differing: Vec<String>,
    /// What to know when reading the figures.
    pub notes: Vec<String>,
}

/// Compares two results.
///
/// # Errors
/// One is no result of `load http`; it is named `a` or `b`.
pub fn compare(a: &Value, b: &Value) -> Result<Comparison, LoadError> {
    for (name, value) in [("a", a), ("b", b)] {
        let is_result = value.get("schema") == Some(&1.into()) && value.get("latency_us").is_some();
        if !is_result {
            return Err(LoadError::Usage(format!(
                "{name}: no result of `load http --format json` of schema 1"
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
        let of = |value: &Value| value.pointer(pointer).and_then(Value::as_f64);
        add(pointer[1..].replace('/', "."), unit, of(a), of(b));
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
            "one run each: a ratio without an interval says nothing about noise; repeat both, in turn"
                .to_owned(),
        ],
    })
}
