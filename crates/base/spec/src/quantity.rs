//! Quantities with their unit in the value: `5ms`, `10KiB`, `1Gb/s`.
//!
//! A number without a unit counts seconds, bytes, bits a second or events a second.
//! `tests/quantities.toml` lists accepted and refused texts; the Python command line accepts the same.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use perpacket_linux::cpus;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// Longest time in seconds, about 30 years.
const TIME_LIMIT_S: f64 = 1e9;

/// Highest whole number that a floating point number represents exactly.
const EXACT_LIMIT: f64 = (1_u64 << 53) as f64;

/// Names of units with their factors.
type Units = &'static [(&'static str, f64)];

const TIME_UNITS: Units = &[
    ("", 1.0),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
];
const SIZE_UNITS: Units = &[
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("", 1.0),
    ("B", 1.0),
];
const BIT_RATE_UNITS: Units = &[
    ("Gb/s", 1e9),
    ("Mb/s", 1e6),
    ("kb/s", 1e3),
    ("b/s", 1.0),
    ("", 1.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
];
const RATE_UNITS: Units = &[
    ("", 1.0),
    ("k", 1e3),
    ("M", 1e6),
    ("/s", 1.0),
    ("k/s", 1e3),
    ("M/s", 1e6),
];

/// A number with a unit, converted to the base unit. Refuses unknown units and negative numbers.
fn quantity(text: &str, units: Units) -> Option<f64> {
    let is_number = |sign: char| sign.is_ascii_digit() || ".e+-".contains(sign);
    let end = text.find(|sign| !is_number(sign)).unwrap_or(text.len());
    let (number, name) = text.split_at(end);
    let (_, factor) = units.iter().find(|(unit, _)| *unit == name)?;
    let starts_with_digit = number.starts_with(|sign: char| sign.is_ascii_digit());
    let number: f64 = number.parse().ok().filter(|_| starts_with_digit)?;
    Some(number * factor).filter(|value| value.is_finite())
}

/// A quantity that is a whole number below [`EXACT_LIMIT`].
fn whole_quantity(text: &str, units: Units) -> Option<u64> {
    let value = quantity(text, units)?;
    (value.fract() == 0.0 && value < EXACT_LIMIT).then_some(value as u64)
}

/// The texts of a value, one for each unit that divides it.
fn texts(value: u64, units: Units) -> impl Iterator<Item = String> {
    units.iter().filter_map(move |(unit, factor)| {
        let factor = *factor as u64;
        (value > 0 && value.is_multiple_of(factor)).then(|| format!("{}{unit}", value / factor))
    })
}

/// A time: `10`, `10s`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl Time {
    /// A number of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        quantity(text, TIME_UNITS)
            .filter(|seconds| *seconds < TIME_LIMIT_S)
            .map(|seconds| Self(Duration::from_secs_f64(seconds)))
            .ok_or_else(|| "expected seconds or a time such as 500ms, 10s or 2min".to_owned())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let (unit, factor) = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)]
            .into_iter()
            .find(|(_, factor)| nanoseconds.is_multiple_of(*factor))
            .unwrap_or(("ns", 1));
        write!(formatter, "{}{unit}", nanoseconds / factor)
    }
}

/// A time that is longer than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

impl Period {
    /// A number of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Time>()?.0 {
            Duration::ZERO => Err("expected more than 0".to_owned()),
            time => Ok(Self(time)),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Time(self.0).fmt(formatter)
    }
}

/// Bytes: `512`, `32KiB`, `10MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// The size as an index. Sizes of memory always fit.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        whole_quantity(text, SIZE_UNITS)
            .map(Self)
            .ok_or_else(|| "expected bytes or a size such as 32KiB, 1MiB or 10MB".to_owned())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shortest = texts(self.0, SIZE_UNITS).min_by_key(String::len);
        formatter.write_str(shortest.as_deref().unwrap_or("0"))
    }
}

/// Bits a second: `300000`, `300kb/s`, `1Gb/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(pub u64);

