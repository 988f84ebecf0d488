//! Sequences that are short enough to check on paper.
//!
//! All but two use lines of 1 KiB. The first level has 2 lines and answers in 1 cycle, the second
//! has 3 lines and answers in 10, and DRAM answers in 100. Every level is one set, so any line may
//! be in any way. A stall is the latency minus the cycle of the first level.
#![allow(clippy::expect_used)]

use perpacket_memory::{
    CacheParameters, CacheSize, DramParameters, Hierarchy, HierarchyParameters, Line, Policy,
};

const L1: (u8, u32) = (0, 0);
const L2: (u8, u32) = (1, 9);
const DRAM: (u8, u32) = (2, 99);

fn parameters(policy: Policy) -> HierarchyParameters {
    let level = |lines, latency_cycles| CacheParameters {
        size_kib: lines,
        ways: lines,
        latency_cycles,
    };
    HierarchyParameters {
        line_bytes: 1024,
        levels: vec![level(2, 1), level(3, 10)],
        policy,
        next_line_prefetch: false,
        dram: DramParameters {
            latency_cycles: 100,
            service_cycles: 0,
        },
    }
}

fn hierarchy(policy: Policy) -> Hierarchy {
    Hierarchy::new(&parameters(policy)).expect("possible")
}

fn access(hierarchy: &mut Hierarchy, line: u32, now: u64) -> (u8, u32) {
    let access = hierarchy.access(Line(line), now);
    (access.level, access.stall_cycles)
}

/// Checks `table`. A row has a line, the level that answers and the stall.
fn check(hierarchy: &mut Hierarchy, table: &[(u32, (u8, u32))]) {
    for (row, (line, expected)) in table.iter().enumerate() {
        let answered = access(hierarchy, *line, 0);
        assert_eq!(answered, *expected, "row {row}, line {line}");
    }
}

fn contents(hierarchy: &Hierarchy, level: usize) -> Vec<u32> {
    let contains = |line: &u32| hierarchy.contains(level, Line(*line));
    (0..16).filter(contains).collect()
}

#[test]
fn two_ways_have_room_for_two_lines_and_the_third_evicts_the_least_recently_used() {
    let table = [
        (1, DRAM),
        (2, DRAM),
        (1, L1),   // the order is now 1, 2
        (3, DRAM), // evicts 2
        (1, L1),
        (2, L2), // evicts 3
        (3, L2),
    ];
    check(&mut hierarchy(Policy::Inclusive), &table);
    check(&mut hierarchy(Policy::NonInclusive), &table);
}

#[test]
fn lines_of_different_sets_do_not_evict_each_other() {
    let mut hierarchy = Hierarchy::new(&HierarchyParameters {
        levels: vec![CacheParameters {
            size_kib: 4,
            ways: 1,
            latency_cycles: 1,
        }],
        ..parameters(Policy::NonInclusive)
    })
    .expect("possible");
    let dram = (1, 99);
    let table = [
        (0, dram),
        (1, dram),
        (2, dram),
        (3, dram),
        (0, L1),
        (4, dram), // set 0 again
        (0, dram),
        (3, L1),
    ];
    check(&mut hierarchy, &table);
}

#[test]
fn a_line_that_leaves_an_inclusive_second_level_leaves_the_first() {
    let mut hierarchy = hierarchy(Policy::Inclusive);
    // Line 1 is used all the time, but only its first access reaches the second level.
    check(
        &mut hierarchy,
        &[(1, DRAM), (2, DRAM), (1, L1), (3, DRAM), (1, L1)],
    );
    check(&mut hierarchy, &[(4, DRAM)]);
    assert_eq!(contents(&hierarchy, 1), [2, 3, 4]);
    assert_eq!(
        contents(&hierarchy, 0),
        [3, 4],
        "1 is gone, and 3 kept its way"
    );
    check(&mut hierarchy, &[(1, DRAM)]);
}

#[test]
fn a_line_in_use_stays_in_the_first_level_after_a_non_inclusive_second_evicts_it() {
    let mut hierarchy = hierarchy(Policy::NonInclusive);
    check(
        &mut hierarchy,
        &[(1, DRAM), (2, DRAM), (1, L1), (3, DRAM), (1, L1)],
    );
    check(&mut hierarchy, &[(4, DRAM), (1, L1)]);
    assert_eq!(contents(&hierarchy, 1), [2, 3, 4]);
    assert_eq!(contents(&hierarchy, 0), [1, 4]);
}

