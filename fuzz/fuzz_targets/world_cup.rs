//! Any bytes are complete records or an error: the reader never panics, and each record is either a
//! request or rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perpacket_fuzz::{Count, is_compressed};
use perpacket_workload::{RECORD_BYTES, TraceFormat, read_trace};

fuzz_target!(|bytes: &[u8]| {
    let mut count = Count::default();
    let is_read = read_trace(bytes, Some(TraceFormat::WorldCup), &mut count).is_ok();
    if is_read && !is_compressed(bytes) {
        let records = bytes.len() / RECORD_BYTES;
        assert_eq!(count.requests + count.rejects, records as u64);
    }
});
