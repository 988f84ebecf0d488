//! Calibration of a processor's samples by its run time.
//!
//! A timer may deliver too few samples. On some machines the idle loop of a processor is never
//! sampled, and processors that sleep and wake often lose samples of their work too. The kernel's
//! idle time is exact there, so the run time of a processor is known (`count::ProcessorActivity`).
//! The weight of each busy sample is then the run time divided by the number of busy samples.

use perpacket_cost::{Charge, Layer};

use crate::count::ProcessorActivity;
use crate::passes::SECOND_NS;
use crate::tally::Tally;

/// Smallest number of busy samples that any factor may scale. Fewer do not show the layers of a run
/// time of which they are a small part.
pub(crate) const MIN_SAMPLES: u64 = 20;

/// Largest factor of fewer samples.
const MAX_FACTOR_OF_FEW: f64 = 2.0;

/// Shortest run time that is known well enough: ten times its largest error.
const MIN_RUN_S: f64 = 10.0 * ProcessorActivity::RESOLUTION_S;

/// The samples of a processor compared with its run time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Busy time according to the samples.
    pub sampled_s: f64,
    /// Idle time according to the samples.
    pub sampled_idle_s: f64,
    /// The kernel's times and counts, if they are known and the window is long enough.
    pub activity: Option<ProcessorActivity>,
    /// The factor of each busy sample; `None` if the samples were not calibrated.
    pub factor: Option<f64>,
    /// Whether the busy samples were left out, because they are too few for the run time.
    pub is_excluded: bool,
}

impl Calibration {
    /// Scales the sums of one processor, whose event is processor time. Fewer than `fewest` busy
    /// samples are left out, unless they nearly sum to the run time.
    pub fn apply(tally: &mut Tally, activity: Option<ProcessorActivity>, fewest: u64) -> Self {
        let activity = activity.filter(|activity| activity.window_s >= MIN_RUN_S);
        let sampled_ns = tally.busy();
        let idle_ns = tally.idle();
        let run_s = activity.map_or(0.0, |activity| activity.run_s());
        let is_known = run_s >= MIN_RUN_S;
        let factor = (is_known && sampled_ns > 0.0)
            .then(|| run_s * SECOND_NS / sampled_ns)
            .filter(|&factor| tally.busy_samples >= fewest || factor <= MAX_FACTOR_OF_FEW);
        let is_excluded = is_known && factor.is_none();
        if is_excluded {
            tally.scale(0.0, |layer| layer != Layer::Idle);
        } else if let Some(factor) = factor {
            tally.scale(factor, |layer| layer != Layer::Idle);
        }
        if let Some(activity) = activity {
            let known_ns = activity.idle_s * SECOND_NS;
            if idle_ns > 0.0 {
                tally.scale(known_ns / idle_ns, |layer| layer == Layer::Idle);
            } else {
                tally.sums.add(Charge::idle(), known_ns);
            }
        }
        Self {
            sampled_s: sampled_ns / SECOND_NS,
            sampled_idle_s: idle_ns / SECOND_NS,
            activity,
            factor,
            is_excluded,
        }
    }

    /// How much more, or less, time the samples show than the processor ran, as a share. `None` if
    /// the run time is unknown or too short.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        let run_s = self.activity?.run_s();
        (run_s >= MIN_RUN_S).then(|| self.sampled_s / run_s - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use perpacket_cost::{EventKind, KernelSymbols, Rules};

    use super::*;
    use crate::attribute::Attributor;
    use crate::capture::{Record, Sample};
    use crate::collector::{Collector, Detail};
    use crate::sums::busy;

    /// A sample of 1 ms of user code on CPU 0.
    const SAMPLE: Sample<'_> = Sample {
        time_ns: 0,
        cpu: 0,
        pid: 9,
        tid: 9,
        weight: 1_000_000,
        cgroup: None,
        user: true,
        address: 0x1000,
        chain: &[],
    };

    /// Samples of 1 ms: `user` of them in user code, and `idle` in the idle loop.
    fn sampled(collector: &mut Collector, cpu: u32, user: u64, idle: u64) {
        for number in 0..user + idle {
            let is_user = number < user;
            collector.add(&Record::Sample(Sample {
                time_ns: number * 1_000_000,
                cpu,
                pid: if is_user { 9 } else { 0 },
                user: is_user,
                ..SAMPLE
            }));
        }
    }

