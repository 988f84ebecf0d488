//! Profiles of pprof (profile.proto of github.com/google/pprof, usually compressed by gzip), as Go's
//! `net/http/pprof`, Parca and perpacket write them.
//!
//! The message is decoded without a library, as `crate::pprof` encodes it.

use std::collections::HashMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::text_stacks::{Frame, TextStack};
use crate::process::GENERATED;

/// The first bytes of a file that gzip compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first byte of a profile: its first field, which is a message.
const FIRST: u8 = 0x0a;

/// A profile is refused if it is longer, because a small file may decompress to a very large one.
const LARGEST_BYTES: u64 = 1 << 30;

/// The time of a sample whose profile does not state its period. Go samples 100 times a second.
const PERIOD_NS: u64 = 10_000_000;

/// Wire types (protobuf.dev/programming-guides/encoding).
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

/// The labels that name a process, in the order of preference.
const PROCESS: [&str; 4] = ["process", "comm", "command", "thread"];

/// What the profile measures, in nanoseconds or as a number of samples.
const OF_TIME: [&str; 4] = ["cpu", "samples", "sample", "wall"];

/// The stacks of a profile, and its length in seconds.
#[derive(Debug)]
pub(super) struct Profile {
    pub stacks: Vec<TextStack>,
    pub duration_s: f64,
}

/// The bytes of a file that gzip compressed; other files as they are.
///
/// # Errors
/// The file is damaged or too large.
pub(super) fn decompressed(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut found = Vec::new();
    let mut reader = MultiGzDecoder::new(&bytes[..]).take(LARGEST_BYTES + 1);
    reader
        .read_to_end(&mut found)
        .map_err(|error| format!("it is compressed by gzip and damaged: {error}"))?;
    if found.len() as u64 > LARGEST_BYTES {
        return Err("it has more than 1 GiB".to_owned());
    }
    Ok(found)
}

/// Whether bytes may be a profile.
pub(super) fn is_profile(bytes: &[u8]) -> bool {
    bytes.first() == Some(&FIRST) && Message(bytes).fields().count() > 1 && message(bytes).is_ok()
}

/// Decodes a profile.
///
/// # Errors
/// The bytes are no profile, or one of something other than time.
pub(super) fn parse(bytes: &[u8]) -> Result<Profile, String> {
    let tables = message(bytes)?;
    let (value, unit) = tables.value()?;
    let count = tables.column("samples", "count");
    let mut stacks = Vec::new();
    for sample in &tables.samples {
        let amount = sample.values.get(value).copied().unwrap_or(0);
        if amount <= 0 {
            continue;
        }
        let mut stack = tables.stack(sample);
        let counted = count.and_then(|at| sample.values.get(at).copied());
        if unit == "count" {
            stack.count = amount as f64;
        } else {
            let period = if tables.period > 0 {
                tables.period
            } else {
                PERIOD_NS
            };
            let samples = counted.unwrap_or(0).max(amount / period as i64).max(1);
            stack.count = samples as f64;
            stack.period = Some(amount as u64 / samples as u64);
        }
        stacks.push(stack);
    }
    Ok(Profile {
        stacks,
        duration_s: tables.duration_ns as f64 / 1e9,
    })
}

/// A message, field by field.
struct Message<'a>(&'a [u8]);

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    /// The fields with their numbers; an error ends them.
    fn fields(&self) -> Fields<'a> {
        Fields {
            rest: self.0,
            failed: false,
        }
    }
}

struct Fields<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        varint(&mut self.rest)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (found, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(found)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            VARINT => Value::Number(self.varint()?),
            FIXED_64 => Value::Bytes(self.bytes(8)?),
            LENGTH => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.bytes(length)?)
            }
            FIXED_32 => Value::Bytes(self.bytes(4)?),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.failed {
            return None;
        }
        let found = self.field();
        self.failed = found.is_none();
        Some(found.ok_or_else(|| "it is no profile of pprof, or is cut off".to_owned()))
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A list of numbers, which is packed or has a field for each number.
fn add(numbers: &mut Vec<u64>, value: &Value<'_>) {
    match value {
        Value::Number(number) => numbers.push(*number),
        Value::Bytes(bytes) => {
            let mut rest = *bytes;
            while let Some(number) = varint(&mut rest) {
                numbers.push(number);
            }
        }
    }
}

