//! Confidence intervals of shares.
//!
//! Samples are not independent, because a packet's work comes in bursts. So the window is divided
//! into slices of a tenth of a second. The interval comes from the variance of the ratio estimator
//! over these slices. This is the method of batch means (Law, *Simulation Modeling and Analysis*,
//! 9.5.3).
//!
//! Neighbouring slices are often alike too. Their correlation widens the intervals, as it does those
//! of the windows of a run. `python/perpacket/analysis/statistics.py` has the same formulas, with
//! their sources; `benches/window_intervals.py` compares them with others.

use std::f64::consts::PI;

/// A share with its 95 % interval. The bounds are absent if there were too few slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The estimate.
    pub value: f64,
    /// The interval's bounds.
    pub bounds: Option<(f64, f64)>,
}

/// Smallest number of slices for which their spread is estimated.
const MIN_SLICES: usize = 4;

/// Greater correlations of neighbours are replaced by this, which doubles the width of an interval.
const MOST_CORRELATION: f64 = 0.6;

/// The correlation of neighbouring slices, as the mean over all layers, because a few slices
/// determine that of a single layer badly. `layers` has the slices of each layer, as for [`share`].
/// The result is from 0 to 0.6.
pub fn neighbour_correlation<S>(layers: impl Iterator<Item = S>) -> f64
where
    S: Iterator<Item = (f64, f64)> + Clone,
{
    let estimates: Vec<f64> = layers
        .filter_map(|slices| own_correlation(&slices))
        .collect();
    let mean = estimates.iter().sum::<f64>() / estimates.len().max(1) as f64;
    mean.clamp(0.0, MOST_CORRELATION)
}

/// The correlation of the neighbours of one series of slices, without the bias of a short series.
fn own_correlation(slices: &(impl Iterator<Item = (f64, f64)> + Clone)) -> Option<f64> {
    let sum = |select: fn((f64, f64)) -> f64| slices.clone().map(select).sum::<f64>();
    let value = sum(|(part, _)| part) / sum(|(_, whole)| whole);
    let distances: Vec<f64> = slices
        .clone()
        .map(|(part, whole)| part - value * whole)
        .collect();
    let squares: f64 = distances.iter().map(|distance| distance.powi(2)).sum();
    if distances.len() < MIN_SLICES || squares.is_nan() || squares <= 0.0 {
        return None;
    }
    let products: f64 = distances.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = products / squares;
    Some(correlation + (1.0 + 4.0 * correlation) / distances.len() as f64)
}

/// The share of a part in a whole. `slices` has the part and the whole of each slice. The share is
/// zero if the whole is zero. `correlation` is that of neighbouring slices.
pub fn share(slices: impl Iterator<Item = (f64, f64)> + Clone, correlation: f64) -> Share {
    let mut n = 0_usize;
    let (mut parts, mut wholes) = (0.0, 0.0);
    for (part, whole) in slices.clone() {
        n += 1;
        parts += part;
        wholes += whole;
    }
    if wholes <= 0.0 {
        return Share {
            value: 0.0,
            bounds: None,
        };
    }
    let value = parts / wholes;
    if n < MIN_SLICES {
        return Share {
            value,
            bounds: None,
        };
    }
    let squares: f64 = slices
        .map(|(part, whole)| (part - value * whole).powi(2))
        .sum();
    let count = n as f64;
    let independent = count * (1.0 - correlation) / (1.0 + correlation);
    let error = count * (squares / (count - 1.0) / independent).sqrt() / wholes;
    let degrees = (independent - 1.0).max((count - 1.0) / 2.0);
    let half = student_t_975(degrees as usize) * error;
    Share {
        value,
        bounds: Some(((value - half).max(0.0), (value + half).min(1.0))),
    }
}

/// The 0.975 quantile of Student's t. It is exact for one and two degrees of freedom. From three
/// degrees on it has four digits, from the expansion of Hill, *Communications of the ACM* 13(10),
/// algorithm 396.
#[must_use]
pub fn student_t_975(degrees: usize) -> f64 {
    let p = 0.05;
    match degrees {
        0 => f64::INFINITY,
        1 => 1.0 / (p * PI / 2.0).tan(),
        2 => (2.0 / (p * (2.0 - p)) - 2.0).sqrt(),
        _ => {
            let n = degrees as f64;
            let a = 1.0 / (n - 0.5);
            let b = 48.0 / (a * a);
            let mut c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
            let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * PI / 2.0).sqrt() * n;
            let mut y = (d * p).powf(2.0 / n);
            if y > 0.05 + a {
                // The normal quantile at 0.025.
                let x: f64 = -1.959_963_984_540_054;
                y = x * x;
                if degrees < 5 {
                    c += 0.3 * (n - 4.5) * (x + 0.6);
                }
                c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
                y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
                y = (a * y * y).exp_m1();
            } else {
                let first = 1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0);
                y = ((first + 0.5 / (n + 4.0)) * y - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / y;
            }
            (n * y).sqrt()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_those_of_the_tables() {
        let table = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (19, 2.093),
            (29, 2.045),
            (99, 1.984),
            (999, 1.962),
        ];
        for (degrees, expected) in table {
            let quantile = student_t_975(degrees);
            assert!((quantile - expected).abs() < 2e-3, "{degrees}: {quantile}");
        }
    }

    #[test]
    fn slices_that_agree_have_no_spread_and_others_do() {
        let same = share([(1.0, 4.0); 8].into_iter(), 0.0);
        assert_eq!((same.value, same.bounds), (0.25, Some((0.25, 0.25))));
        let apart = share(
            [(1.0, 4.0), (3.0, 4.0), (1.0, 4.0), (3.0, 4.0)].into_iter(),
            0.0,
        );
        let (low, high) = apart.bounds.unwrap();
        assert!(low < 0.3 && high > 0.7);
    }

    /// The expected values are those of `neighbour_correlation` in `statistics.py`.
    #[test]
    fn the_correlation_of_neighbours_is_that_of_all_layers() {
        let slow = [1.0, 2.0, 3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 1.0];
        let fast = [5.0, 3.0, 4.0, 4.0, 5.0, 3.0, 3.0, 4.0, 5.0, 5.0, 3.0, 4.0];
        let of = |values: &[f64]| {
            let slices: Vec<_> = values.iter().map(|&value| (value, 10.0)).collect();
            slices.into_iter()
        };
        for (layers, expected) in [
            (vec![of(&slow)], 0.23),
            (vec![of(&fast)], 0.0),
            (vec![of(&slow), of(&fast)], 0.22 / 3.0),
        ] {
            let found = neighbour_correlation(layers.into_iter());
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        let (alone, alike) = (share(of(&slow), 0.0), share(of(&slow), 0.6));
        let width = |share: &Share| share.bounds.map(|(low, high)| high - low).unwrap();
        assert!(width(&alike) > 2.0 * width(&alone));
    }

    #[test]
    fn a_few_slices_bound_nothing() {
        assert_eq!(share([(1.0, 2.0); 3].into_iter(), 0.0).bounds, None);
        assert_eq!(share(std::iter::empty(), 0.0).value, 0.0);
    }
}
