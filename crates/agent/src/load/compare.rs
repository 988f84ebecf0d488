//! `load compare`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use perpacket_load::{CompareSpec, Comparison, compare};
use serde_json::Value;

use super::failure;
use crate::output::Output;
use crate::status::{Failure, Status};

pub const EXAMPLE: &str = "Example:
  perpacket-agent load compare before.json after.json";

/// Compares two files.
pub fn run(spec: CompareSpec, output: &Output) -> Result<Status, Failure> {
    let comparison = compare(&read(&spec.a)?, &read(&spec.b)?).map_err(failure)?;
    output.print(&comparison, table)?;
    Ok(Status::Done)
}

fn read(path: &Path) -> Result<Value, Failure> {
    let name = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("{name}: not JSON: {error}")))
}

fn table(comparison: &Comparison) -> String {
    let mut text = format!("{:<28} {:>14} {:>14} {:>8}\n", "", "a", "b", "b / a");
    for row in &comparison.rows {
        let name = match row.unit {
            "" => row.name.clone(),
            unit => format!("{} [{unit}]", row.name),
        };
        let ratio = row
            .ratio
            .map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{name:<28} {:>14.2} {:>14.2} {ratio:>8}",
            row.a, row.b
        );
    }
    if !comparison.differing.is_empty() {
        let _ = writeln!(
            text,
            "\ndifferent settings: {}",
            comparison.differing.join(", ")
        );
    }
    for note in &comparison.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
