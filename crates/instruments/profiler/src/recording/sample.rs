//! Decodes samples (`PERF_RECORD_SAMPLE`). The recording determines which fields they have.

use std::collections::HashMap;

use perf_event_open_sys::bindings;

use super::file::{At, Event};
use super::{Shift, fields};
use crate::capture::record::{self, kernel_chain, mode_of};
use crate::capture::ring::HEADER_BYTES;
use crate::capture::{Record, Sample};

/// The fields of a record's trailer, from the time to the end. Each has eight bytes.
const TRAILER_FIELDS: [u64; 5] = [
    fields::PERF_SAMPLE_TIME,
    fields::PERF_SAMPLE_ID,
    fields::PERF_SAMPLE_STREAM_ID,
    fields::PERF_SAMPLE_CPU,
    fields::PERF_SAMPLE_IDENTIFIER,
];

/// The first fields of a sample, in their order. Each has eight bytes.
const FIRST_FIELDS: [u64; 5] = [
    fields::PERF_SAMPLE_IDENTIFIER,
    fields::PERF_SAMPLE_IP,
    fields::PERF_SAMPLE_TID,
    fields::PERF_SAMPLE_TIME,
    fields::PERF_SAMPLE_ADDR,
];

/// The offset of a field in a sample, if the samples of `event` have it.
fn place(event: &Event, field: u64) -> Option<usize> {
    if !event.has(field) {
        return None;
    }
    let mut at = HEADER_BYTES;
    for one in FIRST_FIELDS.into_iter().chain([
        fields::PERF_SAMPLE_ID,
        fields::PERF_SAMPLE_STREAM_ID,
        fields::PERF_SAMPLE_CPU,
        fields::PERF_SAMPLE_PERIOD,
    ]) {
        if one == field {
            return Some(at);
        }
        at += if event.has(one) { 8 } else { 0 };
    }
    None
}

/// The time of a record. A record without a time gets 0, so that it precedes all others.
pub(super) fn time_ns(record: &[u8], events: &[Event]) -> u64 {
    let Some(event) = event_of(record, events).and_then(|index| events.get(index)) else {
        return 0;
    };
    let at = At(record);
    let place = if at.u32(0) == Some(bindings::PERF_RECORD_SAMPLE) {
        place(event, fields::PERF_SAMPLE_TIME)
    } else if event.has_times() && event.has(fields::PERF_SAMPLE_TIME) {
        let fields = TRAILER_FIELDS.into_iter().filter(|&one| event.has(one));
        record.len().checked_sub(8 * fields.count())
    } else {
        None
    };
    place.and_then(|place| at.u64(place)).unwrap_or(0)
}

/// The index of the event to which a record belongs. In all events of a recording, the identifier
/// is at the same offset.
fn event_of(record: &[u8], events: &[Event]) -> Option<usize> {
    let first = events.first()?;
    if events.len() == 1 || At(record).u32(0)? != bindings::PERF_RECORD_SAMPLE {
        return Some(0);
    }
    let place = place(first, fields::PERF_SAMPLE_IDENTIFIER)
        .or_else(|| place(first, fields::PERF_SAMPLE_ID))?;
    let id = At(record).u64(place)?;
    events.iter().position(|event| event.ids.contains(&id))
}

/// Decodes the records of one event.
pub(super) struct Decoder<'a> {
    events: &'a [Event],
    chosen: usize,
    shift: Shift,
    chain: Vec<u64>,
    /// The last count of each identifier, for events that are counted in the samples of another
    /// event.
    counted: HashMap<u64, u64>,
}

impl<'a> Decoder<'a> {
    pub fn new(events: &'a [Event], chosen: usize, shift: Shift) -> Self {
        Self {
            events,
            chosen,
            shift,
            chain: Vec::new(),
            counted: HashMap::new(),
        }
    }

    /// Passes a record to `sink`, unless it is a sample of another event.
    pub fn decode(&mut self, record: &[u8], sink: &mut dyn FnMut(&Record<'_>)) {
        if At(record).u32(0) != Some(bindings::PERF_RECORD_SAMPLE) {
            if let Some(other) = record::parse(record, &mut self.chain) {
                sink(&other);
            }
            return;
        }
        let Some(index) = event_of(record, self.events) else {
            return;
        };
        if let Some(sample) = self.sample(record, index).filter(|one| one.weight > 0) {
            sink(&Record::Sample(sample));
        }
    }

    fn sample(&mut self, record: &[u8], index: usize) -> Option<Sample<'_>> {
        let event = &self.events[index];
        let at = At(record);
        let field = |field| place(event, field).and_then(|place| at.u64(place));
        let thread = place(event, fields::PERF_SAMPLE_TID);
        let [pid, tid] = match thread {
            Some(place) => [at.u32(place)?, at.u32(place + 4)?],
            None => [0, 0],
        };
        let mut weight = field(fields::PERF_SAMPLE_PERIOD).unwrap_or(event.fixed_period());
        let address = field(fields::PERF_SAMPLE_IP)?;
        let mut rest = Rest {
            bytes: record,
            at: self.fixed_end(event),
        };
        let counts = if event.has(fields::PERF_SAMPLE_READ) {
            rest.counts(event.read_format)?
        } else {
            Vec::new()
        };
        if index != self.chosen {
            weight = self.grown(&counts)?;
        }
        let user = matches!(
            mode_of(record)?,
            bindings::PERF_RECORD_MISC_USER
                | bindings::PERF_RECORD_MISC_GUEST_KERNEL
                | bindings::PERF_RECORD_MISC_GUEST_USER
        );
        self.chain.clear();
        if event.has_chains() {
            let count = rest.next()?;
            let shift = self.shift;
            let words = (0..count).map_while(|_| rest.next());
            kernel_chain(words, &mut self.chain);
            for frame in &mut self.chain {
                *frame = shift.apply(*frame);
            }
        }
        let cgroup = rest.cgroup(event);
        if user {
            self.chain.clear();
        } else if self.chain.is_empty() {
            self.chain.push(self.shift.apply(address));
        }
        Some(Sample {
            time_ns: field(fields::PERF_SAMPLE_TIME).unwrap_or(0),
            cpu: place(event, fields::PERF_SAMPLE_CPU)
                .and_then(|place| at.u32(place))
                .unwrap_or(0),
            pid,
            tid,
            weight,
            cgroup,
            user,
            address,
            chain: &self.chain,
        })
    }