#[test]
fn exclusive_levels_have_room_for_five_lines_together() {
    let mut hierarchy = hierarchy(Policy::Exclusive);
    let first_round = [1, 2, 3, 4, 5].map(|line| (line, DRAM));
    check(&mut hierarchy, &first_round);
    assert_eq!(contents(&hierarchy, 0), [4, 5]);
    assert_eq!(contents(&hierarchy, 1), [1, 2, 3]);
    // A hit exchanges two lines: 1 moves up, and 4 moves down into its place.
    check(&mut hierarchy, &[(1, L2)]);
    assert_eq!(contents(&hierarchy, 0), [1, 5]);
    assert_eq!(contents(&hierarchy, 1), [2, 3, 4]);
    // A miss evicts 2, the oldest line of the second level.
    check(&mut hierarchy, &[(6, DRAM), (2, DRAM)]);
}

#[test]
fn a_device_that_writes_a_line_makes_the_next_access_go_to_dram() {
    for policy in [Policy::Inclusive, Policy::Exclusive, Policy::NonInclusive] {
        let mut hierarchy = hierarchy(policy);
        check(&mut hierarchy, &[(1, DRAM), (2, DRAM), (3, DRAM)]);
        hierarchy.invalidate(Line(1));
        hierarchy.invalidate(Line(3));
        hierarchy.invalidate(Line(9));
        check(&mut hierarchy, &[(2, L1), (1, DRAM), (3, DRAM)]);
        assert_eq!(hierarchy.counters().invalidations, 2, "9 was in no level");
    }
}

#[test]
fn the_next_line_enters_the_last_level_unless_it_is_in_another_page() {
    for policy in [Policy::Inclusive, Policy::Exclusive, Policy::NonInclusive] {
        let mut hierarchy = Hierarchy::new(&HierarchyParameters {
            next_line_prefetch: true,
            ..parameters(policy)
        })
        .expect("possible");
        // A page has 4 lines: 0 to 3, and 4 to 7.
        check(
            &mut hierarchy,
            &[(2, DRAM), (3, L2), (4, DRAM), (5, L2), (5, L1)],
        );
        assert_eq!(hierarchy.counters().next_line_prefetches, 2);
    }
}

#[test]
fn a_line_prefetched_early_enough_costs_nothing_and_a_late_one_the_rest() {
    let mut hierarchy = hierarchy(Policy::Inclusive);
    hierarchy.prefetch(Line(1), 1000);
    hierarchy.prefetch(Line(2), 1000);
    assert_eq!(access(&mut hierarchy, 1, 1040), (0, 59), "1099 - 1040");
    assert_eq!(access(&mut hierarchy, 1, 1040), L1, "the line has arrived");
    assert_eq!(access(&mut hierarchy, 2, 1099), L1);
    assert_eq!(hierarchy.counters().late_prefetches, 1);
    assert_eq!(hierarchy.counters().software_prefetches, 2);
}

#[test]
fn a_prefetch_without_lead_time_saves_nothing() {
    let mut hierarchy = hierarchy(Policy::Exclusive);
    hierarchy.prefetch(Line(1), 7);
    assert_eq!(access(&mut hierarchy, 1, 7), (0, 99));
    check(&mut hierarchy, &[(2, DRAM), (3, DRAM)]);
    hierarchy.prefetch(Line(1), 500);
    assert_eq!(access(&mut hierarchy, 1, 500), (0, 9), "from level 2");
}

#[test]
fn a_device_that_writes_a_line_on_its_way_undoes_the_prefetch() {
    let mut hierarchy = hierarchy(Policy::Inclusive);
    hierarchy.prefetch(Line(1), 0);
    hierarchy.invalidate(Line(1));
    assert_eq!(access(&mut hierarchy, 1, 50), DRAM);
}

#[test]
fn a_line_waits_while_the_channel_is_busy() {
    let mut parameters = parameters(Policy::Inclusive);
    parameters.dram.service_cycles = 30;
    let mut hierarchy = Hierarchy::new(&parameters).expect("possible");
    assert_eq!(access(&mut hierarchy, 1, 0), (2, 99), "the channel is free");
    assert_eq!(access(&mut hierarchy, 2, 10), (2, 119), "busy until 30");
    assert_eq!(access(&mut hierarchy, 3, 70), (2, 99), "free since 60");
    // The next line, which next-line prefetch loads, occupies the channel too.
    parameters.next_line_prefetch = true;
    let mut hierarchy = Hierarchy::new(&parameters).expect("possible");
    assert_eq!(access(&mut hierarchy, 0, 0), (2, 99));
    assert_eq!(access(&mut hierarchy, 2, 10), (2, 149), "busy until 60");
}

