//! The random numbers of an application's pages.

use perpacket_workload::Stream;
use serde::Deserialize;

/// A number that is drawn for each page, from a range or a list. Its distribution is uniform or
/// follows Zipf's law.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Table")]
pub(super) struct Number {
    values: Values,
    /// With Zipf's law: the cumulative probability of each value. Empty if all values are equally
    /// likely.
    cumulative: Vec<f64>,
    /// Whether a session uses one value that no other session has at the same time.
    pub(super) alone: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    /// All integers from the first to the last.
    Range(i64, i64),
    List(Vec<i64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    first: Option<i64>,
    last: Option<i64>,
    values: Option<Vec<i64>>,
    /// Whether the `r`-th value, counted from 1, has a probability proportional to `1 / r`.
    #[serde(default)]
    zipf: bool,
    /// Whether a session uses one value that no other session has at the same time.
    #[serde(default)]
    alone: bool,
}

/// Maximum number of values of a number that follows Zipf's law or is unique to a session.
const MAX_LISTED: usize = 1_000_000;

impl TryFrom<Table> for Number {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        let values = match (table.first, table.last, table.values) {
            (Some(first), Some(last), None) if first <= last => Values::Range(first, last),
            (Some(first), Some(last), None) => {
                return Err(format!(
                    "last is {last}, expected at least {first}, the value of first"
                ));
            }
            (None, None, Some(list)) if !list.is_empty() => Values::List(list),
            _ => return Err("expected first and last, or a list of values".to_owned()),
        };
        let mut number = Self {
            values,
            cumulative: Vec::new(),
            alone: table.alone,
        };
        let count = number.count();
        if (table.zipf || table.alone) && count > MAX_LISTED as f64 {
            return Err(format!(
                "zipf or alone: expected at most {MAX_LISTED} values"
            ));
        }
        if table.zipf && table.alone {
            return Err("zipf and alone: expected one of them".to_owned());
        }
        if table.zipf {
            let sums = (1..=count as u32).scan(0.0, |sum, rank| {
                *sum += 1.0 / f64::from(rank);
                Some(*sum)
            });
            number.cumulative = sums.collect();
            let total = number.cumulative.last().copied().unwrap_or(1.0);
            for sum in &mut number.cumulative {
                *sum /= total;
            }
        }
        Ok(number)
    }
}

impl Number {
    pub(super) fn count(&self) -> f64 {
        match &self.values {
            Values::Range(first, last) => (last - first) as f64 + 1.0,
            Values::List(list) => list.len() as f64,
        }
    }

    pub(super) fn draw(&self, random: &mut Stream) -> i64 {
        let drawn = random.uniform();
        let place = match self.cumulative.is_empty() {
            true => (drawn * self.count()) as i64,
            false => self.cumulative.partition_point(|sum| *sum <= drawn) as i64,
        };
        self.value(place)
    }

    fn value(&self, place: i64) -> i64 {
        match &self.values {
            Values::Range(first, last) => (first + place).min(*last),
            Values::List(list) => list[(place as usize).min(list.len() - 1)],
        }
    }

    /// The values of one thread, which no other thread has: every `step`-th value, starting at
    /// `place`.
    pub(super) fn every(&self, place: u32, step: u32) -> Vec<i64> {
        let places = (i64::from(place)..self.count() as i64).step_by(step as usize);
        places.map(|place| self.value(place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<Number, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_value_by_zipf_is_twice_as_frequent_as_the_second() {
        let number = number("values = [4, 3, 5]\nzipf = true").unwrap();
        let mut random = Stream::new(1, "numbers");
        let mut counts = [0u32; 6];
        for _ in 0..11_000 {
            counts[number.draw(&mut random) as usize] += 1;
        }
        // 6/11, 3/11 and 2/11 of the draws, within five standard deviations (52, 47 and 40).
        for (value, expected, within) in [(4, 6000, 260), (3, 3000, 235), (5, 2000, 200)] {
            assert!(counts[value].abs_diff(expected) < within, "{counts:?}");
        }
    }

    #[test]
    fn a_number_has_a_range_or_a_list() {
        for (text, problem) in [
            (
                "first = 2\nlast = 1",
                "last is 1, expected at least 2, the value of first",
            ),
            ("first = 2", "expected first and last, or a list"),
            ("values = []", "expected first and last, or a list"),
            (
                "first = 0\nlast = 9_000_000\nzipf = true",
                "at most 1000000 values",
            ),
            (
                "first = 0\nlast = 9\nzipf = true\nalone = true",
                "zipf and alone: expected one",
            ),
        ] {
            let error = number(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
