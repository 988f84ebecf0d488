//! Computed routes. The server has them only with `--routes`. They come before a file of the same
//! name.
//!
//! | path | response |
//! |---|---|
//! | `/work?us=N` | `done`, after N microseconds of CPU time, at most 10 s |
//! | `/bytes/N` | N bytes, at most 1 TiB |
//! | `/specweb99/...` | SPECweb99's dynamic operations, see [`specweb99`] |

pub mod cgi;
pub mod post_log;
pub mod specweb99;

use std::cell::Cell;
use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

use perpacket_http::target::query_value;

/// Longest CPU time of one `/work` request, in microseconds.
const WORK_LIMIT_US: u64 = 10_000_000;

/// Largest body of `/bytes`: 1 TiB.
const BYTES_LIMIT: u64 = 1 << 40;

/// A computed route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// Use CPU time, in microseconds.
    Work(u64),
    /// Send bytes.
    Bytes(u64),
    /// One of SPECweb99's operations.
    Specweb(specweb99::Operation<'a>),
    /// The arguments are invalid. Contains the expected form.
    Malformed(&'static str),
}

/// The route of a path and its query; `None` if no route has the path.
pub fn route_of<'a>(path: &[u8], query: &'a [u8]) -> Option<Route<'a>> {
    if path == b"/work" {
        let time_us = query_value(query, "us").and_then(number);
        return Some(match time_us.filter(|&us| us <= WORK_LIMIT_US) {
            Some(us) => Route::Work(us),
            None => Route::Malformed("expected /work?us=N with N up to 10000000"),
        });
    }
    if let Some(count) = path.strip_prefix(b"/bytes/") {
        return Some(match number(count).filter(|&bytes| bytes <= BYTES_LIMIT) {
            Some(bytes) => Route::Bytes(bytes),
            None => Route::Malformed("expected /bytes/N with N up to 1099511627776"),
        });
    }
    let name = path.strip_prefix(b"/specweb99/")?;
    specweb99::Operation::parse(name, query).map(|operation| match operation {
        Ok(operation) => Route::Specweb(operation),
        Err(expected) => Route::Malformed(expected),
    })
}

/// A decimal number without sign, of at most 18 digits.
pub fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.len() <= 18 && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// Minimum number of rounds between two reads of the clock. A read is a system call.
const MIN_ROUNDS: f64 = 64.0;

/// Fraction of the remaining time to use before the next read of the clock, if much time remains.
const AIM: f64 = 0.95;

/// If at most this time remains, in nanoseconds, it is used in one step.
const LAST_NS: f64 = 1000.0;

/// Largest factor by which the estimated duration of a round may grow between two reads of the
/// clock.
const MAX_GROWTH: f64 = 1.02;

thread_local! {
    /// Duration of a round of [`burn_cpu`] on this thread, from the last measurement.
    static ROUND_NS: Cell<f64> = const { Cell::new(1.0) };
}

/// Uses CPU time on this thread. Time in which the thread does not run is not counted.
///
/// The cost must be user time, but a read of the thread's clock is a system call. So the function
/// estimates the number of rounds from earlier measurements and reads the clock only two or three
/// times.
pub fn burn_cpu(microseconds: u64) {
    let mut now_ns = thread_cpu_ns();
    let end_ns = now_ns + microseconds as f64 * 1000.0;
    while now_ns < end_ns {
        let left_ns = end_ns - now_ns;
        // Stop a little before the end, so that the last step cannot overshoot by much.
        let aim_ns = if left_ns > LAST_NS {
            AIM * left_ns
        } else {
            left_ns
        };
        let rounds = (aim_ns / ROUND_NS.get()).max(MIN_ROUNDS);
        compute(rounds as u64);
        let then_ns = thread_cpu_ns();
        // Ignore the measurement if a coarse clock has not advanced. Also ignore it if so few
        // rounds ran that the read of the clock took most of the time. An interrupt makes a round
        // seem long. Without the limit on growth, the loop would then do little but read the clock.
        let measured_ns = (then_ns - now_ns) / rounds;
        if rounds > MIN_ROUNDS && measured_ns > 0.0 {
            ROUND_NS.set(measured_ns.min(ROUND_NS.get() * MAX_GROWTH));
        }
        now_ns = then_ns;
    }
}

fn thread_cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Rounds of a linear congruential generator that the compiler cannot remove.
fn compute(rounds: u64) {
    let mut state = 1_u64;
    for round in 0..rounds {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005) ^ round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_routes_are_checked() {
        assert_eq!(route_of(b"/work", b"us=5"), Some(Route::Work(5)));
        assert_eq!(route_of(b"/bytes/612", b""), Some(Route::Bytes(612)));
        assert_eq!(route_of(b"/index.html", b""), None);
        for (path, query) in [
            ("/work", "us=-1"),
            ("/work", ""),
            ("/bytes/", ""),
            ("/bytes/1e3", ""),
        ] {
            let route = route_of(path.as_bytes(), query.as_bytes());
            assert!(matches!(route, Some(Route::Malformed(_))), "{path}?{query}");
        }
    }
}
