//! Finds the sizes of caches from the latency of dependent loads alone.
//!
//! Latency is constant while the working set fits into a cache, and rises when the working set
//! becomes larger than the cache. An edge is a series of consecutive rises. If a series has a
//! shoulder, that is, a part that is almost flat, it is two edges. A larger working set cannot be
//! faster. If its measured latency is lower, other work disturbed the measurement of the smaller
//! set. The search then uses the latency of the larger set for the smaller set too. The search does
//! not use the caches that the kernel reports; they only label the edges.

use serde::Serialize;

use super::chain::ChainRow;
use crate::machine::Cache;

/// Ratio of neighbouring latencies that counts as a rise. The measured latencies are exact to 2 %.
const RISE: f64 = 1.05;

/// Ratio of the latencies at the end and at the start of a series of rises that counts as an edge.
/// In current processors, the latencies of the first two caches differ by a factor of three. Those
/// of the last cache and of memory differ by about as much.
const EDGE: f64 = 1.35;

/// A shoulder rises by less than this share of the rises on either side of it.
const SHOULDER: f64 = 0.4;

/// A range of working sets in which latency rises.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Edge {
    /// The largest working set before the rise. It still fits into the cache.
    pub working_set_bytes: usize,
    /// The working set at the end of the rise.
    pub risen_bytes: usize,
    /// Latency before the rise in nanoseconds.
    pub before_ns: f64,
    /// Latency after the rise in nanoseconds.
    pub after_ns: f64,
    /// Level of the cache of about this size, if the kernel reports one.
    pub level: Option<u32>,
}

/// Finds the edges in the latencies of working sets, which must be in ascending order of size.
/// Labels the edges with levels of `caches`.
pub fn edges(chain: &[ChainRow], caches: &[Cache]) -> Vec<Edge> {
    let mut ns: Vec<f64> = chain.iter().map(|row| row.ns).collect();
    for index in (1..ns.len()).rev() {
        ns[index - 1] = ns[index - 1].min(ns[index]);
    }
    let steps: Vec<f64> = ns.windows(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
    let mut edges = Vec::new();
    let mut first = 0;
    while first < steps.len() {
        let rises = steps[first..].iter().take_while(|&&step| step >= RISE.ln());
        let length = rises.count();
        if length > 0 {
            split(&steps, first, first + length, &mut edges);
        }
        first += length + 1;
    }
    edges
        .into_iter()
        .map(|(first, end)| Edge {
            working_set_bytes: chain[first].working_set_bytes,
            risen_bytes: chain[end].working_set_bytes,
            before_ns: ns[first],
            after_ns: ns[end],
            level: level_of(
                chain[first].working_set_bytes,
                chain[end].working_set_bytes,
                caches,
            ),
        })
        .filter(|edge| edge.after_ns >= edge.before_ns * EDGE)
        .collect()
}

/// Splits a series of rises at its flattest shoulder, and then splits both parts in the same way.
fn split(steps: &[f64], first: usize, end: usize, edges: &mut Vec<(usize, usize)>) {
    let highest = |range: &[f64]| range.iter().copied().fold(0.0, f64::max);
    let shoulder = (first + 1..end.saturating_sub(1))
        .filter(|&at| {
            let sides = highest(&steps[first..at]).min(highest(&steps[at + 1..end]));
            steps[at] < SHOULDER * sides
        })
        .min_by(|&a, &b| steps[a].total_cmp(&steps[b]));
    match shoulder {
        Some(at) => {
            split(steps, first, at, edges);
            split(steps, at + 1, end, edges);
        }
        None => edges.push((first, end)),
    }
}

/// The level of the cache whose size lies within a rise. A rise may begin at half the size of the
/// cache, because other programs and address hashing use a part of the cache. It may end above
/// twice the size.
fn level_of(begin_bytes: usize, end_bytes: usize, caches: &[Cache]) -> Option<u32> {
    caches
        .iter()
        .filter(|cache| (begin_bytes..=begin_bytes * 2).contains(&cache.size_bytes))
        .chain(
            caches
                .iter()
                .filter(|cache| (begin_bytes..=end_bytes).contains(&cache.size_bytes)),
        )
        .map(|cache| cache.level)
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(latencies: &[f64]) -> Vec<ChainRow> {
        latencies
            .iter()
            .enumerate()
            .map(|(power, &ns)| ChainRow {
                working_set_bytes: 1024 << power,
                ns,
                low: ns,
                high: ns,
                n: 6,
            })
            .collect()
    }

    #[test]
    fn flat_latency_has_no_edge() {
        assert!(edges(&chain(&[1.0, 1.01, 0.99, 1.02, 1.0]), &[]).is_empty());
    }

    #[test]
    fn a_slow_rise_is_not_an_edge() {
        assert!(edges(&chain(&[1.0, 1.06, 1.12, 1.19, 1.2, 1.2]), &[]).is_empty());
    }

    #[test]
    fn a_rise_over_several_sizes_is_one_edge() {
        let actual = edges(&chain(&[1.0, 1.0, 2.0, 3.5, 4.0, 4.0]), &[]);
        assert_eq!(actual.len(), 1);
        assert_eq!(actual[0].working_set_bytes, 2048);
        assert_eq!(actual[0].risen_bytes, 16384);
    }

    #[test]
    fn a_disturbed_point_is_not_an_edge() {
        assert!(edges(&chain(&[1.0, 1.0, 9.0, 1.0, 1.0]), &[]).is_empty());
    }

    #[test]
    fn a_shoulder_separates_two_edges() {
        let actual = edges(&chain(&[1.0, 3.0, 3.0 * 1.07, 3.0 * 1.07 * 3.0]), &[]);
        let sizes: Vec<_> = actual.iter().map(|edge| edge.working_set_bytes).collect();
        assert_eq!(sizes, [1024, 4096]);
    }

    #[test]
    fn an_edge_gets_the_level_of_a_cache_that_ends_there() {
        let cache = |level, kib: usize| Cache {
            level,
            size_bytes: kib << 10,
            ways: None,
            line_bytes: 64,
            shared_cpus: String::new(),
        };
        let actual = edges(
            &chain(&[1.0, 1.0, 4.0, 4.0, 4.0, 16.0]),
            &[cache(1, 2), cache(2, 128)],
        );
        let levels: Vec<_> = actual.iter().map(|edge| edge.level).collect();
        assert_eq!(levels, [Some(1), None]);
    }
}
