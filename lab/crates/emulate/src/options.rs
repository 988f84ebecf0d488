//! The options of the plugin, as `key=value`.

use std::path::PathBuf;

use perpacket_memory::{
    CacheSize, MAX_PROCESSORS, Policy, Protocol, SharedLevel, TranslationParameters,
};
use thiserror::Error;

use crate::model::{DeviceWrites, ModelParameters};
use crate::rows::By;
use crate::sharing::SharingParameters;

/// Instructions of a processor's turn, if no option names another number.
const TURN_INSTRUCTIONS: u64 = 20_000;

/// The plugin's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// File for the results, with one line of JSON for each window.
    pub out: PathBuf,
    /// File that the guest can read.
    pub work: Option<PathBuf>,
    /// An archive of files for the guest, which the guest can read.
    pub files: Option<PathBuf>,
    /// The guest's `/proc/kallsyms`.
    pub symbols: Option<PathBuf>,
    /// A file of rules that have priority over the compiled-in ones.
    pub rules: Option<PathBuf>,
    /// File that the guest can write.
    pub dump: Option<PathBuf>,
    /// File for the recording.
    pub record: Option<PathBuf>,
    /// Whether the recording omits accesses that cannot change a cache of usual size.
    pub filters_recording: bool,
    /// The caches.
    pub model: ModelParameters,
    /// The processors of the server, if all are watched. Without it processor 0 alone is.
    pub sharing: Option<SharingParameters>,
    /// Instructions after which a processor's turn ends; 0 if the emulator decides when it ends.
    pub turn_instructions: u64,
    /// The division of costs besides the division by layer.
    pub by: By,
    /// The kernel's type information (BTF), for structures.
    pub types: Option<PathBuf>,
    /// The variables of the server's program, for structures.
    pub program: Option<PathBuf>,
    /// File for the type information that the guest stores.
    pub dump_types: Option<PathBuf>,
    /// File for the mappings of the server's processes at the end of the window. With it, costs by
    /// function are also by block of user code.
    pub maps: Option<PathBuf>,
}

/// The modelled caches, and the options of the report.
#[derive(Clone, Debug)]
pub struct ObserverSettings {
    /// The caches.
    pub model: ModelParameters,
    /// The processors and how their caches are kept coherent, if there are several.
    pub sharing: Option<SharingParameters>,
    /// The division of costs besides the division by layer.
    pub by: By,
    /// Whether accesses that cannot change a cache are left out of the recording.
    pub filters_recording: bool,
    /// Instructions after which the emulator ends a processor's turn. It is only reported.
    pub turn_instructions: u64,
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("option `{option}`: expected {expected}")]
pub struct OptionError {
    /// The option as it was passed.
    pub option: String,
    /// What was expected.
    pub expected: &'static str,
}

const KEYS: &str = "out, work, files, symbols, types, program, rules, dump, dump-types, maps, record, \
                    filter, l1, l2, policy, prefetch, tlb, dma, processors, l3, protocol, turn or by, \
                    each with `=` and a value";
const MODEL_KEYS: &str = "l1, l2, policy, prefetch, tlb or dma, each with `=` and a value";
const SIZES: &str = "KIB:WAYS, or several joined by `+`";
const SHARED: &str = "KIB:WAYS:PROCESSORS or none";

