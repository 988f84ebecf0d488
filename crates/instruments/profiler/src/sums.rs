//! Sums of a sampled event by layer, kind and category.

use perpacket_cost::{Category, Charge, Kind, Layer, PerKind, PerLayer};

/// Sums by layer, kind and category.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Sums by layer and kind.
    pub cells: PerLayer<PerKind<f64>>,
    /// Sums by category, in the order of `Category::ALL`.
    pub categories: [f64; Category::ALL.len()],
    /// User code of the server's processes, if there is a server.
    pub server_user: f64,
    /// Work of the chosen control groups, if some were chosen.
    pub chosen: f64,
    /// Work in interrupts, softirqs and kernel threads. It may be for any control group.
    pub shared: f64,
    /// Work in softirqs.
    pub softirq: f64,
}

impl Sums {
    pub(crate) fn add(&mut self, charge: Charge, weight: f64) {
        self.cells[charge.layer][charge.kind] += weight;
        self.categories[charge.category as usize] += weight;
    }

    /// Adds other sums.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (layer, kinds) in other.cells.iter() {
            for (kind, weight) in kinds.iter() {
                self.cells[layer][kind] += weight;
            }
        }
        for (own, more) in self.categories.iter_mut().zip(&other.categories) {
            *own += more;
        }
        self.server_user += other.server_user;
        self.chosen += other.chosen;
        self.shared += other.shared;
        self.softirq += other.softirq;
    }

    /// Multiplies the sums of the layers that `accepts` accepts.
    pub(crate) fn scale(&mut self, factor: f64, accepts: impl Fn(Layer) -> bool) {
        for layer in Layer::ALL.into_iter().filter(|&layer| accepts(layer)) {
            for kind in Kind::ALL {
                self.cells[layer][kind] *= factor;
            }
        }
        let is_idle = |category: &Category| *category == Category::Idle;
        for category in Category::ALL {
            if accepts(Layer::Idle) == is_idle(&category) {
                self.categories[category as usize] *= factor;
            }
        }
        if !accepts(Layer::Idle) {
            for sum in [
                &mut self.server_user,
                &mut self.chosen,
                &mut self.shared,
                &mut self.softirq,
            ] {
                *sum *= factor;
            }
        }
    }
}

/// Everything except the idle loop.
#[must_use]
pub fn busy(sums: &Sums) -> f64 {
    let layers = sums.cells.iter().filter(|(layer, _)| *layer != Layer::Idle);
    layers
        .flat_map(|(_, kinds)| kinds.iter().map(|(_, &weight)| weight))
        .sum()
}

/// The layers of a measurement, from the application down. `bypass`, which only simulated hosts
/// have, and `idle` are excluded.
pub fn measured_layers() -> impl Iterator<Item = Layer> {
    Layer::ALL
        .into_iter()
        .filter(|layer| !matches!(layer, Layer::Bypass | Layer::Idle))
}

/// The sum of a kind over the busy layers.
#[must_use]
pub fn of_kind(sums: &Sums, kind: Kind) -> f64 {
    sums.cells
        .iter()
        .filter(|(layer, _)| *layer != Layer::Idle)
        .map(|(_, kinds)| kinds[kind])
        .sum()
}
