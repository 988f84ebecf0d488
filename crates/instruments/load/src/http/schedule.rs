//! Arrival times of an open loop.
//!
//! An arrival is drawn when the arrival before it starts. While no connection is free, no arrival
//! starts, so a backlog of any length uses no memory.

use perpacket_workload::Stream;

use super::arrivals::Process;
use super::shard::Shard;

const NS_PER_S: f64 = 1e9;

/// The arrivals of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Arrivals per second of all threads and processes.
    per_s: f64,
    shard: Shard,
    process: Process,
    stream: Stream,
    /// Arrivals so far.
    count: u64,
    next_ns: f64,
}

impl Schedule {
    /// One shard of `per_s` arrivals per second.
    ///
    /// Fixed arrivals go to the shards in turn, so that the arrivals of all shards together are
    /// evenly spaced. Poisson processes add up to a Poisson process of the total rate.
    pub(crate) fn new(per_s: f64, process: Process, shard: Shard, seed: u64) -> Self {
        let mut schedule = Self {
            per_s,
            shard,
            process,
            stream: Stream::new(
                seed,
                &format!("arrivals {} of {}", shard.index, shard.shards),
            ),
            count: 0,
            next_ns: 0.0,
        };
        schedule.next_ns = match process {
            Process::Fixed => schedule.fixed_ns(),
            Process::Poisson => schedule.gap_ns(),
        };
        schedule
    }

    /// Time of the next arrival, in nanoseconds since the start.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Advances past the next arrival.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.count += 1;
        match self.process {
            Process::Fixed => self.next_ns = self.fixed_ns(),
            Process::Poisson => self.next_ns += self.gap_ns(),
        }
    }

    /// Advances past all arrivals before `end_ns` and counts them.
    pub(crate) fn advance_until(&mut self, end_ns: u64) -> u64 {
        let before = self.count;
        while self.next_ns() < end_ns {
            self.advance();
        }
        self.count - before
    }

    /// The time of a fixed arrival. It is computed from the count, so that rounding errors do not
    /// add up.
    #[inline]
    fn fixed_ns(&self) -> f64 {
        let number = self.count * u64::from(self.shard.shards) + u64::from(self.shard.index);
        number as f64 * NS_PER_S / self.per_s
    }

    fn gap_ns(&mut self) -> f64 {
        self.stream.exponential() * NS_PER_S * f64::from(self.shard.shards) / self.per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(process: Process, per_s: f64, shards: u32, end_ns: u64) -> Vec<u64> {
        let mut all = Vec::new();
        for index in 0..shards {
            let shard = Shard { index, shards };
            let mut schedule = Schedule::new(per_s, process, shard, 7);
            while schedule.next_ns() < end_ns {
                all.push(schedule.next_ns());
                schedule.advance();
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn a_rate_below_one_per_second_gives_an_arrival_every_few_seconds() {
        let times = times(Process::Fixed, 0.4, 1, 11_000_000_000);
        assert_eq!(
            times,
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
    fn shards_of_a_fixed_rate_are_evenly_spaced_together() {
        let whole = times(Process::Fixed, 1000.0, 1, 1_000_000_000);
        assert_eq!(times(Process::Fixed, 1000.0, 3, 1_000_000_000), whole);
        assert_eq!(whole.len(), 1000);
    }

    #[test]
    fn shards_of_a_poisson_process_add_up_to_the_total_rate() {
        let times = times(Process::Poisson, 50_000.0, 4, 2_000_000_000);
        let expected = 100_000.0_f64;
        assert!(
            (times.len() as f64 - expected).abs() < 4.0 * expected.sqrt(),
            "{}",
            times.len()
        );
        let gaps: Vec<f64> = times
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
