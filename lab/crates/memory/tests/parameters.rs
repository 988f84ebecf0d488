//! Tests of the parameters that a hierarchy accepts, and of the errors for others.
#![allow(clippy::expect_used)]

use perpacket_memory::{Hierarchy, HierarchyParameters};

const WEB_SERVER: &str = r#"
line_bytes = 64
policy = "inclusive"
next_line_prefetch = true
levels = [
    { size_kib = 64, ways = 2, latency_cycles = 1 },
    { size_kib = 1024, ways = 16, latency_cycles = 15 },
]
dram = { latency_cycles = 195 }
"#;

fn web_server() -> HierarchyParameters {
    toml::from_str(WEB_SERVER).expect("valid")
}

/// The error for the web server's hierarchy after `change`.
fn error_after(change: impl FnOnce(&mut HierarchyParameters)) -> String {
    let mut parameters = web_server();
    change(&mut parameters);
    match Hierarchy::new(&parameters) {
        Ok(_) => "none".to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_published_machines_are_possible() {
    assert_eq!(error_after(|_| {}), "none");
    assert_eq!(error_after(|p| p.levels[1].size_kib = 256), "none");
    assert_eq!(error_after(|p| p.levels[1].size_kib = 512), "none");
}

#[test]
fn channels_do_not_queue_by_default() {
    assert_eq!(web_server().dram.service_cycles, 0);
}

#[test]
fn caches_need_not_be_a_power_of_two_as_long_as_their_sets_are() {
    let change = |p: &mut HierarchyParameters| {
        p.levels[0].size_kib = 48;
        p.levels[0].ways = 12;
    };
    assert_eq!(error_after(change), "none");
}

#[test]
fn an_unknown_key_is_refused() {
    let text = WEB_SERVER.replace("ways = 16", "ways = 16, banks = 4");
    let error = toml::from_str::<HierarchyParameters>(&text).expect_err("unknown key");
    assert!(error.to_string().contains("banks"), "{error}");
}

#[test]
fn an_impossible_value_is_named_with_what_is_allowed() {
    let table = [
        (
            error_after(|p| p.line_bytes = 48),
            "line_bytes = 48 is not possible: expected a power of two from 8 to 4096",
        ),
        (
            error_after(|p| p.levels.clear()),
            "levels = 0 levels is not possible: expected 1 to 3 levels",
        ),
        (
            error_after(|p| p.levels[1].ways = 0),
            "levels[1].ways = 0 is not possible: 1024 KiB are 16384 lines of 64 bytes, and \
             lines / ways must be a power of two; change ways or size_kib",
        ),
        (
            error_after(|p| p.levels[0].ways = 3),
            "levels[0].ways = 3 is not possible: 64 KiB are 1024 lines of 64 bytes, and \
             lines / ways must be a power of two; change ways or size_kib",
        ),
        (
            error_after(|p| p.levels[0].size_kib = 0),
            "levels[0].size_kib = 0 is not possible: expected 1 to 1048576 with lines of 64 bytes",
        ),
        (
            error_after(|p| p.levels[1].size_kib = u32::MAX),
            "levels[1].size_kib = 4294967295 is not possible: expected 1 to 1048576 with lines of \
             64 bytes",
        ),
        (
            error_after(|p| p.levels[0].latency_cycles = 20),
            "levels[1].latency_cycles = 15 is not possible: the level above takes 20 cycles; \
             expected at least as many",
        ),
        (
            error_after(|p| p.dram.latency_cycles = 10),
            "dram.latency_cycles = 10 is not possible: the level above takes 15 cycles; \
             expected at least as many",
        ),
    ];
    for (said, expected) in table {
        assert_eq!(said, expected);
    }
}
