//! Events by layer and kind in one window, and the activity in that window.
//!
//! A measured and a simulated profile are the same type, so that one table can contain both.

use serde::Serialize;

use crate::category::Category;
use crate::event::{EventKind, Kind, PerKind};
use crate::host_stack::HostStack;
use crate::layer::{Layer, PerLayer, Region};

/// A count for each direction, as seen from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Directions {
    /// Sent by the host.
    pub sent: u64,
    /// Received by the host.
    pub received: u64,
}

impl Directions {
    /// The sum over both directions.
    pub const fn total(self) -> u64 {
        self.sent + self.received
    }

    /// The counts since an earlier read.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
        }
    }
}

/// Activity in a window: packets, requests, faults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Length of the window.
    pub duration_s: f64,
    /// Frames at the interfaces. A frame over loopback is both sent and received.
    pub packets: Directions,
    /// TCP segments as the protocol counts them: sent ones as links carry them, received ones after
    /// receive offload.
    pub segments: Directions,
    /// Bytes of the frames, headers included.
    pub bytes: Directions,
    /// Requests that the server answered, if they were counted.
    pub requests: Option<u64>,
    /// Switches from one thread to another.
    pub context_switches: u64,
    /// Page faults, minor and major.
    pub page_faults: u64,
    /// Packets dropped because a queue or buffer was full.
    pub drops: u64,
}

/// Events by layer and kind in one window. The unit is that of `event`.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The counted event.
    pub event: EventKind,
    /// The amount by layer and kind, idle time included.
    pub counts: PerLayer<PerKind<f64>>,
    /// Activity in the same window.
    pub window: Window,
}

impl Profile {
    /// An empty profile.
    pub fn new(event: EventKind, window: Window) -> Self {
        Self {
            event,
            counts: PerLayer::default(),
            window,
        }
    }

    /// Every layer and kind with its count.
    pub fn cells(&self) -> impl Iterator<Item = (Layer, Kind, f64)> {
        self.counts
            .iter()
            .flat_map(|(layer, kinds)| kinds.iter().map(move |(kind, &count)| (layer, kind, count)))
    }

    /// The sum over the cells that `chosen` accepts.
    pub fn sum(&self, chosen: impl Fn(Layer, Kind) -> bool) -> f64 {
        self.cells()
            .filter(|&(layer, kind, _)| chosen(layer, kind))
            .map(|(_, _, count)| count)
            .sum()
    }

    /// The sum of everything except the idle loop. Shares are fractions of this sum.
    pub fn busy(&self) -> f64 {
        self.sum(|layer, _| layer != Layer::Idle)
    }

    /// The cost of a layer.
    pub fn layer(&self, layer: Layer) -> f64 {
        self.sum(|other, _| other == layer)
    }

    /// The cost of a region of TR05-450, without idle time.
    pub fn region(&self, region: Region) -> f64 {
        self.sum(|layer, _| layer != Layer::Idle && layer.region() == region)
    }

    /// The cost of a category of the SIGCOMM 2021 study, without idle time.
    pub fn host_stack(&self, category: HostStack) -> f64 {
        self.sum(|layer, kind| layer != Layer::Idle && HostStack::of(layer, kind) == category)
    }

    /// The cost of a category of *Communication Breakdown*, computed from layers alone. All user
    /// code counts as the server's. The kernel's memory, file systems and file service have no
    /// layers of their own, so they count as the kernel's other work.
    pub fn category(&self, category: Category) -> f64 {
        self.sum(|layer, _| Category::of(layer) == category)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let mut profile = Profile::new(EventKind::CpuNs, Window::default());
        for (place, layer) in Layer::ALL.into_iter().enumerate() {
            for (step, kind) in Kind::ALL.into_iter().enumerate() {
                profile.counts[layer][kind] = (place * 10 + step) as f64;
            }
        }
        profile
    }

    #[test]
    fn every_grouping_sums_to_the_busy_total() {
        let profile = profile();
        let busy = profile.busy();
        let regions: f64 = Region::ALL
            .map(|region| profile.region(region))
            .iter()
            .sum();
        let stack: f64 = HostStack::ALL
            .iter()
            .map(|&category| profile.host_stack(category))
            .sum();
        let categories: f64 = Category::ALL
            .iter()
            .filter(|&&category| category != Category::Idle)
            .map(|&category| profile.category(category))
            .sum();
        assert_eq!([regions, stack, categories], [busy; 3]);
        assert_eq!(busy + profile.layer(Layer::Idle), profile.sum(|_, _| true));
    }
}
