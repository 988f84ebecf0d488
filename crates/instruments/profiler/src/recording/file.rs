//! The parts of a recording's file: header, events, features, records.

use perf_event_open_sys::bindings;

use super::fields;
use super::text_stacks::EXPECTED;
use crate::capture::ring::HEADER_BYTES;

/// The first bytes of a file in this machine's byte order.
pub(super) const MAGIC: &[u8; 8] = b"PERFILE2";

/// The same bytes in the other byte order.
pub(super) const SWAPPED: &[u8; 8] = b"2ELIFREP";

/// Bytes of the header of a pipe's stream, which has no sections.
const PIPE_HEADER_BYTES: u64 = 16;

/// Bits of the features that are read (`HEADER_*` in `tools/perf/util/header.h`).
const HOSTNAME: usize = 3;
const OSRELEASE: usize = 4;
const NRCPUS: usize = 7;
const CMDLINE: usize = 11;

/// The way out for recordings that only perf reads.
const AS_TEXT: &str = "or run `perf script -i FILE > FILE.txt` there and read FILE.txt";

/// Number of feature bits.
const FEATURE_BITS: usize = 256;

/// Types of records that perf itself writes begin here (`PERF_RECORD_USER_TYPE_START`).
const FIRST_OWN: u32 = 64;

/// A record that is followed by bytes that belong to no record (`PERF_RECORD_AUXTRACE`).
const AUXTRACE: u32 = 71;

/// Records that contain compressed records (`PERF_RECORD_COMPRESSED`, `PERF_RECORD_COMPRESSED2`).
const COMPRESSED: [u32; 2] = [81, 83];

/// Bits of an event's flags.
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_IDLE: u64 = 1 << 7;
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Options of `perf record` that take no value.
const FLAGS: &str = "adgsqvPTnNBiRIbW";

/// Low half of an event's number. On machines with several processor types, the high half names the
/// type.
const GENERIC: u64 = 0xffff_ffff;

/// Reads integers at given offsets in the file.
#[derive(Clone, Copy)]
pub(super) struct At<'a>(pub &'a [u8]);

impl At<'_> {
    pub fn u32(self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    pub fn u64(self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

/// One event of the recording (`struct perf_event_attr`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's type.
    pub kind: u32,
    /// The event's number.
    pub config: u64,
    /// Number of events between two samples, or number of samples a second.
    period: u64,
    /// The fields of its samples.
    pub sample_type: u64,
    /// The fields of counts in samples.
    pub read_format: u64,
    flags: u64,
    /// The fields of branches in samples.
    pub branch_fields: u64,
    /// Registers of user code in samples.
    pub user_registers: u64,
    /// Registers in samples, with the values at the interrupt.
    pub interrupt_registers: u64,
    /// The event's identifiers, one for each processor.
    pub ids: Vec<u64>,
}

impl Event {
    fn parse(bytes: &[u8], whole: &[u8]) -> Option<Self> {
        let at = At(bytes);
        let size = bytes.len().checked_sub(16)?;
        let ids = section(At(whole), at.u64(size)?, at.u64(size + 8)?)?;
        // Fields that an older kernel does not have are zero.
        let attributes = At(&bytes[..size]);
        let field = |place| attributes.u64(place).unwrap_or(0);
        Some(Self {
            kind: attributes.u32(0)?,
            config: field(8),
            period: field(16),
            sample_type: field(24),
            read_format: field(32),
            flags: field(40),
            branch_fields: field(72),
            user_registers: field(80),
            interrupt_registers: field(96),
            ids: ids
                .chunks_exact(8)
                .filter_map(|chunk| At(chunk).u64(0))
                .collect(),
        })
    }

    /// The event's type and number, as the kernel defines them for generic events.
    pub const fn generic_number(&self) -> (u32, u64) {
        match self.kind {
            bindings::PERF_TYPE_HARDWARE | bindings::PERF_TYPE_HW_CACHE => {
                (self.kind, self.config & GENERIC)
            }
            _ => (self.kind, self.config),
        }
    }

    pub fn is_dummy(&self) -> bool {
        (self.kind, self.config)
            == (
                bindings::PERF_TYPE_SOFTWARE,
                bindings::PERF_COUNT_SW_DUMMY.into(),
            )
    }

    pub fn is_task_clock(&self) -> bool {
        (self.kind, self.config)
            == (
                bindings::PERF_TYPE_SOFTWARE,
                bindings::PERF_COUNT_SW_TASK_CLOCK.into(),
            )
    }

    pub const fn has_chains(&self) -> bool {
        self.has(fields::PERF_SAMPLE_CALLCHAIN)
    }

    pub const fn excludes_kernel(&self) -> bool {
        self.flags & EXCLUDE_KERNEL != 0
    }

    pub const fn excludes_user(&self) -> bool {
        self.flags & EXCLUDE_USER != 0
    }

    /// Whether the event has samples of all code.
    pub const fn is_whole(&self) -> bool {
        self.flags & (EXCLUDE_USER | EXCLUDE_KERNEL | EXCLUDE_IDLE) == 0
    }

    /// Whether samples have a field.
    pub const fn has(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }

    /// Number of samples per second of processor time, if the event measures time.
    pub fn frequency_hz(&self) -> Option<u32> {
        let hertz = if self.flags & FREQUENCY != 0 {
            self.period
        } else {
            1_000_000_000_u64.checked_div(self.period)?
        };
        u32::try_from(hertz).ok()
    }

    /// Amount of the event between two samples. It is used if samples do not contain the amount.
    pub const fn fixed_period(&self) -> u64 {
        if self.flags & FREQUENCY == 0 {
            self.period
        } else {
            1
        }
    }

    /// Whether records other than samples end with their time.
    pub const fn has_times(&self) -> bool {
        self.flags & SAMPLE_ID_ALL != 0
    }
}

/// A recording.
#[derive(Debug)]
pub struct File<'a> {
    data: &'a [u8],
    /// The events.
    pub events: Vec<Event>,
    /// The recorded machine's name.
    pub host: Option<String>,
    /// The recorded kernel's version.
    pub release: Option<String>,
    /// Number of processors of the machine.
    pub online: Option<usize>,
    /// The command line of perf. It is empty if the file does not contain it.
    pub command: Vec<String>,
}

