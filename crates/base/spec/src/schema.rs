//! The JSON schema of a [`Spec`], from which reference pages and Python's functions are made.

use clap::{Arg, Command};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::Spec;

/// The schema of a `Spec`: types, units, ranges and needs from its fields, defaults and help from its
/// options. `x-positional` is the place of an argument without a name, from 1.
pub fn of<S: Spec>() -> Value {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<S>()
        .to_value();
    let mut command = S::augment_args(Command::new("spec"));
    command.build();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for argument in command.get_arguments() {
        let Some(key) = key(argument) else { continue };
        let mut property = without_null(schema["properties"][&key].clone());
        complete(&mut property, argument);
        if argument.is_required_set() {
            required.push(key.clone());
        }
        properties.insert(key, property);
    }
    schema["description"] = paragraph(schema["description"].as_str().unwrap_or_default()).into();
    schema["additionalProperties"] = false.into();
    schema["required"] = required.into();
    schema["properties"] = properties.into();
    schema
}

/// The key of an option in documents: its long name, or the name of a positional argument.
pub(crate) fn key(argument: &Arg) -> Option<String> {
    let id = argument.get_id().as_str();
    let key = match argument.get_long() {
        Some(long) => long.to_owned(),
        None => id.replace('_', "-"),
    };
    (!matches!(id, "help" | "version" | "config" | "show_config")).then_some(key)
}

/// Adds what clap knows of an option: its help, default, place and whether it is a switch.
fn complete(property: &mut Value, argument: &Arg) {
    if !property.is_object() {
        *property = json!({});
    }
    let help = argument.get_long_help().or(argument.get_help());
    property["description"] = paragraph(&help.map(ToString::to_string).unwrap_or_default()).into();
    let defaults = argument.get_default_values();
    if let [default] = defaults {
        let text = default.to_string_lossy();
        let is_text = property["type"] == "string"
            || property["oneOf"].is_array()
            || property["enum"].is_array();
        property["default"] = match serde_json::from_str(&text) {
            Ok(value) if !is_text => value,
            _ => text.into(),
        };
    }
    if let Some(place) = argument.get_index() {
        property["x-positional"] = place.into();
    }
    if let Some(heading) = argument.get_help_heading() {
        property["x-heading"] = heading.into();
    }
    if let Some([name]) = argument.get_value_names()
        && argument.get_action().takes_values()
    {
        property["x-value"] = name.as_str().into();
    }
}

/// The schema of the value of an option that may be absent.
fn without_null(mut property: Value) -> Value {
    if let Some(kinds) = property["type"].as_array() {
        let kinds: Vec<Value> = kinds
            .iter()
            .filter(|kind| *kind != "null")
            .cloned()
            .collect();
        property["type"] = match &kinds[..] {
            [kind] => kind.clone(),
            _ => kinds.into(),
        };
    }
    let alternatives = property["anyOf"].as_array().cloned().unwrap_or_default();
    let mut kinds = alternatives
        .into_iter()
        .filter(|kind| kind["type"] != "null");
    if let (Some(Value::Object(kind)), None) = (kinds.next(), kinds.next())
        && let Some(own) = property.as_object_mut()
    {
        own.remove("anyOf");
        own.extend(kind);
    }
    property
}

/// A text with its lines joined.
fn paragraph(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Sample;

    #[test]
    fn a_field_has_its_type_range_default_help_and_needs() {
        let schema = of::<Sample>();
        assert_eq!(schema["description"], "A sample.");
        assert_eq!(schema["required"], json!(["url"]));
        let options = &schema["properties"];
        assert_eq!(options["url"]["x-positional"], 1);
        let connections = &options["connections"];
        assert_eq!(connections["type"], "integer");
        assert_eq!(connections["minimum"], 1);
        assert_eq!(connections["maximum"], 100);
        assert_eq!(connections["default"], 8);
        assert_eq!(connections["description"], "Connections at a time");
        assert_eq!(options["duration"]["x-unit"], "time");
        assert_eq!(options["duration"]["type"], "string");
        assert_eq!(options["arrivals"]["x-needs"], "rate, replay");
        assert_eq!(options["insecure"]["type"], "boolean");
    }
}
