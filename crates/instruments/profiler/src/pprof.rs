//! Profiles for pprof and the programs that read its files (profile.proto of github.com/google/pprof,
//! compressed by gzip).
//!
//! The message has only some ten fields, which are integers, strings and messages. So this module
//! encodes it without a library: each field is a varint or has a length
//! (protobuf.dev/programming-guides/encoding).

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use perpacket_cost::{Layer, SymbolId};
use perpacket_linux::clock::realtime_ns;

use crate::collector::Collector;
use crate::folded::{Names, names};
use crate::passes::PassResult;
use crate::process::{GENERATED, Place};
use crate::tally::{Code, Group, Weight};

/// Wire type of an integer.
const VARINT: u64 = 0;

/// Wire type of a string or message.
const LENGTH: u64 = 2;

/// An incomplete message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// Appends a list of numbers: the field's key once, then the numbers.
    fn numbers(&mut self, field: u64, values: &[u64]) {
        let mut packed = Self::default();
        for &value in values {
            packed.varint(value);
        }
        self.message(field, &packed);
    }
}

/// Strings by index. The first string is empty.
struct Strings {
    indices: HashMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        Self {
            indices: HashMap::from([(String::new(), 0)]),
            all: vec![String::new()],
        }
    }

    fn index(&mut self, text: &str) -> u64 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }
}

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Frame {
    Kernel(Option<SymbolId>),
    User(Option<Place>),
}

/// An incomplete profile: the message, and the tables to which its samples refer.
struct Builder<'a> {
    collector: &'a Collector,
    user_names: Names,
    group_names: HashMap<Group, String>,
    profile: Message,
    strings: Strings,
    locations: HashMap<Frame, u64>,
    mappings: HashMap<String, u64>,
}

/// Writes the samples of a pass.
///
/// The first value of a sample is its processor time, `cpu/nanoseconds`. If there were packets, the
/// second is its time for each packet, `cost/nanoseconds per packet`. Values are whole numbers.
/// They are rounded such that the sum over a layer has an error of at most 1 ns.
///
/// # Errors
/// The writer fails.
pub fn write(out: impl Write, pass: &PassResult, collector: &mut Collector) -> io::Result<()> {
    let groups: HashSet<Group> = pass.tally.codes.values().map(|code| code.group).collect();
    let group_names = groups
        .into_iter()
        .map(|group| (group, collector.group_name(group)))
        .collect();
    let collector = &*collector;
    let mut builder = Builder {
        collector,
        user_names: names(&pass.tally, collector),
        group_names,
        profile: Message::default(),
        strings: Strings::new(),
        locations: HashMap::new(),
        mappings: HashMap::new(),
    };
    builder.header(pass);
    let mut codes: Vec<_> = pass.tally.codes.iter().collect();
    // Group the codes by layer, so that the rounding errors of a layer cancel.
    codes.sort_by_key(|((pid, _), weight)| {
        let charge = weight.charge;
        (charge.layer as usize, charge.kind as usize, *pid)
    });
    let packets = pass.activity.window.packets.total();
    let mut sum_ns = 0.0;
    for (&(pid, ref code), weight) in codes {
        let before_ns = sum_ns;
        sum_ns += weight.weight;
        let divided = |by: f64| (sum_ns / by).round() as u64 - (before_ns / by).round() as u64;
        let mut values = vec![divided(1.0)];
        if packets > 0 {
            values.push(divided(packets as f64));
        }
        builder.sample(pid, code, weight, &values);
    }
    for text in &builder.strings.all {
        builder.profile.bytes(6, text.as_bytes());
    }
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&builder.profile.0)?;
    gzip.finish()?.flush()
}

