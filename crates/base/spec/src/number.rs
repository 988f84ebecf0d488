//! Numbers with their range in their type, so that the range is written once.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Whole<const LEAST: u32, const MOST: u32>(u32);

impl<const LEAST: u32, const MOST: u32> Whole<LEAST, MOST> {
    /// The number, or the end of the range that is nearest to it.
    pub fn nearest(number: u32) -> Self {
        Self(number.clamp(LEAST, MOST))
    }

    /// A number of the range that is known when the program is compiled.
    pub const fn of<const NUMBER: u32>() -> Self {
        const { assert!(LEAST <= NUMBER && NUMBER <= MOST) };
        Self(NUMBER)
    }

    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as a count of things in memory.
    pub const fn count(self) -> usize {
        self.0 as usize
    }
}

impl<const LEAST: u32, const MOST: u32> FromStr for Whole<LEAST, MOST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|n| (LEAST..=MOST).contains(n));
        number
            .map(Self)
            .ok_or_else(|| format!("expected a whole number from {LEAST} to {MOST}"))
    }
}

impl<const LEAST: u32, const MOST: u32> fmt::Display for Whole<LEAST, MOST> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<const LEAST: u32, const MOST: u32> JsonSchema for Whole<LEAST, MOST> {
    fn schema_name() -> Cow<'static, str> {
        format!("WholeFrom{LEAST}To{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": LEAST, "maximum": MOST})
    }
}

/// A part of a whole, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = text
            .parse()
            .ok()
            .filter(|share| (0.0..=1.0).contains(share));
        share
            .map(Self)
            .ok_or_else(|| "expected a share from 0 to 1".to_owned())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 1})
    }
}
