//! When requests or sessions arrive that do not wait for the server.
//!
//! Arrivals are drawn one by one as their time comes, and not before: what waits for a free
//! connection is the schedule itself, so a backlog of any length takes no memory.

use perpacket_workload::Stream;

use super::settings::{Part, Process};

const NS_PER_S: f64 = 1e9;

/// The arrivals of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// All threads' and processes' arrivals a second.
    per_s: f64,
    part: Part,
    process: Process,
    stream: Stream,
    /// Arrivals taken so far.
    taken: u64,
    next_ns: f64,
}

impl Schedule {
    /// This part of `per_s` arrivals a second.
    ///
    /// Evenly spaced ones are dealt to the parts in turn, so that all together are evenly spaced;
    /// Poisson processes of a share of the rate each sum up to one of the whole rate.
    pub(crate) fn new(per_s: f64, process: Process, part: Part, seed: u64) -> Self {
        let mut schedule = Self {
            per_s,
            part,
            process,
            stream: Stream::new(seed, &format!("arrivals {} of {}", part.index, part.parts)),
            taken: 0,
            next_ns: 0.0,
        };
        schedule.next_ns = match process {
            Process::Fixed => schedule.even_ns(),
            Process::Poisson => schedule.gap_ns(),
        };
        schedule
    }

    /// When the next one arrives, in nanoseconds from the start.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Takes the next one.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.taken += 1;
        match self.process {
            Process::Fixed => self.next_ns = self.even_ns(),
            Process::Poisson => self.next_ns += self.gap_ns(),
        }
    }

    /// Takes all that arrive before `end_ns` and counts them.
    pub(crate) fn take_until(&mut self, end_ns: u64) -> u64 {
        let before = self.taken;
        while self.next_ns() < end_ns {
            self.take();
        }
        self.taken - before
    }

    /// Computed from the count, so that rounding never adds up.
    #[inline]
    fn even_ns(&self) -> f64 {
        let place = self.taken * u64::from(self.part.parts) + u64::from(self.part.index);
        place as f64 * NS_PER_S / self.per_s
    }

    fn gap_ns(&mut self) -> f64 {
        self.stream.exponential() * NS_PER_S * f64::from(self.part.parts) / self.per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(process: Process, per_s: f64, parts: u32, end_ns: u64) -> Vec<u64> {
        let mut all = Vec::new();
        for index in 0..parts {
            let part = Part { index, parts };
            let mut schedule = Schedule::new(per_s, process, part, 7);
            while schedule.next_ns() < end_ns {
                all.push(schedule.next_ns());
                schedule.take();
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn a_fraction_of_a_request_a_second_is_one_every_few_seconds() {
        let found = times(Process::Fixed, 0.4, 1, 11_000_000_000);
        assert_eq!(
            found,
            [
                0,
                2_500_000_000,
                5_000_000_000,
                7_500_000_000,
                10_000_000_000
            ]
        );
    }

    #[test]
    fn parts_of_a_fixed_rate_interleave_evenly() {
        let whole = times(Process::Fixed, 1000.0, 1, 1_000_000_000);
        assert_eq!(times(Process::Fixed, 1000.0, 3, 1_000_000_000), whole);
        assert_eq!(whole.len(), 1000);
    }

    #[test]
    fn parts_of_a_poisson_process_are_one_of_the_whole_rate() {
        let found = times(Process::Poisson, 50_000.0, 4, 2_000_000_000);
        let expected = 100_000.0_f64;
        assert!(
            (found.len() as f64 - expected).abs() < 4.0 * expected.sqrt(),
            "{}",
            found.len()
        );
        let gaps: Vec<f64> = found
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "{}",
            variance.sqrt() / mean
        );
    }
}