#[derive(Default)]
struct Sample {
    locations: Vec<u64>,
    values: Vec<i64>,
    /// Indices of the strings of each label's key and text.
    labels: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Location {
    mapping: u64,
    /// The functions, the innermost of inlined ones first.
    functions: Vec<u64>,
}

#[derive(Default)]
struct Tables<'a> {
    types: Vec<(u64, u64)>,
    samples: Vec<Sample>,
    mappings: HashMap<u64, u64>,
    locations: HashMap<u64, Location>,
    functions: HashMap<u64, u64>,
    strings: Vec<&'a [u8]>,
    duration_ns: u64,
    period: u64,
}

fn message(bytes: &[u8]) -> Result<Tables<'_>, String> {
    let mut tables = Tables::default();
    for field in Message(bytes).fields() {
        match field? {
            (1, Value::Bytes(inner)) => tables.types.push(pair(inner, 1, 2)?),
            (2, Value::Bytes(inner)) => tables.samples.push(sample(inner)?),
            (3, Value::Bytes(inner)) => {
                let (id, file) = pair(inner, 1, 5)?;
                tables.mappings.insert(id, file);
            }
            (4, Value::Bytes(inner)) => {
                let (id, found) = location(inner)?;
                tables.locations.insert(id, found);
            }
            (5, Value::Bytes(inner)) => {
                let (id, name) = pair(inner, 1, 2)?;
                tables.functions.insert(id, name);
            }
            (6, Value::Bytes(text)) => tables.strings.push(text),
            (10, Value::Number(number)) => tables.duration_ns = number,
            (12, Value::Number(number)) => tables.period = number,
            _ => {}
        }
    }
    let is_profile = tables.strings.first().is_some_and(|first| first.is_empty());
    if tables.types.is_empty() || !is_profile {
        return Err("it is no profile of pprof: it has no sample types and strings".to_owned());
    }
    Ok(tables)
}

/// Two numbers of a message.
fn pair(bytes: &[u8], first: u64, second: u64) -> Result<(u64, u64), String> {
    let mut found = (0, 0);
    for field in Message(bytes).fields() {
        match field? {
            (number, Value::Number(value)) if number == first => found.0 = value,
            (number, Value::Number(value)) if number == second => found.1 = value,
            _ => {}
        }
    }
    Ok(found)
}

fn sample(bytes: &[u8]) -> Result<Sample, String> {
    let mut found = Sample::default();
    for field in Message(bytes).fields() {
        match field? {
            (1, value) => add(&mut found.locations, &value),
            (2, value) => {
                let mut numbers = Vec::new();
                add(&mut numbers, &value);
                found
                    .values
                    .extend(numbers.into_iter().map(|number| number as i64));
            }
            (3, Value::Bytes(label)) => found.labels.push(pair(label, 1, 2)?),
            _ => {}
        }
    }
    Ok(found)
}

fn location(bytes: &[u8]) -> Result<(u64, Location), String> {
    let (mut id, mut found) = (0, Location::default());
    for field in Message(bytes).fields() {
        match field? {
            (1, Value::Number(number)) => id = number,
            (2, Value::Number(number)) => found.mapping = number,
            (4, Value::Bytes(line)) => found.functions.push(pair(line, 1, 2)?.0),
            _ => {}
        }
    }
    Ok((id, found))
}