    fn activity(idle_s: f64) -> ProcessorActivity {
        ProcessorActivity {
            window_s: 4.0,
            idle_s,
            ..ProcessorActivity::default()
        }
    }

    #[test]
    fn a_processor_that_lost_samples_counts_its_run_time_and_the_others_do_not_change() {
        let rules = Rules::builtin().unwrap();
        let attributor = Attributor::new(KernelSymbols::default(), rules, BTreeSet::new());
        let mut collector = Collector::new(attributor, None, Detail::Files);
        collector.begin(EventKind::CpuNs);
        sampled(&mut collector, 0, 1500, 2500);
        // This processor lost two thirds of its busy samples, and its idle loop has none.
        sampled(&mut collector, 1, 500, 0);
        // Too few samples to show what the processor did in half a second.
        sampled(&mut collector, 2, 3, 0);
        let times = BTreeMap::from([(0, activity(2.5)), (1, activity(2.5)), (2, activity(3.5))]);
        let tally = collector.end(&times);
        let factor = |cpu: usize| tally.processors[&cpu].1.factor;
        assert!((factor(0).unwrap() - 1.0).abs() < 1e-9);
        assert!((factor(1).unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(factor(2), None);
        let of = |cpu: usize| {
            (
                tally.processors[&cpu].1.is_excluded,
                busy(&tally.processors[&cpu].0),
            )
        };
        assert_eq!(of(2), (true, 0.0));
        for cpu in [0, 1] {
            assert!((busy(&tally.processors[&cpu].0) - 1.5e9).abs() < 1.0);
        }
        assert!((tally.busy() - 3e9).abs() < 1.0);
        assert!((tally.idle() - 8.5e9).abs() < 1.0);
        let codes: f64 = tally.codes.values().map(|weight| weight.weight).sum();
        assert!((codes - 3e9 - 2.5e9).abs() < 1.0);
        let difference = |cpu: usize| tally.processors[&cpu].1.difference().unwrap();
        assert!((difference(1) + 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn few_samples_are_scaled_if_they_nearly_show_the_run_time() {
        let rules = Rules::builtin().unwrap();
        let attributor = Attributor::new(KernelSymbols::default(), rules, BTreeSet::new());
        let mut collector = Collector::new(attributor, None, Detail::Files);
        collector.begin(EventKind::CpuNs);
        for number in 0..12 {
            collector.add(&Record::Sample(Sample {
                time_ns: number,
                weight: 10_000_000,
                ..SAMPLE
            }));
        }
        let tally = collector.end(&BTreeMap::from([(0, activity(3.85))]));
        assert!((tally.processors[&0].1.factor.unwrap() - 1.25).abs() < 1e-9);
        assert!((tally.busy() - 0.15e9).abs() < 1.0);
    }

    #[test]
    fn accounts_without_samples_are_not_calibrated() {
        let rules = Rules::builtin().unwrap();
        let attributor = Attributor::new(KernelSymbols::default(), rules, BTreeSet::new());
        let mut collector = Collector::new(attributor, None, Detail::Files);
        collector.begin(EventKind::CpuNs);
        for (layer, weight) in [(Layer::User, 1_500_000_000), (Layer::Idle, 2_500_000_000)] {
            collector.add(&Record::Account {
                time_ns: 0,
                layer,
                weight,
            });
        }
        let tally = collector.end(&BTreeMap::from([(0, activity(2.5))]));
        assert!((tally.busy() - 1.5e9).abs() < 1.0);
        assert!((tally.idle() - 2.5e9).abs() < 1.0);
        assert_eq!(tally.processors[&0].1, Calibration::default());
    }

    #[test]
    fn counted_events_and_short_windows_are_not_calibrated() {
        let rules = Rules::builtin().unwrap();
        let attributor = Attributor::new(KernelSymbols::default(), rules, BTreeSet::new());
        let mut collector = Collector::new(attributor, None, Detail::Files);
        let mut short = activity(0.0);
        short.window_s = 0.05;
        for (event, times) in [
            (EventKind::Cycles, activity(0.0)),
            (EventKind::CpuNs, short),
        ] {
            collector.begin(event);
            sampled(&mut collector, 0, 50, 0);
            let tally = collector.end(&BTreeMap::from([(0, times)]));
            assert_eq!(tally.processors[&0].1.factor, None);
            assert!((tally.busy() - 50e6).abs() < 1.0);
        }
    }
}