impl Options {
    /// Parses options in the form `key=value`.
    ///
    /// # Errors
    ///
    /// The error names the first option that cannot be used, or `out` if it is missing.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for argument in arguments {
            let fail = |expected| OptionError {
                option: argument.to_owned(),
                expected,
            };
            let (key, value) = argument.split_once('=').ok_or_else(|| fail(KEYS))?;
            options.set(key, value).map_err(fail)?;
        }
        if let Some(sharing) = &options.sharing
            && sharing.processors == 0
        {
            return Err(OptionError {
                option: "l3 or protocol".to_owned(),
                expected: "the option `processors` too",
            });
        }
        if options.out.as_os_str().is_empty() {
            return Err(OptionError {
                option: "out".to_owned(),
                expected: "the name of a file for the results",
            });
        }
        Ok(options)
    }

    /// The number of the server's processors. They are the first ones of the machine.
    #[must_use]
    pub fn server_processors(&self) -> usize {
        self.sharing
            .as_ref()
            .map_or(1, |sharing| sharing.processors)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let file = || Some(PathBuf::from(value));
        match key {
            "out" => self.out = PathBuf::from(value),
            "work" => self.work = file(),
            "files" => self.files = file(),
            "symbols" => self.symbols = file(),
            "rules" => self.rules = file(),
            "dump" => self.dump = file(),
            "types" => self.types = file(),
            "program" => self.program = file(),
            "dump-types" => self.dump_types = file(),
            "maps" => self.maps = file(),
            "record" => self.record = file(),
            "filter" => {
                self.filters_recording =
                    one_of(value, &[("lines", true), ("none", false)], "lines or none")?;
            }
            "turn" => {
                self.turn_instructions = value.parse().map_err(|_| "a number of instructions")?;
            }
            "processors" => {
                let number = value.parse().unwrap_or(0);
                if !(1..=MAX_PROCESSORS).contains(&number) {
                    return Err("a number of processors from 1 to 8");
                }
                self.sharing().processors = number;
            }
            "l3" if value == "none" => self.sharing().shared = None,
            "l3" => self.sharing().shared = Some(shared_level(value).ok_or(SHARED)?),
            "protocol" => {
                let names = [("mesi", Protocol::Mesi), ("moesi", Protocol::Moesi)];
                self.sharing().protocol = one_of(value, &names, "mesi or moesi")?;
            }
            "by" => {
                let names = [
                    ("layer", By::Layer),
                    ("function", By::Function),
                    ("structure", By::Structure),
                ];
                self.by = one_of(value, &names, "layer, function or structure")?;
            }
            _ if self.model.set(key, value)? => {}
            _ => return Err(KEYS),
        }
        Ok(())
    }

    /// What several processors add. Their number is 0 until an option sets it.
    fn sharing(&mut self) -> &mut SharingParameters {
        self.sharing.get_or_insert(SharingParameters {
            processors: 0,
            shared: None,
            protocol: Protocol::default(),
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            out: PathBuf::new(),
            work: None,
            files: None,
            symbols: None,
            rules: None,
            dump: None,
            record: None,
            filters_recording: true,
            model: ModelParameters::default(),
            sharing: None,
            turn_instructions: TURN_INSTRUCTIONS,
            by: By::Layer,
            types: None,
            program: None,
            dump_types: None,
            maps: None,
        }
    }
}

impl ModelParameters {
    /// Parses options of the caches alone, in the form `key=value`.
    ///
    /// # Errors
    ///
    /// Names the first option that cannot be used.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self, OptionError> {
        let mut model = Self::default();
        for argument in arguments {
            let fail = |expected| OptionError {
                option: argument.to_owned(),
                expected,
            };
            let (key, value) = argument.split_once('=').ok_or_else(|| fail(MODEL_KEYS))?;
            if !model.set(key, value).map_err(fail)? {
                return Err(fail(MODEL_KEYS));
            }
        }
        Ok(model)
    }

    /// Sets the option of that key; returns whether there is one.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, &'static str> {
        match key {
            "l1" => self.first = sizes(value)?,
            "l2" => self.second = sizes(value)?,
            "policy" => self.policy = policy(value)?,
            "prefetch" => {
                let names = [("none", false), ("next-line", true)];
                self.next_line_prefetch = one_of(value, &names, "none or next-line")?;
            }
            "tlb" if value == "none" => self.translation = None,
            "tlb" => {
                let (entries, ways) = pair(value).ok_or("ENTRIES:WAYS or none")?;
                self.translation = Some(TranslationParameters { entries, ways });
            }
            "dma" => self.device_writes = device_writes(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Default for ModelParameters {
    /// First levels of 64 KiB and two ways; second levels of 256 and 512 KiB and 16 ways, as the
    /// Athlons of TR05-450 had.
    fn default() -> Self {
        let size = |size_kib, ways| CacheSize { size_kib, ways };
        Self {
            first: vec![size(64, 2)],
            second: vec![size(256, 16), size(512, 16)],
            policy: Policy::NonInclusive,
            next_line_prefetch: false,
            translation: None,
            device_writes: DeviceWrites::Invalidate,
        }
    }
}

fn one_of<T: Copy>(
    value: &str,
    names: &[(&str, T)],
    expected: &'static str,
) -> Result<T, &'static str> {
    let entry = names.iter().find(|(name, _)| *name == value);
    entry.map(|(_, meaning)| *meaning).ok_or(expected)
}

/// The policy of that name.
fn policy(value: &str) -> Result<Policy, &'static str> {
    let names = [
        ("non-inclusive", Policy::NonInclusive),
        ("inclusive", Policy::Inclusive),
        ("exclusive", Policy::Exclusive),
    ];
    one_of(value, &names, "non-inclusive, inclusive or exclusive")
}

