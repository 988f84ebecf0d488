//! The latency of dependent loads.
//!
//! Every line of a working set contains the index of another, and all lines form one random ring.
//! No prefetcher can predict the next line, and the processor cannot load it early. Latency rises
//! when the working set becomes larger than a cache. The memory is in huge pages if possible. With
//! base pages, a random walk over much memory would also measure address translation.

use std::hint::black_box;
use std::time::Instant;

use perpacket_linux::memory::Words;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::pattern::WORD_BYTES;
use crate::error::BenchError;
use crate::interval::{Limits, Repetitions};

/// Number of loads in the shortest timed walk. They take some microseconds, much longer than a
/// reading of the clock.
const MIN_LOADS: usize = 2048;

/// Number of loads in the longest timed walk. They take about a millisecond in memory.
const MAX_LOADS: usize = 1 << 13;

/// Maximum number of untimed loads. They fill the caches.
const MAX_UNTIMED_LOADS: usize = 1 << 20;

/// Seed of the rings. The same seed makes the order the same on every machine.
const SEED: u64 = 2003;

/// Smallest working set, in bytes.
const SMALLEST_BYTES: usize = 4 << 10;

/// The latency of one working set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChainRow {
    pub working_set_bytes: usize,
    /// Latency of a dependent load in nanoseconds.
    pub ns: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Repetitions.
    pub n: usize,
}

/// Memory for rings of all sizes.
pub struct Chain {
    words: Words,
    line_words: usize,
}

impl Chain {
    /// Memory for rings of up to `largest_bytes`, with one index in each line.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(largest_bytes: usize, line_bytes: usize) -> Result<Self, BenchError> {
        Ok(Self {
            words: crate::words(largest_bytes / WORD_BYTES, true)?,
            line_words: (line_bytes / WORD_BYTES).max(1),
        })
    }

    /// The latency in a working set of `bytes`.
    pub fn measure(
        &mut self,
        bytes: usize,
        repetitions: &mut Repetitions,
        limits: Limits,
    ) -> Option<ChainRow> {
        let lines = (bytes / WORD_BYTES / self.line_words).max(1);
        self.link(lines);
        let mut at = self.walk(0, lines.min(MAX_UNTIMED_LOADS));
        let loads = lines.clamp(MIN_LOADS, MAX_LOADS);
        let Ok(median) = repetitions.until_precise(limits, || {
            let begin = Instant::now();
            at = black_box(self.walk(at, loads));
            Ok::<_, std::convert::Infallible>(begin.elapsed().as_nanos() as f64 / loads as f64)
        });
        median.map(|median| ChainRow {
            working_set_bytes: bytes,
            ns: median.value,
            low: median.low,
            high: median.high,
            n: median.n,
        })
    }

    /// Links the first `lines` lines into one random ring.
    fn link(&mut self, lines: usize) {
        for line in 0..lines {
            self.words[line * self.line_words] = (line * self.line_words) as u64;
        }
        // Sattolo's shuffle makes a single ring (Information Processing Letters 22, 1986).
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        for line in (1..lines).rev() {
            let other = (random.next_u64() % line as u64) as usize;
            self.words
                .swap(line * self.line_words, other * self.line_words);
        }
    }

    /// Follows the ring from an index for a number of loads. Returns the last index.
    fn walk(&self, from: usize, loads: usize) -> usize {
        let words: &[u64] = &self.words;
        let mut at = from;
        for _ in 0..loads {
            at = words[at] as usize;
        }
        at
    }
}

/// Working sets of whole lines from `smallest_bytes` (at least 4 KiB) to `largest_bytes`. There are
/// four sizes per doubling, which is fine enough to find the size of a cache.
pub fn working_sets(smallest_bytes: usize, largest_bytes: usize, line_bytes: usize) -> Vec<usize> {
    let mut sets = Vec::new();
    let mut octave = smallest_bytes.max(SMALLEST_BYTES);
    while octave <= largest_bytes {
        for quarter in [4, 5, 6, 7] {
            let bytes = octave / 4 * quarter;
            if bytes <= largest_bytes {
                sets.push(bytes / line_bytes * line_bytes);
            }
        }
        octave *= 2;
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_visits_every_line_before_it_returns() {
        let mut chain = Chain::new(64 << 10, 64).unwrap();
        chain.link(1000);
        let mut seen = vec![false; 1000];
        let mut at = 0;
        for _ in 0..1000 {
            assert!(!seen[at / 8], "line {} comes twice", at / 8);
            seen[at / 8] = true;
            at = chain.walk(at, 1);
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn working_sets_rise_and_include_every_power_of_two() {
        let sets = working_sets(512, 128 << 20, 64);
        assert!(sets.is_sorted_by(|a, b| a < b));
        assert!((12..=27).all(|power| sets.contains(&(1 << power))));
        assert_eq!(working_sets(1 << 20, 1 << 20, 64), [1 << 20]);
    }
}
