//! The Range header in normal play time (RFC 2326, section 3.6).

use thiserror::Error;

/// A part of a medium, in nanoseconds from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The start; `None` is the current position.
    pub start_ns: Option<u64>,
    /// The end; `None` is the end of the medium.
    pub end_ns: Option<u64>,
}

/// The Range header is not in normal play time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("range `{value}`, expected `npt=START-END` in seconds or h:mm:ss")]
pub struct RangeError {
    /// The header, shortened.
    pub value: String,
}

impl Range {
    /// Parses a Range header.
    ///
    /// # Errors
    /// The range is malformed, in other units, or ends before it starts.
    pub fn parse(value: &str) -> Result<Self, RangeError> {
        let error = || RangeError {
            value: value.chars().take(60).collect(),
        };
        // The parameter `time`, which schedules a later start, is ignored.
        let range = value.split(';').next().unwrap_or_default().trim();
        let (start, end) = range
            .strip_prefix("npt=")
            .and_then(|times| times.split_once('-'))
            .ok_or_else(error)?;
        let (start, end) = (start.trim(), end.trim());
        if start.is_empty() && end.is_empty() {
            return Err(error());
        }
        let time = |text: &str| match text {
            "" | "now" => Ok(None),
            _ => time_ns(text).map(Some).ok_or_else(error),
        };
        let range = Self {
            start_ns: time(start)?,
            end_ns: time(end)?,
        };
        match (range.start_ns, range.end_ns) {
            (Some(start), Some(end)) if end <= start => Err(error()),
            _ => Ok(range),
        }
    }

    /// The value of a Range header.
    pub fn text(start_ns: u64, end_ns: u64) -> String {
        format!(
            "npt={:.6}-{:.6}",
            start_ns as f64 / 1e9,
            end_ns as f64 / 1e9
        )
    }
}

/// `SECONDS[.FRACTION]` or `HOURS:MINUTES:SECONDS[.FRACTION]`.
fn time_ns(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [seconds] => ("0", "0", seconds),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let number = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let mut fraction_ns = 0;
    if !fraction.is_empty() {
        number(fraction)?;
        let digits: String = fraction
            .chars()
            .chain("000000000".chars())
            .take(9)
            .collect();
        fraction_ns = number(&digits)?;
    }
    let seconds = number(hours)?
        .checked_mul(3600)?
        .checked_add(number(minutes)?.checked_mul(60)?)?
        .checked_add(number(whole)?)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(value: &str) -> (Option<f64>, Option<f64>) {
        let range = Range::parse(value).unwrap();
        let time = |time_ns: Option<u64>| time_ns.map(|time_ns| time_ns as f64 / 1e9);
        (time(range.start_ns), time(range.end_ns))
    }

    #[test]
    fn the_examples_of_the_rfc_are_parsed() {
        assert_eq!(seconds("npt=123.45-125"), (Some(123.45), Some(125.0)));
        assert_eq!(seconds("npt=12:05:35.3-"), (Some(43_535.3), None));
        assert_eq!(seconds("npt=now-"), (None, None));
        assert_eq!(seconds("npt=0-;time=19970123T143720Z"), (Some(0.0), None));
    }

    #[test]
    fn other_units_and_backward_ranges_are_errors() {
        for value in [
            "smpte=10:07:00-10:07:33",
            "clock=19961108T142300Z-",
            "npt=-",
            "npt=5-5",
            "npt=5-2",
            "npt=1:2-",
            "npt=-1-2",
            "npt=1e5-",
            "npt=99999999999999999999-",
        ] {
            assert!(Range::parse(value).is_err(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_written_range_is_read_back(start in 0u64..86_400_000_000, length in 1u64..86_400_000_000) {
            let (start_ns, end_ns) = (start * 1000, (start + length) * 1000);
            let read = Range::parse(&Range::text(start_ns, end_ns)).unwrap();
            prop_assert!(read.start_ns.unwrap().abs_diff(start_ns) <= 1000);
            prop_assert!(read.end_ns.unwrap().abs_diff(end_ns) <= 1000);
        }

        #[test]
        fn any_text_is_a_range_or_an_error(value: String) {
            let _ = Range::parse(&value);
        }
    }
}
