//! Compares the surface and the chain with a model. The caches of `perpacket-memory`, accessed in
//! the same order, show at which working set and stride accesses begin to miss. In the published
//! figure, bandwidth falls when the working set exceeds the 512 KB second level of a Pentium 4 (Isa
//! 2003, section 4.3.1).

#![expect(clippy::unwrap_used, reason = "a test may end on a slip of its own")]

use perpacket_memory::{
    CacheParameters, DramParameters, Hierarchy, HierarchyParameters, Line, Policy,
};
use perpacket_microbench::memory::{ChainRow, WORD_BYTES, edges, order, working_sets};

const LINE_BYTES: usize = 64;
const FIRST_KIB: u32 = 8;
const SECOND_KIB: u32 = 512;
const LATENCY_CYCLES: [u32; 3] = [2, 18, 250];

fn pentium_4() -> Hierarchy {
    let level = |size_kib, ways, latency_cycles| CacheParameters {
        size_kib,
        ways,
        latency_cycles,
    };
    Hierarchy::new(&HierarchyParameters {
        line_bytes: LINE_BYTES as u32,
        levels: vec![
            level(FIRST_KIB, 4, LATENCY_CYCLES[0]),
            level(SECOND_KIB, 8, LATENCY_CYCLES[1]),
        ],
        policy: Policy::NonInclusive,
        next_line_prefetch: false,
        dram: DramParameters {
            latency_cycles: LATENCY_CYCLES[2],
            service_cycles: 0,
        },
    })
    .unwrap()
}

/// Mean cycles of an access in repeated walks over a block.
fn cycles(words: usize, stride_words: usize) -> f64 {
    let mut caches = pentium_4();
    let mut stalled = 0;
    let mut accesses = 0;
    for pass in 0..2 {
        for index in order(words, stride_words) {
            let line = Line((index * WORD_BYTES / LINE_BYTES) as u32);
            let stall_cycles = u64::from(caches.access(line, 0).stall_cycles);
            if pass > 0 {
                stalled += stall_cycles;
                accesses += 1;
            }
        }
    }
    f64::from(LATENCY_CYCLES[0]) + stalled as f64 / f64::from(accesses)
}

#[test]
fn at_stride_1_the_surface_steps_past_each_cache_and_nowhere_else() {
    let sizes_kib: Vec<usize> = (1..=11).map(|power| 1 << power).collect();
    let falls: Vec<usize> = sizes_kib
        .windows(2)
        .filter(|pair| {
            let words = |kib: usize| kib * 1024 / WORD_BYTES;
            cycles(words(pair[1]), 1) > 1.2 * cycles(words(pair[0]), 1)
        })
        .map(|pair| pair[0])
        .collect();
    assert_eq!(falls, [FIRST_KIB as usize, SECOND_KIB as usize]);
}

#[test]
fn past_the_caches_an_access_costs_more_up_to_a_stride_of_a_line() {
    // A column is the words that one pass with the stride accesses. In a block of 8 MiB, a column
    // of stride 8 has more lines than the second level, so no line is still in a cache at its next
    // access.
    let words = (8 << 20) / WORD_BYTES;
    let line_words = LINE_BYTES / WORD_BYTES;
    let by_stride: Vec<f64> = [1, 2, 4, 8].map(|stride| cycles(words, stride)).to_vec();
    for pair in by_stride.windows(2) {
        let stalls = |cycles: f64| cycles - f64::from(LATENCY_CYCLES[0]);
        let ratio = stalls(pair[1]) / stalls(pair[0]);
        assert!((ratio - 2.0).abs() < 0.01, "{by_stride:?}");
    }
    assert!((cycles(words, line_words) - f64::from(LATENCY_CYCLES[2])).abs() < 0.01);
}

#[test]
fn long_strides_find_the_lines_of_the_column_before_in_the_second_level() {
    // With stride 256 over 8 MiB, a column has 4096 lines of together 256 KiB, half of the second
    // level. But these lines map only to every 32nd set. Such a set would need 32 ways, but has 8.
    // So no line stays until its next access.
    let words = (8 << 20) / WORD_BYTES;
    assert!((cycles(words, 256) - f64::from(LATENCY_CYCLES[2])).abs() < 0.01);
    // Over 512 KiB, a column has 256 lines, 8 in each of these sets. So the lines of the previous
    // column are still in the second level.
    assert!(cycles((512 << 10) / WORD_BYTES, 256) <= f64::from(LATENCY_CYCLES[1]));
}

#[test]
fn the_edges_of_a_simulated_chain_are_its_caches() {
    // The walk repeats a ring through all lines. With least-recently-used replacement only the
    // number of lines matters, not their order.
    let chain: Vec<ChainRow> = working_sets(4 << 10, 4 << 20, LINE_BYTES)
        .into_iter()
        .map(|bytes| {
            let ns = cycles(bytes / WORD_BYTES, LINE_BYTES / WORD_BYTES);
            ChainRow {
                working_set_bytes: bytes,
                ns,
                low: ns,
                high: ns,
                n: 1,
            }
        })
        .collect();
    let actual: Vec<usize> = edges(&chain, &[])
        .iter()
        .map(|edge| edge.working_set_bytes)
        .collect();
    assert_eq!(
        actual,
        [(FIRST_KIB as usize) << 10, (SECOND_KIB as usize) << 10]
    );
}
