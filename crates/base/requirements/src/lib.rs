//! The capabilities of the machine that tests need.
//!
//! A test calls [`skip`] and returns if the machine lacks something. Two variables of the
//! environment control what `skip` does:
//!
//! - `PERPACKET_REQUIRE=perf,netns` lists capabilities that the machine must have: a test that lacks
//!   one of them fails.
//! - `PERPACKET_SKIPS=FILE` collects a line for each skipped test: `capability: test: reason`.
//!
//! `tests/requirements.py` is the same for the Python tests.
#![forbid(unsafe_code)]

mod probes;

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

pub use probes::{lacks_perf, lacks_xdp};

/// The reason of a skip when other work disturbed a measurement. It is used in place of a
/// capability. `PERPACKET_REQUIRE` cannot name it, because no machine can guarantee that nothing
/// disturbs it.
pub const DISTURBED: &str = "disturbed";

/// Reports that the calling test is skipped because the machine lacks `capability`.
///
/// # Panics
///
/// Panics if `PERPACKET_REQUIRE` names the capability, or if the file of `PERPACKET_SKIPS` cannot
/// be written.
#[expect(clippy::panic, reason = "a test fails by a panic")]
pub fn skip(capability: &str, reason: impl Display) {
    let required = env::var("PERPACKET_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == capability),
        "{capability} is required here (PERPACKET_REQUIRE), but: {reason}"
    );
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    println!("skipped: {capability}: {reason}");
    let Some(path) = env::var_os("PERPACKET_SKIPS") else {
        return;
    };
    let line = format!("{capability}: {test}: {reason}\n");
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("PERPACKET_SKIPS: {}: {error}", path.display());
    }
}
