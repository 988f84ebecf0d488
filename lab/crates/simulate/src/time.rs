//! Simulated time: integers of picoseconds, never a float, so that equal runs have byte-identical
//! results.

use std::ops::{Add, AddAssign, Sub};

const PICOSECONDS_PER_SECOND: u64 = 1_000_000_000_000;
const PICOSECONDS_PER_MICROSECOND: u64 = 1_000_000;

/// An instant, in picoseconds since the start of the run. 64 bits last 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// A length of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);

    /// Seconds since the start, for results only.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PICOSECONDS_PER_SECOND as f64
    }

    /// The time that has passed since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// Whole microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// Milliseconds, rounded to the picosecond.
    pub fn from_ms(ms: f64) -> Self {
        Self((ms * 1e9).round() as u64)
    }

    /// The time that `bytes` bytes take at `rate_bps` bits per second.
    pub const fn of_bytes(bytes: u64, rate_bps: u64) -> Self {
        // Division of 128 bits takes several times as long, and frames do not need it.
        if let Some(units) = bytes.checked_mul(8 * PICOSECONDS_PER_SECOND) {
            return Self(units / rate_bps);
        }
        Self((bytes as u128 * 8 * PICOSECONDS_PER_SECOND as u128 / rate_bps as u128) as u64)
    }

    /// Seconds, for results only.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PICOSECONDS_PER_SECOND as f64
    }

    /// Whole nanoseconds, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }
}

impl Add<Span> for Time {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0 + span.0)
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Span {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A processor's clock: converts its cycles to time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    mhz: u64,
    /// Picoseconds of a cycle; zero if that is not a whole number.
    cycle_ps: u64,
}

impl Clock {
    /// A clock of `mhz` million cycles a second.
    pub const fn from_mhz(mhz: u32) -> Self {
        let mhz = mhz as u64;
        let cycle_ps = if PICOSECONDS_PER_MICROSECOND.is_multiple_of(mhz) {
            PICOSECONDS_PER_MICROSECOND / mhz
        } else {
            0
        };
        Self { mhz, cycle_ps }
    }

    /// The time that `cycles` cycles take, rounded down to the picosecond.
    pub const fn span(self, cycles: u64) -> Span {
        // A division takes longer than a simulated access, and common clocks need none.
        Span(match self.cycle_ps {
            0 => cycles * PICOSECONDS_PER_MICROSECOND / self.mhz,
            cycle_ps => cycles * cycle_ps,
        })
    }

    /// The whole cycles since the start of the run at `time`.
    pub const fn cycles_at(self, time: Time) -> u64 {
        self.cycles(Span(time.0))
    }

    /// The whole cycles of `span`.
    pub const fn cycles(self, span: Span) -> u64 {
        // Nanoseconds first: picoseconds times megahertz would overflow after 18 seconds.
        span.0 / 1_000 * self.mhz / 1_000
    }

    pub fn cycles_per_second(self) -> f64 {
        self.mhz as f64 * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_takes_1230_ns_at_ten_gigabit() {
        assert_eq!(Span::of_bytes(1538, 10_000_000_000), Span(1_230_400));
    }

    #[test]
    fn a_cycle_that_is_not_a_whole_number_of_picoseconds_is_rounded_only_in_the_sum() {
        let clock = Clock::from_mhz(600);
        assert_eq!(clock.span(1), Span(1_666));
        assert_eq!(clock.span(600), Span(1_000_000));
    }

    #[test]
    fn a_terabyte_takes_as_long_as_a_million_megabytes() {
        let megabyte = Span::of_bytes(1_000_000, 10_000_000_000);
        let terabyte = Span::of_bytes(1_000_000_000_000, 10_000_000_000);
        assert_eq!(megabyte, Span::from_us(800));
        assert_eq!(terabyte.0, megabyte.0 * 1_000_000);
    }

    #[test]
    fn two_gigahertz_is_half_a_nanosecond_a_cycle() {
        let clock = Clock::from_mhz(2_000);
        assert_eq!(clock.span(3), Span(1_500));
        assert_eq!(clock.cycles_at(Time(1_500_000)), 3_000);
    }
}
