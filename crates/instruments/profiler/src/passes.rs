//! The data from which a report is computed: the passes of a window, and their context.

use perpacket_cost::{EventKind, Window};

use crate::capture::{Backend, GroupCounts};
use crate::cgroup::Selector;
use crate::collector::Collector;
use crate::count::Activity;
use crate::report::Cost;
use crate::statistics::{neighbour_correlation, share};
use crate::sums::{Sums, busy, measured_layers};
use crate::tally::Tally;

/// Nanoseconds of a second.
pub(crate) const SECOND_NS: f64 = 1e9;

/// One pass over one window: costs and activity.
#[derive(Clone, Debug)]
pub struct PassResult {
    /// The sums of the samples.
    pub tally: Tally,
    /// Packets, faults and other activity.
    pub activity: Activity,
    /// The counts of the event group.
    pub group: GroupCounts,
}

impl PassResult {
    pub(crate) fn empty() -> Self {
        Self {
            tally: Tally::new(EventKind::CpuNs),
            activity: Activity::default(),
            group: GroupCounts::default(),
        }
    }
}

/// The data that a report needs besides the passes.
pub struct Context<'a> {
    /// The source of the samples.
    pub backend: Backend,
    /// The processors.
    pub cpus: &'a [usize],
    /// Whether these processors are all that are online.
    pub all_cpus: bool,
    /// Symbols, processes and stacks.
    pub collector: &'a Collector,
    /// Processor time that the profiling process used in the window.
    pub own_cpu_s: f64,
    /// The chosen control groups.
    pub selector: Option<&'a Selector>,
    /// The server, if one was named.
    pub server_pid: Option<u32>,
    /// Whether the functions of user code are looked up for the parts of the application.
    pub names_parts: bool,
    /// Exit status of the command.
    pub exit_status: Option<i32>,
    /// Planned number of passes.
    pub planned_passes: usize,
    /// Events without a pass, because the machine does not count them.
    pub lacking: &'a [EventKind],
    /// Whether the timer samples the kernel, user code and the idle loop.
    pub samples_all: bool,
    /// Number of samples a second on each processor.
    pub frequency_hz: u32,
}

/// All passes, and the pass from which shares are computed.
pub(crate) struct Passes<'a> {
    pub all: &'a [PassResult],
    pub main: &'a PassResult,
    /// That of neighbouring slices of the main pass.
    correlation: f64,
}

impl<'a> Passes<'a> {
    /// The data of a window without a pass.
    pub fn none(empty: &'a PassResult) -> Self {
        Self {
            all: std::slice::from_ref(empty),
            main: empty,
            correlation: 0.0,
        }
    }

    /// Shares are computed from cycles if they were counted, else from time.
    pub fn new(all: &'a [PassResult]) -> Option<Self> {
        let of = |event| all.iter().find(|pass| pass.tally.event == event);
        let main = of(EventKind::Cycles)
            .or_else(|| of(EventKind::CpuNs))
            .or(all.first())?;
        let slices = &main.tally.slices;
        let layers = measured_layers().map(|layer| {
            let of_layer = move |sums: &Sums| sums.cells[layer].iter().map(|(_, &ns)| ns).sum();
            slices
                .values()
                .map(move |sums| (of_layer(sums), busy(sums)))
        });
        Some(Self {
            all,
            main,
            correlation: neighbour_correlation(layers),
        })
    }

    pub fn of(&self, event: EventKind) -> Option<&'a PassResult> {
        self.all.iter().find(|pass| pass.tally.event == event)
    }

    /// The cost that belongs to the sum which `select` returns.
    pub fn cost(&self, select: &dyn Fn(&Sums) -> f64) -> Cost {
        let slices = self.main.tally.slices.values();
        let estimate = share(
            slices.map(|sums| (select(sums), busy(sums))),
            self.correlation,
        );
        Cost {
            share: estimate.value,
            low: estimate.bounds.map(|(low, _)| low),
            high: estimate.bounds.map(|(_, high)| high),
            ..self.amounts(&|tally| select(&tally.sums))
        }
    }

    /// Amounts of every event, for each packet and each request.
    pub fn amounts(&self, amount: &dyn Fn(&Tally) -> f64) -> Cost {
        let per_packet = |event| {
            let pass = self.of(event)?;
            per(amount(&pass.tally), pass.activity.window.packets.total())
        };
        let time = self.of(EventKind::CpuNs);
        Cost {
            cpu_s: time.map(|pass| self.seconds(amount(&pass.tally))),
            cpu_ns_per_packet: per_packet(EventKind::CpuNs),
            cpu_ns_per_request: time
                .and_then(|pass| per(amount(&pass.tally), pass.activity.window.requests?)),
            cycles_per_packet: per_packet(EventKind::Cycles),
            instructions_per_packet: per_packet(EventKind::Instructions),
            l1i_misses_per_packet: per_packet(EventKind::L1iMisses),
            l1d_misses_per_packet: per_packet(EventKind::L1dMisses),
            llc_misses_per_packet: per_packet(EventKind::LlcMisses),
            itlb_misses_per_packet: per_packet(EventKind::ItlbMisses),
            dtlb_misses_per_packet: per_packet(EventKind::DtlbMisses),
            branch_misses_per_packet: per_packet(EventKind::BranchMisses),
            ..Cost::default()
        }
    }

    /// Seconds in the whole window, from nanoseconds in the pass that samples time.
    pub fn seconds(&self, ns: f64) -> f64 {
        let whole_s: f64 = self.windows().map(|window| window.duration_s).sum();
        let pass_s = self
            .of(EventKind::CpuNs)
            .map_or(0.0, |pass| pass.activity.window.duration_s);
        ns / SECOND_NS * if pass_s > 0.0 { whole_s / pass_s } else { 1.0 }
    }

    pub fn sum(&self, count: impl Fn(&PassResult) -> u64) -> u64 {
        self.all.iter().map(count).sum()
    }

    /// The activity of each pass.
    pub fn windows(&self) -> impl Iterator<Item = &'a Window> + use<'a> {
        self.all.iter().map(|pass| &pass.activity.window)
    }

    pub fn sum_windows(&self, count: impl Fn(&Window) -> u64) -> u64 {
        self.windows().map(count).sum()
    }
}

/// An amount divided by a count; `None` if the count is zero.
pub(crate) fn per(amount: f64, number: u64) -> Option<f64> {
    (number > 0).then(|| amount / number as f64)
}

/// A part of a whole as a fraction. It is 0 if the whole is 0.
pub(crate) fn part(amount: f64, whole: f64) -> f64 {
    if whole > 0.0 { amount / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_those_of_the_window_that_several_passes_divide() {
        let pass = |event, duration_s| {
            let mut pass = PassResult::empty();
            pass.tally = Tally::new(event);
            pass.activity.window.duration_s = duration_s;
            pass
        };
        let all = [pass(EventKind::CpuNs, 2.0), pass(EventKind::Cycles, 4.0)];
        assert!((Passes::new(&all).unwrap().seconds(1e9) - 3.0).abs() < 1e-9);
        assert!((Passes::new(&all[..1]).unwrap().seconds(1e9) - 1.0).abs() < 1e-9);
    }
}