fn section<'a>(whole: At<'a>, offset: u64, size: u64) -> Option<&'a [u8]> {
    let start = usize::try_from(offset).ok()?;
    whole
        .0
        .get(start..start.checked_add(usize::try_from(size).ok()?)?)
}

impl<'a> File<'a> {
    /// Parses everything except the records.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        match bytes.get(..8) {
            Some(magic) if magic == MAGIC => {}
            Some(magic) if magic == SWAPPED => {
                return Err(format!(
                    "recorded on a machine of the other byte order; {AS_TEXT}"
                ));
            }
            _ => return Err(format!("not a file of perf record; {EXPECTED}")),
        }
        let at = At(bytes);
        if at.u64(8) == Some(PIPE_HEADER_BYTES) {
            return Err(format!(
                "the stream of a pipe; expected a file: perf record -o FILE; {AS_TEXT}"
            ));
        }
        Self::sections(at).ok_or_else(|| {
            "the file ends early: perf record was killed before it wrote the header, or the copy is incomplete; \
             expected a whole file: record again and end it with Ctrl-C, or copy again"
                .to_owned()
        })
    }

    fn sections(at: At<'a>) -> Option<Self> {
        let entry = usize::try_from(at.u64(16)?).ok()?;
        let attributes = section(at, at.u64(24)?, at.u64(32)?)?;
        let (data_start, data_size) = (at.u64(40)?, at.u64(48)?);
        let data = section(at, data_start, data_size).filter(|data| !data.is_empty())?;
        if entry == 0 {
            return None;
        }
        let events = attributes
            .chunks_exact(entry)
            .map(|bytes| Event::parse(bytes, at.0))
            .collect::<Option<_>>()?;
        let mut file = Self {
            data,
            events,
            host: None,
            release: None,
            online: None,
            command: Vec::new(),
        };
        let mut table = usize::try_from(data_start + data_size).ok()?;
        for bit in 0..FEATURE_BITS {
            let word = at.u64(72 + bit / 64 * 8)?;
            if word >> (bit % 64) & 1 == 0 {
                continue;
            }
            let (Some(offset), Some(size)) = (at.u64(table), at.u64(table + 8)) else {
                break;
            };
            table += 16;
            let Some(bytes) = section(at, offset, size) else {
                continue;
            };
            match bit {
                HOSTNAME => file.host = text(bytes.get(4..)?),
                OSRELEASE => file.release = text(bytes.get(4..)?),
                CMDLINE => file.command = texts(bytes).unwrap_or_default(),
                NRCPUS => file.online = At(bytes).u32(4).map(|online| online as usize),
                _ => {}
            }
        }
        Some(file)
    }

    /// Why the recording is not of all processes on its processors; `None` if it is.
    pub fn part(&self) -> Option<String> {
        // perf stores the processor in samples only if it records processors, not processes.
        let by_process = |event: &Event| !event.is_dummy() && !event.has(fields::PERF_SAMPLE_CPU);
        let option = self.command.iter().take_while(|word| *word != "--");
        let option = option.into_iter().find(|word| limits_processes(word));
        match option {
            Some(option) => Some(format!("perf record {option} records some processes only")),
            None if self.events.iter().any(by_process) => {
                Some("perf record without -a records one command only".to_owned())
            }
            None => None,
        }
    }

    /// The records of the kernel in the order of time. In the file, perf writes the records of one
    /// processor after those of another.
    ///
    /// # Errors
    /// The records are compressed, or a record exceeds the file.
    pub fn records(&self) -> Result<Vec<&'a [u8]>, String> {
        let mut records = Vec::new();
        let mut rest = self.data;
        while !rest.is_empty() {
            let size = rest
                .get(6..8)
                .map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
            let place = self.data.len() - rest.len();
            let broken = || format!("no record at byte {place} of the data");
            if usize::from(size) < HEADER_BYTES {
                return Err(broken());
            }
            let (record, after) = rest
                .split_at_checked(usize::from(size))
                .ok_or_else(broken)?;
            rest = after;
            let kind = At(record).u32(0).unwrap_or(0);
            if COMPRESSED.contains(&kind) {
                return Err(format!(
                    "compressed records; expected a recording without -z; {AS_TEXT}"
                ));
            }
            if kind == AUXTRACE {
                let trace = At(record).u64(HEADER_BYTES).unwrap_or(0);
                rest = usize::try_from(trace)
                    .ok()
                    .and_then(|trace| rest.get(trace..))
                    .ok_or_else(broken)?;
            } else if kind < FIRST_OWN {
                records.push((super::sample::time_ns(record, &self.events), record));
            }
        }
        // The sort is stable, so the records of one processor stay in their order.
        records.sort_by_key(|(time, _)| *time);
        Ok(records.into_iter().map(|(_, record)| record).collect())
    }
}

