//! From a configuration's name and overrides to the parameters of a run.

mod set;
mod shorthand;

pub use set::{Parameter, ParameterSet};
pub use shorthand::Shorthand;

use crate::error::ConfigurationError;

const COMMON: (&str, &str) = ("common.toml", include_str!("../../data/common.toml"));
const LIMITS: &str = include_str!("../../data/limits.toml");
const LAYERS: (&str, &str) = ("layers.toml", include_str!("../../data/layers.toml"));

/// The machines that can be simulated, by name.
const MACHINES: [(&str, &str); 3] = [
    ("osdi06", include_str!("../../data/machines/osdi06.toml")),
    (
        "athlon-xp-2600",
        include_str!("../../data/machines/athlon-xp-2600.toml"),
    ),
    (
        "linux-6.1",
        include_str!("../../data/machines/linux-6.1.toml"),
    ),
];

const BULK: &str = "bulk";

/// The workloads, by the letter or word that a configuration starts with.
const WORKLOADS: [(&str, &str); 5] = [
    ("W", include_str!("../../data/workloads/world-cup.toml")),
    ("I", include_str!("../../data/workloads/ibm.toml")),
    (
        "D",
        include_str!("../../data/workloads/specweb99-mixed.toml"),
    ),
    (
        "S",
        include_str!("../../data/workloads/specweb99-static.toml"),
    ),
    (BULK, include_str!("../../data/workloads/bulk.toml")),
];

/// The parameters of `configuration` (a shorthand such as `W-1024-P-N-FCFS-400`, or `bulk`), with
/// `overrides` of (name, value) applied in order.
///
/// `machine` as an override's name chooses the machine: `osdi06` (the default for shorthands),
/// `athlon-xp-2600` (the default for `bulk`) or `linux-6.1`.
///
/// # Errors
/// A name is unknown, or a value has the wrong type or is not allowed.
pub fn resolve(
    configuration: &str,
    overrides: &[(String, String)],
) -> Result<ParameterSet, ConfigurationError> {
    let shorthand = (configuration != BULK)
        .then(|| configuration.parse::<Shorthand>())
        .transpose()?;
    let workload = shorthand
        .as_ref()
        .map_or(BULK, |parsed| parsed.workload.as_str());
    let machine = overrides
        .iter()
        .rev()
        .find(|(name, _)| name == "machine")
        .map_or(
            if shorthand.is_some() {
                "osdi06"
            } else {
                "athlon-xp-2600"
            },
            |(_, value)| value,
        );
    let mut set = ParameterSet::default();
    set.add(COMMON.0, COMMON.1)?;
    set.add(LAYERS.0, LAYERS.1)?;
    add_named(&mut set, "machine", &MACHINES, machine)?;
    add_named(&mut set, "workload", &WORKLOADS, workload)?;
    if let Some(shorthand) = shorthand {
        for (name, value) in shorthand.parameters() {
            set.set(name, &value, &format!("configuration {configuration}"))?;
        }
    }
    for (name, value) in overrides {
        if name != "machine" {
            set.set(name, value, "command line")?;
        }
    }
    set.check(LIMITS)?;
    Ok(set)
}

fn add_named(
    set: &mut ParameterSet,
    what: &str,
    known: &[(&str, &str)],
    name: &str,
) -> Result<(), ConfigurationError> {
    match known.iter().find(|(candidate, _)| *candidate == name) {
        Some((_, text)) => set.add(&format!("{name}.toml"), text),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(ConfigurationError::new(
                what,
                name,
                format!("expected one of {}", names.join(", ")),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(set: &ParameterSet, name: &str) -> toml::Value {
        set.list()
            .find(|parameter| parameter.name == name)
            .unwrap()
            .value
    }

    #[test]
    fn a_shorthand_sets_what_it_names_and_an_override_wins() {
        let overrides = [("nic.lowat".to_owned(), "128".to_owned())];
        let set = resolve("W-1024-P-L-T4-600", &overrides).unwrap();
        assert_eq!(value(&set, "nic.mips").as_integer(), Some(600));
        assert_eq!(value(&set, "nic.host_first").as_bool(), Some(true));
        assert_eq!(value(&set, "selection.threshold").as_integer(), Some(4));
        assert_eq!(value(&set, "nic.lowat").as_integer(), Some(128));
    }

    #[test]
    fn every_parameter_of_every_workload_and_machine_has_unit_and_source() {
        for machine in MACHINES {
            for (workload, _) in WORKLOADS {
                let configuration = match workload {
                    BULK => BULK.to_owned(),
                    letter => format!("{letter}-0-N-N-FCFS-400"),
                };
                let overrides = [("machine".to_owned(), machine.0.to_owned())];
                for parameter in resolve(&configuration, &overrides).unwrap().list() {
                    assert!(!parameter.unit.is_empty(), "{}", parameter.name);
                    assert!(!parameter.source.is_empty(), "{}", parameter.name);
                }
            }
        }
    }

    #[test]
    fn an_unknown_machine_names_the_known_ones() {
        let overrides = [("machine".to_owned(), "pdp-11".to_owned())];
        let error = resolve("bulk", &overrides).unwrap_err();
        assert_eq!(
            (error.parameter.as_str(), error.value.as_str()),
            ("machine", "pdp-11")
        );
        assert!(error.allowed.contains("athlon-xp-2600"));
    }
}
