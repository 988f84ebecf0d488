//! Formats of traces and their compression.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::trace::json_fields::JsonFields;

/// Bytes of a World Cup 1998 record.
pub const RECORD_BYTES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormat {
    /// Common Log Format: `host ident user [time] "request" status bytes`.
    Common,
    /// Combined Log Format, nginx's default: the fields of Common Log Format, then a quoted referer
    /// and a quoted user agent.
    Combined,
    /// A JSON object in each line, with fields by a mapping ([`JsonFields`]).
    Json,
    /// Binary log of the 1998 World Cup: 20-byte big-endian records.
    WorldCup,
}

impl TraceFormat {
    /// Names of all formats, for messages.
    pub const NAMES: &'static str = "common, combined, json or world-cup";

    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Combined => "combined",
            Self::Json => "json",
            Self::WorldCup => "world-cup",
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The error of an unknown name of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no trace format is called {0:?}: expected {names}", names = TraceFormat::NAMES)]
pub struct UnknownFormat(pub String);

impl FromStr for TraceFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        [Self::Common, Self::Combined, Self::Json, Self::WorldCup]
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// What is known of a trace before it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The format; `None` detects it.
    pub format: Option<TraceFormat>,
    /// The fields of a JSON log.
    pub fields: JsonFields,
}

impl From<Option<TraceFormat>> for Expected {
    fn from(format: Option<TraceFormat>) -> Self {
        Self {
            format,
            fields: JsonFields::default(),
        }
    }
}

/// The compression of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// gzip, RFC 1952, any number of members.
    Gzip,
    /// Zstandard, RFC 8878, any number of frames.
    Zstd,
}

impl Compression {
    /// Detects the compression of a file from its first bytes.
    pub fn of_magic(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// The compression that the name of a destination indicates: `.gz`, `.zst` or none.
    pub fn of_suffix(name: &str) -> Self {
        if name.ends_with(".gz") {
            Self::Gzip
        } else if name.ends_with(".zst") {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "uncompressed",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}
