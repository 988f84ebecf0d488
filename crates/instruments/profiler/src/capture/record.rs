//! Parses the records of a ring. [`SAMPLE_FIELDS`] determines their layout.
//!
//! Source: `PERF_RECORD_*` in `include/uapi/linux/perf_event.h` of Linux.

use perf_event_open_sys::bindings;

use crate::capture::ring::HEADER_BYTES;
use crate::capture::{Record, Sample};

/// The fields of a sample: instruction, thread, time, processor, weight and call chain. On newer
/// kernels the control group follows them.
pub const SAMPLE_FIELDS: u64 = (bindings::PERF_SAMPLE_IP
    | bindings::PERF_SAMPLE_TID
    | bindings::PERF_SAMPLE_TIME
    | bindings::PERF_SAMPLE_CPU
    | bindings::PERF_SAMPLE_PERIOD
    | bindings::PERF_SAMPLE_CALLCHAIN) as u64;

/// Bytes at the end of each record that is not a sample: thread, time and processor, eight each.
const TRAILER_BYTES: usize = 24;

/// Call chain entries from this value on are marks, not addresses (`PERF_CONTEXT_MAX`).
const FIRST_MARK: u64 = (-4095_i64) as u64;

/// The mark before kernel addresses (`PERF_CONTEXT_KERNEL`).
const KERNEL_MARK: u64 = (-128_i64) as u64;

/// Bits of a record's `misc` that contain the processor mode.
const MODE_MASK: u16 = bindings::PERF_RECORD_MISC_CPUMODE_MASK as u16;

/// The mode of user code.
const USER_MODE: u16 = bindings::PERF_RECORD_MISC_USER as u16;

/// The bit of a COMM record that marks an execve.
const EXECUTED: u16 = bindings::PERF_RECORD_MISC_COMM_EXEC as u16;

/// The bit of an MMAP record that marks a map that is not executable.
const DATA: u16 = bindings::PERF_RECORD_MISC_MMAP_DATA as u16;

/// Reads integers in sequence.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// Text up to the zero byte.
    fn text(&self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&self.0[..end.unwrap_or(self.0.len())]).into_owned()
    }
}

/// The time of a record. It is used to sort the records of several processors.
#[must_use]
pub fn time_ns(record: &[u8]) -> Option<u64> {
    let start = match kind_of(record)? {
        bindings::PERF_RECORD_SAMPLE => HEADER_BYTES + 16,
        _ => record.len().checked_sub(TRAILER_BYTES - 8)?,
    };
    let bytes = record.get(start..start + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Parses a record. Returns `None` if the type is unused, or if the record is too short for its
/// type. `chain` receives the call chain of a sample.
pub fn parse<'a>(record: &[u8], chain: &'a mut Vec<u64>) -> Option<Record<'a>> {
    let mode = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    let mut cursor = Cursor(record.get(HEADER_BYTES..)?);
    match kind_of(record)? {
        bindings::PERF_RECORD_SAMPLE => sample(&mut cursor, mode, chain).map(Record::Sample),
        bindings::PERF_RECORD_LOST => {
            cursor.u64()?;
            Some(Record::Lost {
                records: cursor.u64()?,
            })
        }
        bindings::PERF_RECORD_LOST_SAMPLES => Some(Record::Lost {
            records: cursor.u64()?,
        }),
        bindings::PERF_RECORD_THROTTLE => Some(Record::Throttled),
        bindings::PERF_RECORD_COMM => {
            let (pid, tid) = (cursor.u32()?, cursor.u32()?);
            Some(Record::Command {
                pid,
                leader: pid == tid,
                name: cursor.text(),
                executed: mode & EXECUTED != 0,
            })
        }
        // A map of data is skipped, because it contains no code.
        bindings::PERF_RECORD_MMAP if mode & DATA == 0 => mapped(&mut cursor, false),
        bindings::PERF_RECORD_MMAP2 if mode & DATA == 0 => mapped(&mut cursor, true),
        bindings::PERF_RECORD_CGROUP => Some(Record::ControlGroup {
            number: cursor.u64()?,
            path: cursor.text(),
        }),
        bindings::PERF_RECORD_FORK => {
            let (pid, parent) = (cursor.u32()?, cursor.u32()?);
            Some(Record::Forked { pid, parent })
        }
        _ => None,
    }
}

fn kind_of(record: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(record.get(..4)?.try_into().ok()?))
}

