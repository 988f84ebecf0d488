//! The layout of a file of `perf record`, and a folder with such a file.

use std::fs;
use std::path::PathBuf;

use perf_event_open_sys::bindings;
use perpacket_profiler::ProfileError;
use perpacket_profiler::recording::{Recorded, Settings, Traffic, analyse};
use tempfile::TempDir;

pub const SYMBOLS: &str = "\
ffffffff81000000 T _text
ffffffff81001000 T tcp_v4_rcv
ffffffff81002000 T ip_rcv
ffffffff81003000 T tcp_ack
";

pub const TCP_V4_RCV: u64 = 0xffff_ffff_8100_1000;
pub const IP_RCV: u64 = 0xffff_ffff_8100_2000;
pub const KERNEL_MARK: u64 = (-128_i64) as u64;

/// The fields of an event's samples in most of these files.
pub const FIELDS: u32 = bindings::PERF_SAMPLE_IDENTIFIER
    | bindings::PERF_SAMPLE_IP
    | bindings::PERF_SAMPLE_TID
    | bindings::PERF_SAMPLE_TIME
    | bindings::PERF_SAMPLE_CPU
    | bindings::PERF_SAMPLE_PERIOD;

/// Flags of the event: its identifiers are listed, and records end with their time.
pub const FLAGS: u64 = 1 << 10 | 1 << 18;

/// Bytes of the attributes of an event since Linux 5.13.
pub const ATTRIBUTES: usize = 120;

pub const HEADER: usize = 104;

pub struct Event {
    pub kind: u32,
    pub config: u64,
    pub fields: u32,
    pub read_format: u32,
    pub id: u64,
}

impl Event {
    pub fn hardware(number: u32, fields: u32, id: u64) -> Self {
        Self {
            kind: bindings::PERF_TYPE_HARDWARE,
            config: number.into(),
            fields,
            read_format: 0,
            id,
        }
    }

    /// Misses of reads in one of the kernel's generic caches.
    pub fn cache(cache: u32, id: u64) -> Self {
        let misses = bindings::PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
        Self {
            kind: bindings::PERF_TYPE_HW_CACHE,
            config: (cache | misses).into(),
            fields: FIELDS,
            read_format: 0,
            id,
        }
    }

    pub fn clock() -> Self {
        Self {
            kind: bindings::PERF_TYPE_SOFTWARE,
            config: bindings::PERF_COUNT_SW_CPU_CLOCK.into(),
            fields: FIELDS,
            read_format: 0,
            id: 1,
        }
    }

    pub fn bytes(&self, ids_at: u64) -> Vec<u8> {
        let mut bytes = vec![0; ATTRIBUTES];
        bytes[..4].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&(ATTRIBUTES as u32).to_ne_bytes());
        for (at, value) in [
            (8, self.config),
            (16, 1000),
            (24, self.fields.into()),
            (32, self.read_format.into()),
            (40, FLAGS),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        bytes.extend(ids_at.to_ne_bytes());
        bytes.extend(8_u64.to_ne_bytes());
        bytes
    }
}

pub fn record(kind: u32, mode: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(mode.to_ne_bytes());
    bytes.extend(((8 + 8 * words.len()) as u16).to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

pub fn text(kind: u32, mode: u16, words: &[u64], text: &str, trailer: &[u64]) -> Vec<u8> {
    let mut all = words.to_vec();
    let mut padded = text.as_bytes().to_vec();
    padded.resize(text.len() / 8 * 8 + 8, 0);
    all.extend(
        padded
            .chunks_exact(8)
            .map(|eight| u64::from_ne_bytes(eight.try_into().unwrap())),
    );
    all.extend(trailer);
    record(kind, mode, &all)
}

pub fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A sample of `FIELDS`, with more words after them.
pub fn sample(id: u64, mode: u32, address: u64, time: u64, period: u64, more: &[u64]) -> Vec<u8> {
    let mut words = vec![id, address, pair(70, 70), time, pair(0, 0), period];
    words.extend(more);
    record(bindings::PERF_RECORD_SAMPLE, mode as u16, &words)
}

/// A file with a header and these records. Its only feature is the kernel's version.
pub fn file(events: &[Event], records: &[Vec<u8>], release: &str) -> Vec<u8> {
    let ids_at = HEADER as u64;
    let events_at = ids_at + 8 * events.len() as u64;
    let mut attributes = Vec::new();
    for (index, event) in events.iter().enumerate() {
        attributes.extend(event.bytes(ids_at + 8 * index as u64));
    }
    let data: Vec<u8> = records.concat();
    let data_at = events_at + attributes.len() as u64;
    let mut bytes = b"PERFILE2".to_vec();
    for word in [
        HEADER as u64,
        ATTRIBUTES as u64 + 16,
        events_at,
        attributes.len() as u64,
        data_at,
        data.len() as u64,
        0,
        0,
        1 << 4,
        0,
        0,
        0,
    ] {
        bytes.extend(word.to_ne_bytes());
    }
    for event in events {
        bytes.extend(event.id.to_ne_bytes());
    }
    bytes.extend(attributes);
    bytes.extend(&data);
    let feature_at = bytes.len() as u64 + 16;
    bytes.extend(feature_at.to_ne_bytes());
    bytes.extend((4 + release.len() as u64 + 1).to_ne_bytes());
    bytes.extend((release.len() as u32 + 1).to_ne_bytes());
    bytes.extend(release.as_bytes());
    bytes.push(0);
    bytes
}

pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub fn settings(&self, bytes: &[u8]) -> Settings {
        Settings {
            file: self.write("perf.data", bytes),
            traffic: Traffic::Packets(10),
            kallsyms: Some(self.write("kallsyms", SYMBOLS.as_bytes())),
            rules: None,
            pid: None,
            keeps_offsets: true,
        }
    }

    pub fn analyse(&self, bytes: &[u8]) -> Result<Recorded, ProfileError> {
        analyse(&self.settings(bytes))
    }
}