impl FromStr for BitRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        whole_quantity(text, BIT_RATE_UNITS)
            .map(Self)
            .ok_or_else(|| "expected bits a second or a rate such as 300kb/s or 1Gb/s".to_owned())
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest_unit = texts(self.0, BIT_RATE_UNITS).next();
        formatter.write_str(largest_unit.as_deref().unwrap_or("0"))
    }
}

/// Events a second, such as requests or frames: `1000`, `2.5`, `10k`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        quantity(text, RATE_UNITS)
            .map(Self)
            .ok_or_else(|| "expected a number a second, such as 2.5, 1000 or 10k".to_owned())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// CPUs in ascending order: `0`, `0,2-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        cpus::parse(text)
            .map(Self)
            .map_err(|_| "expected CPU numbers and ranges, such as 0,2-3".to_owned())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&cpus::format(&self.0))
    }
}

/// Types whose values have the same text in documents as on the command line, each with its unit and an
/// example. They implement `Display` and `FromStr`.
#[macro_export]
macro_rules! text {
    ($($name:ty, $unit:literal, $example:literal;)*) => {$(
        impl $crate::serde::Serialize for $name {
            fn serialize<S>(&self, serializer: S) -> Result<S::Ok, S::Error>
            where
                S: $crate::serde::Serializer,
            {
                serializer.collect_str(self)
            }
        }

        impl $crate::schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                $crate::schemars::json_schema!({
                    "type": "string", "x-unit": $unit, "examples": [$example]
                })
            }
        }
    )*};
}
text! {
    Time, "time", "500ms";
    Period, "time", "10s";
    Size, "size", "32KiB";
    BitRate, "bit rate", "1Gb/s";
    CpuList, "CPUs", "0,2-3";
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["number", "string"], "x-unit": "events a second", "examples": ["10k"]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("../../../../tests/quantities.toml");

    /// The accepted texts of a kind with their values, and the refused texts.
    fn rows(kind: &str) -> (Vec<(String, toml::Value)>, Vec<String>) {
        let table: toml::Table = TABLE.parse().unwrap();
        let rows = &table[kind];
        let read = rows["read"].as_table().unwrap();
        let refused = rows["refused"].as_array().unwrap();
        (
            read.clone().into_iter().collect(),
            refused
                .iter()
                .map(|text| text.as_str().unwrap().to_owned())
                .collect(),
        )
    }

    /// Checks that a type accepts and refuses the texts of the shared table.
    fn check<T: FromStr<Err = String>>(kind: &str, number: impl Fn(T) -> f64) {
        let (read, refused) = rows(kind);
        for (text, value) in read {
            let expected = value.as_float().or(value.as_integer().map(|n| n as f64));
            let parsed = text.parse::<T>().map(&number);
            assert_eq!(parsed.ok(), expected, "{kind} {text}");
        }
        for text in refused {
            assert!(text.parse::<T>().is_err(), "{kind} {text}");
        }
    }

    #[test]
    fn quantities_agree_with_the_shared_table() {
        check("time", |time: Time| time.0.as_secs_f64());
        check("size", |size: Size| size.0 as f64);
        check("bit-rate", |rate: BitRate| rate.0 as f64);
        check("rate", |rate: Rate| rate.0);
    }

    #[test]
    fn cpu_lists_agree_with_the_shared_table() {
        let (read, refused) = rows("cpus");
        for (text, value) in read {
            let expected: Vec<usize> = value.try_into().unwrap();
            assert_eq!(text.parse::<CpuList>().unwrap().0, expected, "{text}");
        }
        for text in refused {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_printed_as_a_short_text_with_the_same_value() {
        for text in [
            "512", "32KiB", "1MiB", "3GiB", "0", "10GB", "1460", "128KiB",
        ] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert!("0s".parse::<Period>().is_err());
        for text in ["0s", "10s", "500ms", "60us", "1ns"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        for text in ["300kb/s", "1Gb/s", "345b/s", "0"] {
            assert_eq!(text.parse::<BitRate>().unwrap().to_string(), text);
        }
        assert_eq!("0,2-3".parse::<CpuList>().unwrap().to_string(), "0,2-3");
    }
}
