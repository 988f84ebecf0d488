//! The part of a load that one of several processes or threads runs.

use std::fmt;
use std::str::FromStr;

/// The maximum number of processes that share a load.
const MAX_SHARDS: u32 = 4096;

/// The part of a load that one of several processes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from 0.
    pub index: u32,
    pub shards: u32,
}

impl Shard {
    /// The whole load.
    pub const WHOLE: Self = Self {
        index: 0,
        shards: 1,
    };

    /// One of several equal shards of this shard.
    #[must_use]
    pub fn split(self, index: u32, shards: u32) -> Self {
        Self {
            index: self.index * shards + index,
            shards: self.shards * shards,
        }
    }

    /// The share of a count. The shares of all shards add up to the count.
    pub fn share(self, count: u64) -> u64 {
        let (index, shards) = (u64::from(self.index), u64::from(self.shards));
        count / shards + u64::from(index < count % shards)
    }
}

impl FromStr for Shard {
    type Err = String;

    /// `I/N`, with I from 1 to N.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('/')
            .and_then(|(index, shards)| Some((index.parse().ok()?, shards.parse().ok()?)))
            .filter(|(index, shards): &(u32, u32)| {
                (1..=*shards).contains(index) && *shards <= MAX_SHARDS
            })
            .map(|(index, shards)| Self {
                index: index - 1,
                shards,
            })
            .ok_or_else(|| format!("expected I/N with I from 1 to N and N up to {MAX_SHARDS}"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.index + 1, self.shards)
    }
}

perpacket_spec::text! {
    Shard, "part", "1/4";
}
