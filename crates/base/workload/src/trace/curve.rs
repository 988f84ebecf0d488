//! The inequality of a trace's sessions: the shares of packets and bytes that the shortest sessions
//! have (OSDI 2006, figure 4).

use std::collections::BTreeMap;

use serde::Serialize;

/// Number of steps of the share of sessions from 0 to 1.
const STEPS: u32 = 100;

/// A point of the curve. All its values are shares, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Share of the sessions. These are the sessions with the fewest packets.
    pub sessions: f64,
    /// Their share of the packets that the server sends.
    pub packets: f64,
    /// Their share of the bytes of responses; 0 if no response has bytes.
    pub bytes: f64,
}

/// Numbers of sessions and of their bytes, by number of packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    by_packets: BTreeMap<u64, (u64, u64)>,
}

impl Curve {
    /// Adds a session.
    pub(crate) fn add(&mut self, packets: u64, bytes: u64) {
        let (sessions, sum) = self.by_packets.entry(packets).or_default();
        *sessions += 1;
        *sum += bytes;
    }

    /// The points, including 0 and 1. There are none without sessions. Sessions with the same
    /// number of packets all count with their mean number of bytes.
    pub(crate) fn points(&self) -> Vec<CurvePoint> {
        let mut corners = vec![[0.0; 3]];
        let mut sums = [0.0; 3];
        for (&packets, &(sessions, bytes)) in &self.by_packets {
            let sessions = sessions as f64;
            sums[0] += sessions;
            sums[1] += sessions * packets as f64;
            sums[2] += bytes as f64;
            corners.push(sums);
        }
        if corners.len() == 1 {
            return Vec::new();
        }
        let share = |value: f64, total: f64| if total > 0.0 { value / total } else { 0.0 };
        (0..=STEPS)
            .map(|step| {
                let sessions = f64::from(step) / f64::from(STEPS);
                let wanted = sessions * sums[0];
                let after = corners
                    .partition_point(|corner| corner[0] < wanted)
                    .clamp(1, corners.len() - 1);
                let (low, high) = (corners[after - 1], corners[after]);
                let part = (wanted - low[0]) / (high[0] - low[0]);
                let at = |column: usize| low[column] + part * (high[column] - low[column]);
                CurvePoint {
                    sessions,
                    packets: share(at(1), sums[1]),
                    bytes: share(at(2), sums[2]),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_sessions_have_the_shares_of_the_shorter_half() {
        let mut curve = Curve::default();
        for (packets, bytes) in [(1, 100), (2, 0), (3, 400), (4, 500)] {
            curve.add(packets, bytes);
        }
        let points = curve.points();
        assert_eq!(points.len(), 101);
        let at = |percent: usize| (points[percent].packets, points[percent].bytes);
        assert_eq!(at(0), (0.0, 0.0));
        assert_eq!(at(25), (0.1, 0.1));
        assert_eq!(at(50), (0.3, 0.1));
        assert_eq!(at(75), (0.6, 0.5));
        assert_eq!(at(100), (1.0, 1.0));
    }

    #[test]
    fn equal_sessions_have_equal_shares() {
        let mut curve = Curve::default();
        assert!(curve.points().is_empty());
        (0..7).for_each(|_| curve.add(3, 0));
        for point in curve.points() {
            assert!((point.packets - point.sessions).abs() < 1e-12);
            assert_eq!(point.bytes, 0.0);
        }
    }
}
