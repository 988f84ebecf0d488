//! Any bytes are a log with valid and invalid lines, or an error: the reader never panics and counts no
//! line twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perpacket_fuzz::{Count, is_compressed};
use perpacket_workload::{TraceFormat, read_trace};

fuzz_target!(|bytes: &[u8]| {
    let mut count = Count::default();
    let is_read = read_trace(bytes, Some(TraceFormat::Common), &mut count).is_ok();
    if is_read && !is_compressed(bytes) {
        let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
        assert!(count.requests + count.rejects <= lines);
    }
    // Detecting the format does not panic either.
    let _ = read_trace(bytes, None, &mut Count::default());
});