fn sample<'a>(cursor: &mut Cursor<'_>, mode: u16, chain: &'a mut Vec<u64>) -> Option<Sample<'a>> {
    let address = cursor.u64()?;
    let (pid, tid) = (cursor.u32()?, cursor.u32()?);
    let time_ns = cursor.u64()?;
    let cpu = cursor.u32()?;
    cursor.u32()?;
    let weight = cursor.u64()?;
    let count = cursor.u64()?;
    let mut words = 0;
    chain.clear();
    let entries = (0..count)
        .map_while(|_| cursor.u64())
        .inspect(|_| words += 1);
    kernel_chain(entries, chain);
    if words < count {
        return None;
    }
    let cgroup = cursor.u64();
    let user = mode & MODE_MASK == USER_MODE;
    if user {
        chain.clear();
    } else if chain.is_empty() {
        chain.push(address);
    }
    Some(Sample {
        time_ns,
        cpu,
        pid,
        tid,
        weight,
        cgroup,
        user,
        address,
        chain,
    })
}

/// Appends the kernel's part of a call chain to `chain`.
pub(crate) fn kernel_chain(entries: impl Iterator<Item = u64>, chain: &mut Vec<u64>) {
    let mut in_kernel = false;
    for entry in entries {
        match entry {
            mark if mark >= FIRST_MARK => in_kernel = mark == KERNEL_MARK,
            frame if in_kernel => chain.push(frame),
            _ => {}
        }
    }
}

/// The processor mode of a record (`PERF_RECORD_MISC_CPUMODE_MASK`).
pub(crate) fn mode_of(record: &[u8]) -> Option<u32> {
    let mode = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    Some(u32::from(mode & MODE_MASK))
}

fn mapped<'a>(cursor: &mut Cursor<'_>, has_inode: bool) -> Option<Record<'a>> {
    let pid = cursor.u32()?;
    cursor.u32()?;
    let (start, length, offset) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    // The fields are device and inode, or a build identifier. Protection and flags follow.
    for _ in 0..if has_inode { 4 } else { 0 } {
        cursor.u64()?;
    }
    Some(Record::Mapped {
        pid,
        start,
        length,
        offset,
        path: cursor.text(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, mode: u16, words: &[u64]) -> Vec<u8> {
        let size = (HEADER_BYTES + 8 * words.len()) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(mode.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[test]
    fn a_kernel_sample_has_only_the_kernel_part_of_its_chain() {
        let user_mark = (-512_i64) as u64;
        let words = [
            0x11,
            pair(7, 8),
            123,
            pair(1, 0),
            1000,
            5,
            KERNEL_MARK,
            0x11,
            0x22,
            user_mark,
            0x33,
            4711,
        ];
        let bytes = record(bindings::PERF_RECORD_SAMPLE, 1, &words);
        let mut chain = Vec::new();
        let Some(Record::Sample(sample)) = parse(&bytes, &mut chain) else {
            panic!("no sample");
        };
        assert_eq!((sample.pid, sample.tid, sample.cpu), (7, 8, 1));
        assert_eq!(
            (sample.time_ns, sample.weight, sample.user),
            (123, 1000, false)
        );
        assert_eq!(
            (sample.chain, sample.cgroup),
            (&[0x11, 0x22][..], Some(4711))
        );
        assert_eq!(time_ns(&bytes), Some(123));
    }

    #[test]
    fn a_lost_record_has_the_kernels_count() {
        let bytes = record(bindings::PERF_RECORD_LOST, 0, &[9, 41, 0, 77, 0]);
        let mut chain = Vec::new();
        assert_eq!(
            parse(&bytes, &mut chain),
            Some(Record::Lost { records: 41 })
        );
        assert_eq!(time_ns(&bytes), Some(77));
        let bytes = record(bindings::PERF_RECORD_THROTTLE, 0, &[1, 2, 3, 0, 4, 0]);
        assert_eq!(parse(&bytes, &mut chain), Some(Record::Throttled));
    }

    proptest! {
        #[test]
        fn the_parser_accepts_any_bytes(
            kind in 0_u32..20, mode in any::<u16>(),
            words in proptest::collection::vec(any::<u64>(), 0..12),
        ) {
            let bytes = record(kind, mode, &words);
            let mut chain = Vec::new();
            let _ = parse(&bytes, &mut chain);
            let _ = time_ns(&bytes);
            prop_assert!(chain.len() <= words.len());
        }
    }
}
