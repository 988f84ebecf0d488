//! The busiest second of a trace.

/// Number of seconds for which a count is stored. Times may be out of order by some minutes,
/// because a server logs a request when the response ends.
const WINDOW_S: usize = 4096;

/// Counts requests by second in a sliding window, so that memory does not grow with the trace.
///
/// If a second reappears after more than [`WINDOW_S`] other seconds, its count starts at 0 again.
/// This happens if files are joined in the wrong order.
#[derive(Clone, Debug)]
pub(crate) struct Peak {
    counts: Vec<u64>,
    latest_s: i64,
    peak: u64,
}

impl Peak {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; WINDOW_S],
            latest_s: i64::MIN,
            peak: 0,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, time_s: i64) {
        if time_s > self.latest_s || time_s <= self.latest_s - WINDOW_S as i64 {
            self.advance_to(time_s);
        }
        let count = &mut self.counts[time_s.rem_euclid(WINDOW_S as i64) as usize];
        *count += 1;
        self.peak = self.peak.max(*count);
    }

    /// Moves the window, and clears the counts of seconds that leave it.
    fn advance_to(&mut self, time_s: i64) {
        let ahead = time_s.saturating_sub(self.latest_s);
        if (1..WINDOW_S as i64).contains(&ahead) {
            for second in self.latest_s + 1..=time_s {
                self.counts[second.rem_euclid(WINDOW_S as i64) as usize] = 0;
            }
        } else {
            self.counts.fill(0);
        }
        self.latest_s = time_s;
    }

    /// Maximum number of requests in one second.
    pub(crate) fn requests(&self) -> u64 {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(times_s: &[i64]) -> u64 {
        let mut peak = Peak::new();
        times_s.iter().for_each(|time_s| peak.add(*time_s));
        peak.requests()
    }

    #[test]
    fn times_out_of_order_count_in_their_own_second() {
        assert_eq!(peak(&[10, 11, 10, 12, 10]), 3);
        assert_eq!(peak(&[]), 0);
    }

    #[test]
    fn seconds_with_the_same_index_have_separate_counts() {
        let apart = WINDOW_S as i64;
        assert_eq!(peak(&[0, 0, apart, apart, 2 * apart]), 2);
        assert_eq!(peak(&[5, apart + 4, 5]), 2);
        assert_eq!(peak(&[-1, -1, 1 << 40, -1]), 2);
    }
}