    /// Offset of the first byte after the fields of fixed size.
    fn fixed_end(&self, event: &Event) -> usize {
        let fields = FIRST_FIELDS.into_iter().chain([
            fields::PERF_SAMPLE_ID,
            fields::PERF_SAMPLE_STREAM_ID,
            fields::PERF_SAMPLE_CPU,
            fields::PERF_SAMPLE_PERIOD,
        ]);
        HEADER_BYTES + 8 * fields.filter(|&one| event.has(one)).count()
    }

    /// The increase of the chosen event's count since the last sample of its group's leader. `None`
    /// if the leader's samples do not contain this count.
    fn grown(&mut self, counts: &[(u64, u64)]) -> Option<u64> {
        let ids = &self.events[self.chosen].ids;
        let &(id, now) = counts.iter().find(|(id, _)| ids.contains(id))?;
        let before = self.counted.insert(id, now).unwrap_or(0);
        Some(now.saturating_sub(before))
    }
}

/// The fields of variable size in a sample.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Rest<'_> {
    fn next(&mut self) -> Option<u64> {
        let word = At(self.bytes).u64(self.at)?;
        self.at += 8;
        Some(word)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        Some(())
    }

    /// The identifier and the count of each event of a group; none for an event without a group.
    fn counts(&mut self, format: u64) -> Option<Vec<(u64, u64)>> {
        let has = |bit: u64| format & bit != 0;
        let times = u64::from(has(fields::PERF_FORMAT_TOTAL_TIME_ENABLED))
            + u64::from(has(fields::PERF_FORMAT_TOTAL_TIME_RUNNING));
        let has_id = has(fields::PERF_FORMAT_ID);
        let has_lost = has(fields::PERF_FORMAT_LOST);
        if !has(fields::PERF_FORMAT_GROUP) {
            self.skip(8 * (1 + times + u64::from(has_id) + u64::from(has_lost)))?;
            return Some(Vec::new());
        }
        let number = self.next()?;
        self.skip(8 * times)?;
        let mut counts = Vec::new();
        for _ in 0..number {
            let count = self.next()?;
            let id = if has_id { self.next()? } else { 0 };
            if has_lost {
                self.next()?;
            }
            counts.push((id, count));
        }
        Some(counts)
    }

    /// The control group, after all fields that precede it.
    fn cgroup(&mut self, event: &Event) -> Option<u64> {
        if !event.has(fields::PERF_SAMPLE_CGROUP) {
            return None;
        }
        if event.has(fields::PERF_SAMPLE_RAW) {
            let size = At(self.bytes).u32(self.at)?;
            self.skip(4 + u64::from(size))?;
        }
        if event.has(fields::PERF_SAMPLE_BRANCH_STACK) {
            let number = self.next()?;
            if event.branch_fields & fields::PERF_SAMPLE_BRANCH_HW_INDEX != 0 {
                self.next()?;
            }
            self.skip(number.checked_mul(24)?)?;
        }
        self.registers(event, fields::PERF_SAMPLE_REGS_USER, event.user_registers)?;
        if event.has(fields::PERF_SAMPLE_STACK_USER) {
            let size = self.next()?;
            self.skip(if size > 0 { size.checked_add(8)? } else { 0 })?;
        }
        for field in [
            fields::PERF_SAMPLE_WEIGHT | fields::PERF_SAMPLE_WEIGHT_STRUCT,
            fields::PERF_SAMPLE_DATA_SRC,
            fields::PERF_SAMPLE_TRANSACTION,
        ] {
            self.skip(if event.has(field) { 8 } else { 0 })?;
        }
        self.registers(
            event,
            fields::PERF_SAMPLE_REGS_INTR,
            event.interrupt_registers,
        )?;
        self.skip(if event.has(fields::PERF_SAMPLE_PHYS_ADDR) {
            8
        } else {
            0
        })?;
        self.next()
    }

    fn registers(&mut self, event: &Event, field: u64, mask: u64) -> Option<()> {
        if event.has(field) {
            let abi = self.next()?;
            self.skip(if abi == 0 {
                0
            } else {
                8 * u64::from(mask.count_ones())
            })?;
        }
        Some(())
    }
}