impl Builder<'_> {
    fn value_type(&mut self, field: u64, name: &str, unit: &str) {
        let mut value_type = Message::default();
        value_type.number(1, self.strings.index(name));
        value_type.number(2, self.strings.index(unit));
        self.profile.message(field, &value_type);
    }

    fn header(&mut self, pass: &PassResult) {
        self.value_type(1, "cpu", "nanoseconds");
        let window = &pass.activity.window;
        if window.packets.total() > 0 {
            self.value_type(1, "cost", "nanoseconds per packet");
        }
        self.profile.number(9, realtime_ns());
        self.profile.number(10, (window.duration_s * 1e9) as u64);
        let samples = pass.tally.samples.max(1);
        let all_ns: f64 = pass.tally.codes.values().map(|code| code.weight).sum();
        self.value_type(11, "cpu", "nanoseconds");
        self.profile
            .number(12, (all_ns / samples as f64).round() as u64);
        let cpu = self.strings.index("cpu");
        self.profile.number(14, cpu);
    }

    fn sample(&mut self, pid: u32, code: &Code, weight: &Weight, values: &[u64]) {
        let frames: Vec<Frame> = match code {
            Code::Kernel(stack) => stack.frames.iter().copied().map(Frame::Kernel).collect(),
            Code::User(place) => vec![Frame::User(place.clone())],
        };
        let locations: Vec<u64> = frames
            .into_iter()
            .map(|frame| self.location(frame))
            .collect();
        let mut sample = Message::default();
        sample.numbers(1, &locations);
        sample.numbers(2, values);
        let process = self.collector.processes().get(pid);
        let command = process.map_or("", |process| process.command.as_str());
        let cgroup = match weight.charge.layer {
            Layer::Idle => "",
            _ => self.group_names[&weight.group].as_str(),
        };
        let labels = [
            ("layer", weight.charge.layer.name()),
            ("kind", weight.charge.kind.name()),
            ("process", command),
            ("cgroup", cgroup),
        ];
        for (key, text) in labels.into_iter().filter(|(_, text)| !text.is_empty()) {
            let mut label = Message::default();
            label.number(1, self.strings.index(key));
            label.number(2, self.strings.index(text));
            sample.message(3, &label);
        }
        self.profile.message(2, &sample);
    }

    /// The number of a frame's location. At the first use, this adds the location, its function and
    /// its file.
    fn location(&mut self, frame: Frame) -> u64 {
        if let Some(&number) = self.locations.get(&frame) {
            return number;
        }
        let number = self.locations.len() as u64 + 1;
        self.locations.insert(frame.clone(), number);
        let (file, name) = self.described(&frame);
        let mapping = self.mapping(&file);
        let mut function = Message::default();
        function.number(1, number);
        for field in [2, 3] {
            function.number(field, self.strings.index(&name));
        }
        function.number(4, self.strings.index(&file));
        self.profile.message(5, &function);
        let mut line = Message::default();
        line.number(1, number);
        let mut location = Message::default();
        location.number(1, number);
        location.number(2, mapping);
        if let Frame::User(Some(place)) = &frame {
            location.number(3, place.offset);
        }
        location.message(4, &line);
        self.profile.message(4, &location);
        number
    }

    /// The file and the function of a frame.
    fn described(&self, frame: &Frame) -> (String, String) {
        let symbols = self.collector.attributor().symbols();
        match frame {
            &Frame::Kernel(Some(id)) => {
                let module = symbols.module(id).unwrap_or("kernel");
                (format!("[{module}]"), symbols.name(id).to_owned())
            }
            Frame::Kernel(None) => ("[kernel]".to_owned(), "[unresolved]".to_owned()),
            Frame::User(Some(place)) => {
                let file = place.file.path();
                let name = self.user_names.get(place);
                (
                    file.to_owned(),
                    name.map_or_else(|| file.to_owned(), Clone::clone),
                )
            }
            Frame::User(None) => (GENERATED.to_owned(), GENERATED.to_owned()),
        }
    }

    /// The number of a file's mapping. The mapping states that its functions have names, so that
    /// pprof looks up none.
    fn mapping(&mut self, file: &str) -> u64 {
        if let Some(&number) = self.mappings.get(file) {
            return number;
        }
        let number = self.mappings.len() as u64 + 1;
        self.mappings.insert(file.to_owned(), number);
        let mut mapping = Message::default();
        mapping.number(1, number);
        mapping.number(5, self.strings.index(file));
        mapping.number(7, 1);
        self.profile.message(3, &mapping);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_in_the_formats_documentation() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        assert_eq!(message.0, b"\x08\x96\x01\x12\x07testing");
        let mut packed = Message::default();
        packed.numbers(6, &[3, 270, 86942]);
        assert_eq!(packed.0, b"\x32\x06\x03\x8e\x02\x9e\xa7\x05");
    }
}
