//! The bits of a sample's and a count's fields as `u64`. The bindings have them as `u32` for some
//! processors, as `u64` for others, and some lack the newest bits.

use perf_event_open_sys::bindings;

macro_rules! fields {
    ($($name:ident)*) => {
        $(pub const $name: u64 = bindings::$name as u64;)*
    };
}

fields! {
    PERF_FORMAT_GROUP PERF_FORMAT_ID PERF_FORMAT_TOTAL_TIME_ENABLED PERF_FORMAT_TOTAL_TIME_RUNNING
    PERF_SAMPLE_ADDR PERF_SAMPLE_BRANCH_HW_INDEX PERF_SAMPLE_BRANCH_STACK PERF_SAMPLE_CALLCHAIN
    PERF_SAMPLE_CGROUP PERF_SAMPLE_CPU PERF_SAMPLE_DATA_SRC PERF_SAMPLE_ID PERF_SAMPLE_IDENTIFIER
    PERF_SAMPLE_IP PERF_SAMPLE_PERIOD PERF_SAMPLE_PHYS_ADDR PERF_SAMPLE_RAW PERF_SAMPLE_READ
    PERF_SAMPLE_REGS_INTR PERF_SAMPLE_REGS_USER PERF_SAMPLE_STACK_USER PERF_SAMPLE_STREAM_ID
    PERF_SAMPLE_TID PERF_SAMPLE_TIME PERF_SAMPLE_TRANSACTION PERF_SAMPLE_WEIGHT
    PERF_SAMPLE_WEIGHT_STRUCT
}

/// A count has the number of its lost records (Linux 6.0, include/uapi/linux/perf_event.h).
pub const PERF_FORMAT_LOST: u64 = 1 << 4;