impl Tables<'_> {
    fn text(&self, index: u64) -> String {
        let text = usize::try_from(index)
            .ok()
            .and_then(|at| self.strings.get(at));
        String::from_utf8_lossy(text.copied().unwrap_or_default()).into_owned()
    }

    /// The index of the values of a type and a unit.
    fn column(&self, kind: &str, unit: &str) -> Option<usize> {
        self.types
            .iter()
            .position(|&(name, of)| self.text(name) == kind && self.text(of) == unit)
    }

    /// The index of the values of time or samples, and their unit.
    fn value(&self) -> Result<(usize, String), String> {
        let units = ["nanoseconds", "count"];
        let ways = units
            .iter()
            .flat_map(|unit| OF_TIME.iter().map(move |kind| (*kind, *unit)));
        for (kind, unit) in ways {
            if let Some(found) = self.column(kind, unit) {
                return Ok((found, unit.to_owned()));
            }
        }
        let listed: Vec<String> = self
            .types
            .iter()
            .map(|&(name, unit)| format!("{}/{}", self.text(name), self.text(unit)))
            .collect();
        Err(format!(
            "a profile of pprof of {}; expected one of processor time, such as that of /debug/pprof/profile",
            listed.join(", ")
        ))
    }

    fn stack(&self, sample: &Sample) -> TextStack {
        let label = |key: &str| {
            let found = sample
                .labels
                .iter()
                .find(|(name, _)| self.text(*name) == key)?;
            Some(self.text(found.1)).filter(|text| !text.is_empty())
        };
        let command = PROCESS
            .iter()
            .find_map(|key| label(key))
            .unwrap_or_else(|| self.program());
        let mut frames: Vec<Frame> = sample
            .locations
            .iter()
            .flat_map(|id| self.frames(*id))
            .collect();
        frames.reverse();
        TextStack {
            command,
            frames,
            ..TextStack::default()
        }
    }

    /// The program of a profile without labels: the name of its first mapping's file.
    fn program(&self) -> String {
        let first = self.mappings.iter().min_by_key(|(id, _)| **id);
        let path = first.map(|(_, file)| self.text(*file)).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.is_empty() { "unknown" } else { name }.to_owned()
    }

    /// The functions of a location, the innermost first.
    fn frames(&self, id: u64) -> Vec<Frame> {
        let Some(location) = self.locations.get(&id) else {
            return Vec::new();
        };
        let file = self
            .mappings
            .get(&location.mapping)
            .map(|file| self.text(*file));
        let kernel = match file.as_deref() {
            Some("") | None => None,
            Some(file) => Some(is_of_kernel(file)),
        };
        if location.functions.is_empty() {
            let name = "[unknown]".to_owned();
            return vec![Frame {
                name,
                module: None,
                kernel,
            }];
        }
        let name = |function: &u64| {
            let index = self.functions.get(function).copied().unwrap_or_default();
            self.text(index)
        };
        location
            .functions
            .iter()
            .map(|function| Frame {
                name: name(function),
                module: None,
                kernel,
            })
            .collect()
    }
}

/// Whether a file is the kernel or one of its modules: `[kernel.kallsyms]`, `[nf_tables]`, `vmlinux`.
fn is_of_kernel(file: &str) -> bool {
    let others = [
        "[vdso]",
        "[vsyscall]",
        "[heap]",
        "[stack]",
        "[anon]",
        GENERATED,
    ];
    let name = file.rsplit('/').next().unwrap_or_default();
    (file.starts_with('[') && !others.contains(&file))
        || name.starts_with("vmlinux")
        || name.contains(".ko")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with a length.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    /// A profile of one value and one sample in `net.Write`, called by `main.run`.
    fn profile(kind: &[u8], unit: &[u8]) -> Vec<u8> {
        let strings: [&[u8]; 6] = [b"", kind, unit, b"net.Write", b"main.run", b"/opt/app"];
        [
            field(1, &[8, 1, 16, 2]),
            field(
                2,
                &[[10, 2, 1, 2].as_slice(), &[16, 0x80, 0xda, 0xc4, 0x09]].concat(),
            ),
            field(3, &[8, 1, 40, 5]),
            field(4, &[8, 1, 16, 1, 34, 2, 8, 1]),
            field(4, &[8, 2, 16, 1, 34, 2, 8, 2]),
            field(5, &[8, 1, 16, 3]),
            field(5, &[8, 2, 16, 4]),
            strings.iter().flat_map(|text| field(6, text)).collect(),
        ]
        .concat()
    }

    #[test]
    fn a_profile_of_go_has_the_time_and_the_functions_of_its_program() {
        let bytes = profile(b"cpu", b"nanoseconds");
        assert!(is_profile(&bytes));
        let found = parse(&bytes).expect("it is a profile");
        let stack = &found.stacks[0];
        let names: Vec<&str> = stack
            .frames
            .iter()
            .map(|frame| frame.name.as_str())
            .collect();
        assert_eq!(
            (stack.command.as_str(), names),
            ("app", vec!["main.run", "net.Write"])
        );
        assert_eq!((stack.count, stack.period), (2.0, Some(10_000_000)));
        assert_eq!(stack.frames[0].kernel, Some(false));
    }

    #[test]
    fn a_profile_of_memory_and_one_that_is_cut_off_are_refused() {
        let error = parse(&profile(b"inuse_space", b"bytes")).expect_err("it has no time");
        assert!(error.contains("inuse_space/bytes"), "{error}");
        let bytes = profile(b"cpu", b"nanoseconds");
        for length in 0..bytes.len() {
            let _ = parse(&bytes[..length]); // no length makes it panic
        }
        assert!(parse(&bytes[..bytes.len() - 3]).is_err());
        assert!(!is_profile(b"\nhello"));
    }
}
