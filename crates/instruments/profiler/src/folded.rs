//! Folded stacks for flame graph tools. A line is one stack: `command;outermost;...;leaf COUNT`.
//!
//! Functions of user code are looked up after the window, so that the profile does not include the
//! cost of the look-up.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};

use perpacket_cost::Layer;

use crate::collector::Collector;
use crate::generated::Routines;
use crate::process::{CodeFile, GENERATED, Place, file_name};
use crate::tally::{Code, Tally};

/// Names of functions, by file and offset in the file.
pub(crate) type Names = HashMap<Place, String>;

/// Writes the samples of a tally as folded stacks, sorted by text.
///
/// # Errors
/// The writer fails.
pub fn write(out: &mut dyn Write, tally: &Tally, collector: &Collector) -> io::Result<()> {
    let names = names(tally, collector);
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for ((pid, code), weight) in &tally.codes {
        let line = line(*pid, code, collector, &names);
        *lines.entry(line).or_default() += weight.samples;
    }
    for (line, samples) in lines {
        writeln!(out, "{line} {samples}")?;
    }
    Ok(())
}

fn line(pid: u32, code: &Code, collector: &Collector, names: &Names) -> String {
    let process = collector.processes().get(pid);
    let mut line = match process {
        Some(process) if !process.command.is_empty() => clean(&process.command),
        _ if pid == 0 => "swapper".to_owned(),
        _ => format!("pid-{pid}"),
    };
    let mut push = |name: &str| {
        line.push(';');
        line.push_str(&clean(name));
    };
    match code {
        Code::Kernel(stack) => {
            let symbols = collector.attributor().symbols();
            for frame in stack.frames.iter().rev() {
                push(frame.map_or("[unresolved]", |id| symbols.name(id)));
            }
        }
        Code::User(Some(place)) => {
            push(&format!("[{}]", file_name(place.file.path())));
            if let Some(name) = names.get(place) {
                push(name);
            }
        }
        Code::User(None) => push(GENERATED),
    }
    line
}

/// Replaces the characters that separate functions and stacks.
fn clean(name: &str) -> String {
    name.replace([';', '\n'], ":")
}

/// The names of code that the server's processes compiled at run time. The `offsets` of such code
/// are addresses.
fn generated(tally: &Tally, collector: &Collector) -> Names {
    let processes = collector.processes();
    let mut names = Names::new();
    let mut routines: HashMap<u32, Routines> = HashMap::new();
    for (&(pid, ref code), weight) in &tally.codes {
        let Code::User(Some(place)) = code else {
            continue;
        };
        if weight.charge.layer != Layer::User || place.file.path() != GENERATED {
            continue;
        }
        let of_process = routines
            .entry(pid)
            .or_insert_with(|| Routines::of(pid, processes.has_code_of(pid, "libjvm.so")));
        if let Some(name) = of_process.find(place.offset) {
            names.insert(place.clone(), name.to_owned());
        }
    }
    names
}

/// The names of the functions of user code in a tally.
pub(crate) fn names(tally: &Tally, collector: &Collector) -> Names {
    let mut offsets: HashMap<&CodeFile, Vec<u64>> = HashMap::new();
    let mut seen_in: HashMap<&CodeFile, u32> = HashMap::new();
    for (pid, code) in tally.codes.keys() {
        if let Code::User(Some(Place { file, offset })) = code {
            offsets.entry(file).or_default().push(*offset);
            seen_in.insert(file, *pid);
        }
    }
    let symbolizer = Symbolizer::builder()
        .enable_code_info(false)
        .enable_inlined_fns(false)
        .build();
    let mut names = generated(tally, collector);
    for (of_code, offsets) in offsets {
        let path = of_code.path();
        let pid = seen_in.get(of_code).copied().unwrap_or(0);
        // The path through the process's root leads to files of another mount namespace.
        let through_process = format!("/proc/{pid}/root{path}");
        let candidates = [through_process.as_str(), path];
        let Some(file) = candidates
            .into_iter()
            .find(|file| Path::new(file).is_file())
        else {
            continue;
        };
        let source = Source::Elf(Elf::new(file));
        // Files without symbols are skipped.
        let Ok(found) = symbolizer.symbolize(&source, Input::FileOffset(&offsets)) else {
            continue;
        };
        for (offset, symbol) in offsets.into_iter().zip(found) {
            if let Some(symbol) = symbol.into_sym() {
                let file = of_code.clone();
                names.insert(Place { file, offset }, symbol.name.into_owned());
            }
        }
    }
    names
}