#[test]
fn counters_have_the_misses_of_each_level() {
    let mut hierarchy = hierarchy(Policy::Inclusive);
    check(
        &mut hierarchy,
        &[(1, DRAM), (2, DRAM), (3, DRAM), (1, L2), (1, L1)],
    );
    let counters = hierarchy.counters();
    assert_eq!(counters.answered, [1, 1, 3, 0]);
    assert_eq!(counters.accesses(), 5);
    assert_eq!(counters.misses(0), 4);
    assert_eq!(counters.misses(1), 3);
    assert_eq!(counters.stall_cycles, 3 * 99 + 9);
}

#[test]
fn the_first_read_after_a_write_of_a_device_stalls_for_longer() {
    for policy in [Policy::Inclusive, Policy::Exclusive, Policy::NonInclusive] {
        let mut hierarchy = hierarchy(policy).with_device_writes(50);
        check(&mut hierarchy, &[(1, DRAM), (1, L1)]);
        hierarchy.invalidate(Line(1));
        let longer = (DRAM.0, DRAM.1 + 50);
        check(&mut hierarchy, &[(2, DRAM), (1, longer), (1, L1)]);
        // Other lines evict it. The next read is not the first.
        let others = [3, 4, 5, 6, 7, 8].map(|line| (line, DRAM));
        check(&mut hierarchy, &others);
        check(&mut hierarchy, &[(1, DRAM)]);
        // A prefetch is the first read, and hides all of the stall.
        hierarchy.invalidate(Line(1));
        hierarchy.prefetch(Line(1), 1_000);
        assert_eq!(access(&mut hierarchy, 1, 1_140).1, 9);
        hierarchy.invalidate(Line(1));
        let tally = hierarchy.access_all(&[Line(1), Line(1)], 2_000);
        assert_eq!(tally.stall_cycles, u64::from(longer.1));
    }
}

/// The second level has 16 lines here, so that `access_all` can take its fast path.
#[test]
fn a_prefetch_of_the_next_line_is_the_first_read_after_a_write_of_a_device() {
    let mut parameters = parameters(Policy::Inclusive);
    (parameters.levels[1].size_kib, parameters.levels[1].ways) = (16, 16);
    parameters.next_line_prefetch = true;
    let mut hierarchy = Hierarchy::new(&parameters)
        .expect("possible")
        .with_device_writes(50);
    hierarchy.invalidate(Line(1));
    let stalls = |hierarchy: &mut Hierarchy, lines: &[Line]| {
        let tally = hierarchy.access_all(lines, 0);
        tally.stall_cycles
    };
    // Four lines are a page.
    assert_eq!(stalls(&mut hierarchy, &[Line(0), Line(1)]), 99 + 9);
    let others: Vec<_> = (2..18).map(|page| Line(4 * page)).collect();
    assert_eq!(stalls(&mut hierarchy, &others), 16 * 99);
    assert_eq!(stalls(&mut hierarchy, &[Line(1)]), 99);
    hierarchy.invalidate(Line(1));
    assert_eq!(stalls(&mut hierarchy, &[Line(1)]), 99 + 50);
}

#[test]
fn code_and_data_meet_in_the_second_level() {
    let mut parameters = parameters(Policy::NonInclusive);
    parameters.line_bytes = 64;
    let size = CacheSize {
        size_kib: 1,
        ways: 2,
    };
    let mut hierarchy = Hierarchy::new(&parameters)
        .and_then(|hierarchy| hierarchy.with_instruction_cache(size))
        .expect("possible");
    let fetches = hierarchy.fetch_all(&[Line(1), Line(2), Line(1)], 0);
    assert_eq!((fetches.stall_cycles, fetches.misses), (2 * 99, [2, 2]));
    check(&mut hierarchy, &[(1, L2), (3, DRAM)]);
    let fetches = hierarchy.fetch_all(&[Line(3), Line(3)], 0);
    assert_eq!((fetches.stall_cycles, fetches.misses), (9, [1, 0]));
}