/// The effect of a device's write, by name.
fn device_writes(value: &str) -> Result<DeviceWrites, &'static str> {
    let names = [
        ("none", DeviceWrites::None),
        ("invalidate", DeviceWrites::Invalidate),
        ("allocate", DeviceWrites::Allocate),
    ];
    one_of(value, &names, "none, invalidate or allocate")
}

fn pair(value: &str) -> Option<(u32, u32)> {
    let (first, second) = value.split_once(':')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

fn shared_level(value: &str) -> Option<SharedLevel> {
    let (size, processors) = value.rsplit_once(':')?;
    let (size_kib, ways) = pair(size)?;
    Some(SharedLevel {
        size: CacheSize { size_kib, ways },
        processors: processors.parse().ok()?,
    })
}

fn sizes(value: &str) -> Result<Vec<CacheSize>, &'static str> {
    let size = |part| {
        let (size_kib, ways) = pair(part).ok_or(SIZES)?;
        Ok(CacheSize { size_kib, ways })
    };
    value.split('+').map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_an_effect() {
        let all = [
            "out=o",
            "work=w",
            "files=f",
            "symbols=s",
            "rules=r",
            "dump=d",
            "record=c",
            "filter=none",
            "l1=32:8",
            "l2=256:16+1024:16",
            "policy=exclusive",
            "prefetch=next-line",
            "tlb=64:4",
            "dma=allocate",
            "processors=4",
            "l3=4096:16:2",
            "protocol=moesi",
            "turn=2000",
            "by=function",
            "types=t",
            "program=p",
            "dump-types=e",
            "maps=m",
        ];
        let options = Options::parse(all).unwrap();
        let processors = all
            .iter()
            .position(|option| option.starts_with("processors"));
        for missing in (1..all.len()).filter(|missing| Some(*missing) != processors) {
            let others = all
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != missing);
            let without = Options::parse(others.map(|(_, option)| *option)).unwrap();
            assert_ne!(options, without, "{}", all[missing]);
        }
        assert_eq!(options.model.configurations().len(), 2);
    }

    #[test]
    fn an_error_names_the_option_and_what_was_expected() {
        let error = |option| Options::parse(["out=o", option]).unwrap_err().to_string();
        assert_eq!(
            error("l2=256"),
            "option `l2=256`: expected KIB:WAYS, or several joined by `+`"
        );
        assert_eq!(
            error("dma=yes"),
            "option `dma=yes`: expected none, invalidate or allocate"
        );
        assert_eq!(
            error("processors=9"),
            "option `processors=9`: expected a number of processors from 1 to 8"
        );
        assert_eq!(
            error("l3=4096:16"),
            "option `l3=4096:16`: expected KIB:WAYS:PROCESSORS or none"
        );
        assert_eq!(
            error("protocol=moesi"),
            "option `l3 or protocol`: expected the option `processors` too"
        );
        assert!(error("size=3").starts_with("option `size=3`: expected out, work, "));
        let error = Options::parse([]).unwrap_err().to_string();
        assert_eq!(
            error,
            "option `out`: expected the name of a file for the results"
        );
    }
}
