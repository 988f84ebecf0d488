//! Parameters as data: every number with its unit and its source, from reviewed TOML files.
//!
//! A leaf is a table `{ value, unit, source }`. A [`ParameterSet`] is the flat list of leaves by
//! dotted name. A section of it can be read into a typed struct, which refuses unknown keys.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::error::ConfigurationError;

/// One parameter.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Leaf {
    value: Value,
    unit: String,
    source: String,
    /// Whether its value differs from that of the data files.
    #[serde(skip)]
    is_set: bool,
}

/// A parameter as `simulate --show-config` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Dotted name, as `--set` accepts it.
    pub name: String,
    /// The value in the run.
    pub value: Value,
    /// The unit of the value.
    pub unit: String,
    /// Where the value comes from: a published figure, an assumption with its reason, a fit, or
    /// the command line.
    pub source: String,
}

/// All parameters of a run.
#[derive(Clone, Debug, Default)]
pub struct ParameterSet(BTreeMap<String, Leaf>);

impl ParameterSet {
    /// Adds the parameters of a TOML text; later ones replace earlier ones of the same name.
    ///
    /// # Errors
    /// The text is not TOML, or a leaf lacks value, unit or source. The error names `file`.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), ConfigurationError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            ConfigurationError::new(file, "the file", format!("not TOML: {}", error.message()))
        })?;
        self.add_table(file, "", table)
    }

    fn add_table(
        &mut self,
        file: &str,
        prefix: &str,
        table: Table,
    ) -> Result<(), ConfigurationError> {
        for (key, value) in table {
            let name = format!("{prefix}{key}");
            match value {
                Value::Table(inner) if inner.contains_key("value") => {
                    let leaf = Leaf::deserialize(Value::Table(inner)).map_err(|error| {
                        ConfigurationError::new(&name, file, error.message().to_owned())
                    })?;
                    self.0.insert(name, leaf);
                }
                Value::Table(inner) => self.add_table(file, &format!("{name}."), inner)?,
                other => {
                    return Err(ConfigurationError::new(
                        name,
                        other,
                        format!("{file}: expected a table with value, unit and source"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Sets a parameter from text, as in `--set name=value`.
    ///
    /// # Errors
    /// The name is unknown, or the value has another type. For an unknown name, the error lists the
    /// names of its section.
    pub fn set(&mut self, name: &str, text: &str, source: &str) -> Result<(), ConfigurationError> {
        let Some(leaf) = self.0.get_mut(name) else {
            return Err(self.unknown(name, text));
        };
        let parsed = parse_value(text);
        let fits = match (&leaf.value, parsed) {
            (Value::Float(_), Value::Integer(number)) => Some(Value::Float(number as f64)),
            (old, new) if old.same_type(&new) => Some(new),
            // The value of a text parameter may consist of digits (`host.prefetch = 1`).
            (Value::String(_), _) => Some(Value::String(text.to_owned())),
            _ => None,
        };
        let Some(value) = fits else {
            let kind = leaf.value.type_str();
            let unit = leaf.unit.clone();
            return Err(ConfigurationError::new(
                name,
                text,
                format!("expected {kind} ({unit})"),
            ));
        };
        if let Value::Integer(number) = value
            && number < 0
        {
            let unit = leaf.unit.clone();
            return Err(ConfigurationError::new(
                name,
                text,
                format!("expected 0 or more ({unit})"),
            ));
        }
        leaf.is_set = true;
        leaf.value = value;
        leaf.source = source.to_owned();
        Ok(())
    }

    /// Checks the parameters against a TOML text of their limits. A parameter's limits are `[least]` or
    /// `[least, most]`.
    ///
    /// # Errors
    /// A value is out of its limits, or the text is not one of limits.
    pub fn check(&self, limits: &str) -> Result<(), ConfigurationError> {
        let table: Table = limits.parse().map_err(|error: toml::de::Error| {
            ConfigurationError::new("limits", "the file", error.message())
        })?;
        self.check_table("", &table)
    }

    fn check_table(&self, prefix: &str, limits: &Table) -> Result<(), ConfigurationError> {
        for (key, limit) in limits {
            let name = format!("{prefix}{key}");
            if let Value::Table(inner) = limit {
                self.check_table(&format!("{name}."), inner)?;
            }
            let (Value::Array(limit), Some(leaf)) = (limit, self.0.get(&name)) else {
                continue;
            };
            let limit: Vec<f64> = limit.iter().filter_map(number).collect();
            let (least, most) = (limit[0], limit.get(1));
            if number(&leaf.value)
                .is_some_and(|value| value >= least && most.is_none_or(|most| value <= *most))
            {
                continue;
            }
            let allowed = match most {
                Some(most) => format!("expected {least} to {most}"),
                None => format!("expected {least} or more"),
            };
            return Err(ConfigurationError::new(name, &leaf.value, allowed));
        }
        Ok(())
    }

    fn unknown(&self, name: &str, text: &str) -> ConfigurationError {
        let section = name.split('.').next().unwrap_or(name);
        let of_section: Vec<&str> = self
            .0
            .keys()
            .map(String::as_str)
            .filter(|known| known.split('.').next() == Some(section))
            .collect();
        let allowed = if of_section.is_empty() {
            let mut sections: Vec<&str> = self
                .0
                .keys()
                .filter_map(|known| known.split('.').next())
                .collect();
            sections.dedup();
            format!(
                "there is no such parameter; the sections are {}",
                sections.join(", ")
            )
        } else {
            format!(
                "there is no such parameter; `{section}` has {}",
                of_section.join(", ")
            )
        };
        ConfigurationError::new(name, text, allowed)
    }

    /// Reads the parameters below `section` into a typed struct.
    ///
    /// # Errors
    /// A parameter is unknown to the struct, missing, or of another type.
    pub fn section<T: DeserializeOwned>(&self, section: &str) -> Result<T, ConfigurationError> {
        let prefix = format!("{section}.");
        let mut root = Table::new();
        for (name, leaf) in &self.0 {
            if let Some(rest) = name.strip_prefix(&prefix) {
                insert(&mut root, rest, leaf.value.clone());
            }
        }
        T::deserialize(Value::Table(root)).map_err(|error| self.refused(section, &error))
    }

    /// The error for a section that does not fit its struct. The data files fit, so the cause is a
    /// parameter that was set.
    fn refused(&self, section: &str, error: &toml::de::Error) -> ConfigurationError {
        let prefix = format!("{section}.");
        let set = self
            .0
            .iter()
            .find(|(name, leaf)| name.starts_with(&prefix) && leaf.is_set);
        match set {
            Some((name, leaf)) => {
                let allowed = format!("{} ({})", error.message(), leaf.unit);
                ConfigurationError::new(name, &leaf.value, allowed)
            }
            None => ConfigurationError::new(section, "the section", error.message().to_owned()),
        }
    }

    /// The value of a text parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|leaf| leaf.value.as_str())
    }

    /// Every parameter, by name.
    pub fn list(&self) -> impl Iterator<Item = Parameter> {
        self.0.iter().map(|(name, leaf)| Parameter {
            name: name.clone(),
            value: leaf.value.clone(),
            unit: leaf.unit.clone(),
            source: leaf.source.clone(),
        })
    }
}

fn number(value: &Value) -> Option<f64> {
    let integer = value.as_integer().map(|integer| integer as f64);
    integer.or(value.as_float())
}

/// A TOML value, or a string if the text is not one: `--set host.prefetch=none`.
fn parse_value(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn insert(table: &mut Table, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            table.insert(name.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = table
                .entry(head)
                .or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Nic {
        mips: u32,
        order: String,
    }

    fn set() -> ParameterSet {
        let mut set = ParameterSet::default();
        let text = r#"
            [nic]
            mips = { value = 400, unit = "million instructions/s", source = "paper" }
            order = { value = "arrival", unit = "choice", source = "paper" }
        "#;
        set.add("nic.toml", text).unwrap();
        set
    }

    #[test]
    fn a_section_becomes_a_struct() {
        let mut set = set();
        set.set("nic.mips", "600", "command line").unwrap();
        let nic: Nic = set.section("nic").unwrap();
        assert_eq!(
            nic,
            Nic {
                mips: 600,
                order: "arrival".into()
            }
        );
        let listed: Vec<_> = set.list().collect();
        assert_eq!(
            (listed[0].name.as_str(), listed[0].source.as_str()),
            ("nic.mips", "command line")
        );
    }

    #[test]
    fn an_unknown_name_lists_what_its_section_has() {
        let error = set().set("nic.speed", "1", "command line").unwrap_err();
        assert!(error.allowed.contains("nic.mips"), "{error}");
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let error = set().set("nic.mips", "fast", "command line").unwrap_err();
        assert_eq!(error.value, "fast");
        assert!(error.allowed.contains("integer"), "{error}");
    }

    #[test]
    fn a_number_out_of_range_names_its_parameter() {
        let error = set().set("nic.mips", "-1", "command line").unwrap_err();
        assert_eq!(
            (error.parameter.as_str(), error.value.as_str()),
            ("nic.mips", "-1")
        );
        let mut set = set();
        set.set("nic.mips", "99999999999", "command line").unwrap();
        let error = set.section::<Nic>("nic").unwrap_err();
        assert_eq!(
            (error.parameter.as_str(), error.value.as_str()),
            ("nic.mips", "99999999999")
        );
    }

    #[test]
    fn a_leaf_without_source_is_refused() {
        let error = ParameterSet::default()
            .add("x.toml", "[a]\nb = { value = 1, unit = \"s\" }")
            .unwrap_err();
        assert_eq!(error.parameter, "a.b");
        assert!(error.allowed.contains("source"), "{error}");
    }
}