/// A list of texts, with its length at the start and the length of each text before it.
fn texts(bytes: &[u8]) -> Option<Vec<String>> {
    let at = At(bytes);
    let mut place = 4;
    (0..at.u32(0)?)
        .map(|_| {
            let length = at.u32(place)? as usize;
            let text = text(bytes.get(place + 4..place.checked_add(4 + length)?)?);
            place += 4 + length;
            Some(text.unwrap_or_default())
        })
        .collect()
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0);
    let text = &bytes[..end.unwrap_or(bytes.len())];
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// Whether an option of `perf record` limits the recording to some processes.
fn limits_processes(word: &str) -> bool {
    let long = ["--pid", "--tid", "--uid", "--cgroup", "--for-each-cgroup"];
    let name = word.split('=').next().unwrap_or(word);
    if word.starts_with("--") {
        return long.contains(&name);
    }
    // Options of one letter may be joined. A letter that takes a value ends the list.
    let letters = word.strip_prefix('-').unwrap_or_default();
    let joined = letters.trim_start_matches(|letter| FLAGS.contains(letter));
    joined.starts_with(['p', 't', 'u', 'G'])
}

/// The position of the recorded kernel in memory.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelStart {
    /// First address of the kernel's text.
    pub start: u64,
    /// Length of the kernel's text in bytes.
    pub length: u64,
    /// A symbol, such as `_text`.
    pub symbol: String,
    /// The symbol's address.
    pub address: u64,
}

/// The kernel's position, from a record that perf writes at the start of a recording.
pub fn kernel_start(record: &[u8]) -> Option<KernelStart> {
    let at = At(record);
    if at.u32(0)? != bindings::PERF_RECORD_MMAP || at.u32(8)? != u32::MAX {
        return None;
    }
    let name = text(record.get(40..)?)?;
    let symbol = name.strip_prefix("[kernel.kallsyms]")?;
    Some(KernelStart {
        start: at.u64(16)?,
        length: at.u64(24)?,
        address: at.u64(32)?,
        symbol: symbol.to_owned(),
    })
}

/// The address of a symbol in the text of `/proc/kallsyms`.
pub fn symbol_address(symbols: &str, name: &str) -> Option<u64> {
    let line = symbols
        .lines()
        .find(|line| line.split_ascii_whitespace().nth(2) == Some(name))?;
    let address = u64::from_str_radix(line.split_ascii_whitespace().next()?, 16).ok()?;
    (address != 0).then_some(address)
}
