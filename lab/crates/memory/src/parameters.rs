//! The parameters of a hierarchy, and their allowed values.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of levels of caches in a hierarchy.
pub const MAX_LEVELS: usize = 3;

/// Maximum number of lines of one cache. With the limit, a wrong size is an error instead of an
/// allocation of gigabytes. With lines of 64 bytes, this is 1 GiB.
const MAX_LINES: u32 = 1 << 24;

/// Bytes of a page, which bounds next-line prefetch and the size of a line.
pub(crate) const PAGE_BYTES: u32 = 4096;

const MIN_LINE_BYTES: u32 = 8;

/// One level of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParameters {
    /// Capacity in KiB.
    pub size_kib: u32,
    /// Lines in a set. The number of sets, capacity / (ways * line size), must be a power of two.
    pub ways: u32,
    /// Cycles from the processor's request until a line in this level can be used. They include the
    /// look-ups in the levels above.
    pub latency_cycles: u32,
}

/// Main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DramParameters {
    /// Cycles from the processor's request until a line that is in no cache can be used, if the
    /// channel is free.
    pub latency_cycles: u32,
    /// Cycles for which one line occupies the channel; 0 for a channel without queueing.
    #[serde(default)]
    pub service_cycles: u32,
}

/// The relation between the contents of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Each level contains all lines of the levels above it. A line that leaves a level leaves the
    /// levels above too.
    Inclusive,
    /// A line is in one level only. An access moves it to the first level. An eviction moves it
    /// down by one level.
    Exclusive,
    /// A miss copies the line into every level above the level that answers. Each level evicts
    /// independently.
    NonInclusive,
}

/// A whole memory hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HierarchyParameters {
    /// Size of a cache line in bytes, the same in all levels. It is a power of two from 8 to 4096.
    pub line_bytes: u32,
    /// The caches, from the one nearest to the processor to the farthest. There are one to
    /// [`MAX_LEVELS`]. No level may have a lower latency than the previous level.
    pub levels: Vec<CacheParameters>,
    /// The relation between the contents of the levels.
    pub policy: Policy,
    /// Whether a demand access that DRAM answers also loads the next line into the last level.
    #[serde(default)]
    pub next_line_prefetch: bool,
    /// Main memory.
    pub dram: DramParameters,
}

/// The error of a parameter that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{parameter} = {value} is not possible: {allowed}")]
pub struct ParameterError {
    /// The parameter, by its path inside [`HierarchyParameters`], such as `levels[1].ways`.
    pub parameter: String,
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

impl ParameterError {
    pub(crate) fn new(
        parameter: impl Into<String>,
        value: impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            parameter: parameter.into(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

impl HierarchyParameters {
    /// Checks every parameter. Returns the shape of each cache.
    pub(crate) fn shapes(&self) -> Result<Vec<CacheShape>, ParameterError> {
        let allowed_bytes = MIN_LINE_BYTES..=PAGE_BYTES;
        if !self.line_bytes.is_power_of_two() || !allowed_bytes.contains(&self.line_bytes) {
            return Err(ParameterError::new(
                "line_bytes",
                self.line_bytes,
                format!("expected a power of two from {MIN_LINE_BYTES} to {PAGE_BYTES}"),
            ));
        }
        if self.levels.is_empty() || self.levels.len() > MAX_LEVELS {
            return Err(ParameterError::new(
                "levels",
                format!("{} levels", self.levels.len()),
                format!("expected 1 to {MAX_LEVELS} levels"),
            ));
        }
        let mut shapes = Vec::with_capacity(self.levels.len());
        let mut least_latency_cycles = 0;
        for (index, level) in self.levels.iter().enumerate() {
            let path = format!("levels[{index}]");
            shapes.push(shape(level.size_kib, level.ways, self.line_bytes, &path)?);
            not_faster(&path, level.latency_cycles, least_latency_cycles)?;
            least_latency_cycles = level.latency_cycles;
        }
        not_faster("dram", self.dram.latency_cycles, least_latency_cycles)?;
        Ok(shapes)
    }
}

/// Valid numbers of sets and ways of a [`Cache`](crate::cache::Cache): the number of sets is a
/// power of two, and there is at least one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheShape {
    pub(crate) sets: u32,
    pub(crate) ways: usize,
}

/// The shape of a cache, or the reason why it cannot be built.
pub(crate) fn shape(
    size_kib: u32,
    ways: u32,
    line_bytes: u32,
    path: &str,
) -> Result<CacheShape, ParameterError> {
    let size_bytes = u64::from(size_kib) * 1024;
    let lines = size_bytes / u64::from(line_bytes);
    // A number that does not fit 32 bits is above the limit too.
    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
    if lines == 0 || lines > MAX_LINES {
        let most_kib = u64::from(MAX_LINES) * u64::from(line_bytes) / 1024;
        let least_kib = line_bytes.div_ceil(1024);
        return Err(ParameterError::new(
            format!("{path}.size_kib"),
            size_kib,
            format!("expected {least_kib} to {most_kib} with lines of {line_bytes} bytes"),
        ));
    }
    if ways == 0 || lines % ways != 0 || !(lines / ways).is_power_of_two() {
        return Err(ParameterError::new(
            format!("{path}.ways"),
            ways,
            format!(
                "{size_kib} KiB are {lines} lines of {line_bytes} bytes, and lines / ways must be a \
                 power of two; change ways or size_kib"
            ),
        ));
    }
    Ok(CacheShape {
        sets: lines / ways,
        ways: ways as usize,
    })
}

fn not_faster(path: &str, cycles: u32, least_cycles: u32) -> Result<(), ParameterError> {
    if cycles >= least_cycles {
        return Ok(());
    }
    Err(ParameterError::new(
        format!("{path}.latency_cycles"),
        cycles,
        format!("the level above takes {least_cycles} cycles; expected at least as many"),
    ))
}
