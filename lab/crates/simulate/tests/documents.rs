//! Tests the documents that quote parameters. Each quoted number must equal the one in the data
//! files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::collections::BTreeMap;

use perpacket_simulate::Simulation;

const SIMULATOR: &str = include_str!("../../../../docs/simulator.md");
const CALIBRATION: &str = include_str!("../../../../docs/calibration.md");

/// The parameters of a configuration as text, by name.
fn parameters(configuration: &str) -> BTreeMap<String, String> {
    let simulation = Simulation::new(configuration, &[], None).unwrap();
    simulation
        .parameters()
        .map(|parameter| {
            let value = match &parameter.value {
                toml::Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            (parameter.name, value)
        })
        .collect()
}

/// `2048.0` as `2048`.
fn plain(value: &str) -> &str {
    value.strip_suffix(".0").unwrap_or(value)
}

/// Values such as `2100<!--= B machine.clock_mhz -->`: the comment names the configuration (a workload's
/// letter, or `B` for the bulk sender) and the parameter. ` / N` divides the parameter by N.
#[test]
fn every_marked_value_in_the_simulators_document_is_the_one_in_the_data() {
    let mut parts = SIMULATOR.split("<!--= ");
    let mut before = parts.next().unwrap();
    let mut checked = 0;
    for part in parts {
        let (reference, after) = part.split_once(" -->").unwrap();
        let words: Vec<&str> = reference.split(' ').collect();
        let configuration = match words[0] {
            "B" => "bulk".to_owned(),
            letter => format!("{letter}-0-N-N-FCFS-400"),
        };
        let value = &parameters(&configuration)[words[1]];
        let expected = match words.get(3) {
            Some(divisor) => {
                let divisor: f64 = divisor.parse().unwrap();
                (value.parse::<f64>().unwrap() / divisor).to_string()
            }
            None => plain(value).to_owned(),
        };
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | ',' | '_');
        let quoted = before
            .trim_end_matches('`')
            .rsplit(|letter| !is_part(letter));
        let quoted = quoted.map(|text| text.replace(',', "")).next();
        assert_eq!(quoted, Some(expected), "docs/simulator.md: {reference}");
        before = after;
        checked += 1;
    }
    assert!(checked > 80, "{checked} values");
}

/// Rows such as ``| `nic.lowat` | 256 packets | ... |``: the value is that of the data.
#[test]
fn the_tables_of_the_calibration_document_quote_the_data() {
    let mut checked = 0;
    let mut configuration = "W-0-N-N-FCFS-400";
    let (_, tables) = CALIBRATION
        .split_once("## Parameters that no document states")
        .unwrap();
    for line in tables.lines() {
        // The heading or sentence before a table names its subject.
        match line {
            "`athlon-xp-2600`:" => configuration = "bulk",
            _ if line.starts_with('#') => configuration = "W-0-N-N-FCFS-400",
            _ if line.starts_with("Workload I ") => configuration = "I-0-N-N-FCFS-400",
            _ if line.starts_with("Workloads S and D are ") => configuration = "S-0-N-N-FCFS-400",
            _ => {}
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, value, ..] = cells[..] else {
            continue;
        };
        let name = name.trim_matches('`');
        let parameters = parameters(configuration);
        let operation = format!("layers.{name}.instructions");
        let Some(data) = parameters.get(name).or_else(|| parameters.get(&operation)) else {
            continue;
        };
        let quoted = match value.split(' ').next().unwrap() {
            "off" => "false".to_owned(),
            "on" => "true".to_owned(),
            number => number.replace(',', ""),
        };
        assert_eq!(quoted, plain(data), "docs/calibration.md: {name}");
        checked += 1;
    }
    assert!(checked > 80, "{checked} rows");
}
