//! Time stamps: the log's `DD/Mon/YYYY:HH:MM:SS zone`, Unix seconds and ISO 8601.

use std::fmt::Write as _;

/// Bytes of a log's time stamp, without the brackets.
pub(crate) const STAMP_BYTES: usize = 26;

/// Bytes of it up to the seconds, `DD/Mon/YYYY:HH:MM:SS`.
pub(crate) const SECONDS_END: usize = 20;

const SECONDS_PER_DAY: i64 = 86_400;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Reads time stamps. Stores the last time stamp and its day, because consecutive lines mostly have
/// the same one.
#[derive(Clone, Debug)]
pub(crate) struct StampReader {
    stamp: [u8; STAMP_BYTES],
    time_s: i64,
    /// Unix time of the local midnight of `stamp`'s day.
    midnight_s: i64,
}

impl Default for StampReader {
    fn default() -> Self {
        Self {
            stamp: *b"01/Jan/1970:00:00:00 +0000",
            time_s: 0,
            midnight_s: 0,
        }
    }
}

impl StampReader {
    /// Unix seconds of a stamp such as `01/Jul/1995:00:00:01 -0400`.
    #[inline]
    pub(crate) fn read(&mut self, stamp: &[u8; STAMP_BYTES]) -> Option<i64> {
        if *stamp == self.stamp {
            return Some(self.time_s);
        }
        let second_of_day = time_of_day(stamp)?;
        if stamp[..12] != self.stamp[..12] || stamp[20..] != self.stamp[20..] {
            self.midnight_s = midnight(stamp)?;
        }
        self.stamp = *stamp;
        self.time_s = self.midnight_s + second_of_day;
        Some(self.time_s)
    }
}

/// Seconds since local midnight from the stamp's `:HH:MM:SS `.
#[inline]
fn time_of_day(stamp: &[u8; STAMP_BYTES]) -> Option<i64> {
    let (hour, minute, second) = (two(stamp, 12)?, two(stamp, 15)?, two(stamp, 18)?);
    let separated = stamp[14] == b':' && stamp[17] == b':' && stamp[20] == b' ';
    let valid = separated && hour < 24 && minute < 60 && second < 60;
    valid.then_some(hour * 3600 + minute * 60 + second)
}

/// Unix time of local midnight from the stamp's `DD/Mon/YYYY:` and zone.
fn midnight(stamp: &[u8; STAMP_BYTES]) -> Option<i64> {
    let day = two(stamp, 0)?;
    let month = MONTHS.iter().position(|name| stamp[3..6] == name[..])? as i64 + 1;
    let year = two(stamp, 7)? * 100 + two(stamp, 9)?;
    let (zone_hours, zone_minutes) = (two(stamp, 22)?, two(stamp, 24)?);
    let separated = stamp[2] == b'/' && stamp[6] == b'/' && stamp[11] == b':';
    let in_month = day >= 1 && day <= days_in_month(year, month);
    if !separated || !in_month || zone_hours > 14 || zone_minutes > 59 {
        return None;
    }
    let zone_s = zone_hours * 3600 + zone_minutes * 60;
    let east_s = match stamp[21] {
        b'+' => zone_s,
        b'-' => -zone_s,
        _ => return None,
    };
    Some(days_from_civil(year, month, day) * SECONDS_PER_DAY - east_s)
}

#[inline]
fn two(stamp: &[u8], at: usize) -> Option<i64> {
    let (tens, ones) = (
        stamp[at].wrapping_sub(b'0'),
        stamp[at + 1].wrapping_sub(b'0'),
    );
    (tens <= 9 && ones <= 9).then_some(i64::from(tens) * 10 + i64::from(ones))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar. Years are counted from 1 March, so
/// that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    // 400 years have 146,097 days. 1970-01-01 is day 719,468 after 0000-03-01.
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days from 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// A time with the parts of its second, if its text has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnixTime {
    pub(crate) s: i64,
    pub(crate) fraction_ns: Option<u32>,
}

/// The last second whose year has four digits.
const LAST_S: i64 = 253_402_300_799;

/// Unix seconds from a number. Numbers too large for the next millennia are milli-, micro- or
/// nanoseconds, as servers also write them. An `f64` has microseconds of today's time.
pub(crate) fn unix_of_number(number: f64) -> Option<UnixTime> {
    let scale = match number {
        n if n < 1e11 => 1.0,
        n if n < 1e14 => 1e3,
        n if n < 1e17 => 1e6,
        _ => 1e9,
    };
    let seconds = number / scale;
    if !(0.0..=LAST_S as f64).contains(&seconds) {
        return None;
    }
    let micros = ((seconds - seconds.floor()) * 1e6) as u32;
    let is_whole = scale == 1.0 && number.fract() == 0.0;
    Some(UnixTime {
        s: seconds as i64,
        fraction_ns: (!is_whole).then_some(micros * 1000),
    })
}

/// Unix time from ISO 8601 with a zone, such as `1995-07-01T00:00:01.25-04:00`.
pub(crate) fn unix_of_iso(text: &[u8]) -> Option<UnixTime> {
    let (head, rest) = text.split_first_chunk::<19>()?;
    let separated = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')]
        .iter()
        .all(|(at, byte)| head[*at] == *byte);
    if !separated || !matches!(head[10], b'T' | b't' | b' ') {
        return None;
    }
    let year = two(head, 0)? * 100 + two(head, 2)?;
    let (month, day) = (two(head, 5)?, two(head, 8)?);
    let (hour, minute, second) = (two(head, 11)?, two(head, 14)?, two(head, 17)?);
    let in_year = (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    if !in_year || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (Some(fraction_ns(&rest[..digits])?), &rest[digits..])
        }
        None => (None, rest),
    };
    let east_s = zone_s(zone)?;
    let midnight_s = days_from_civil(year, month, day) * SECONDS_PER_DAY;
    let s = midnight_s + hour * 3600 + minute * 60 + second - east_s;
    (0..=LAST_S).contains(&s).then_some(UnixTime {
        s,
        fraction_ns: fraction,
    })
}

/// Seconds east of Greenwich of `Z`, `+02:00` or `+0200`.
fn zone_s(zone: &[u8]) -> Option<i64> {
    let (hours, minutes) = match zone {
        b"Z" | b"z" => return Some(0),
        [_, _, _, b':', _, _] => (two(zone, 1)?, two(zone, 4)?),
        [_, _, _, _, _] => (two(zone, 1)?, two(zone, 3)?),
        _ => return None,
    };
    if hours > 14 || minutes > 59 {
        return None;
    }
    match zone[0] {
        b'+' => Some(hours * 3600 + minutes * 60),
        b'-' => Some(-(hours * 3600 + minutes * 60)),
        _ => None,
    }
}

/// Nanoseconds from the one to nine digits after a point.
pub(crate) fn fraction_ns(digits: &[u8]) -> Option<u32> {
    if !(1..=9).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number: u32, digit| {
        number * 10 + u32::from(digit - b'0')
    });
    Some(number * 10_u32.pow(9 - digits.len() as u32))
}

/// Appends a log's time stamp in UTC, without brackets. The year has to have four digits.
pub(crate) fn push_stamp(text: &mut String, time_s: i64) {
    let (year, month, day) = civil_from_days(time_s.div_euclid(SECONDS_PER_DAY));
    let second = time_s.rem_euclid(SECONDS_PER_DAY);
    let name = String::from_utf8_lossy(MONTHS[(month - 1) as usize]);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"
    );
}

/// A time in ISO 8601, in UTC with whole seconds, such as `1995-07-01T04:00:01Z`.
pub(crate) fn iso(time_s: i64) -> String {
    let (year, month, day) = civil_from_days(time_s.div_euclid(SECONDS_PER_DAY));
    let second = time_s.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(stamp: &str) -> Option<i64> {
        StampReader::default().read(stamp.as_bytes().try_into().unwrap())
    }

    #[test]
    fn the_first_line_of_the_nasa_log_was_written_at_804571201() {
        assert_eq!(read("01/Jul/1995:00:00:01 -0400"), Some(804_571_201));
        assert_eq!(iso(804_571_201), "1995-07-01T04:00:01Z");
    }

    #[test]
    fn a_day_that_does_not_exist_is_not_a_time() {
        assert_eq!(read("29/Feb/2024:12:00:00 +0000"), Some(1_709_208_000));
        assert_eq!(read("29/Feb/2023:12:00:00 +0000"), None);
        assert_eq!(read("31/Apr/1995:00:00:00 -0400"), None);
        assert_eq!(read("00/Apr/1995:00:00:00 -0400"), None);
        assert_eq!(read("01/Apr/1995:24:00:00 -0400"), None);
        assert_eq!(read("01/apr/1995:00:00:00 -0400"), None);
        assert_eq!(read("01/Apr/1995:00:00:00 00400"), None);
    }

    #[test]
    fn a_rejected_stamp_does_not_change_the_reader() {
        let mut reader = StampReader::default();
        let good = |stamp: &str| <[u8; 26]>::try_from(stamp.as_bytes()).unwrap();
        assert!(reader.read(&good("01/Jul/1995:00:00:01 -0400")).is_some());
        assert!(reader.read(&good("99/Jul/1995:00:00:02 -0400")).is_none());
        assert_eq!(
            reader.read(&good("01/Jul/1995:00:00:03 -0400")),
            Some(804_571_203)
        );
        assert_eq!(
            reader.read(&good("01/Jul/1995:00:00:03 +0000")),
            Some(804_556_803)
        );
    }

    #[test]
    fn a_time_of_a_json_log_has_the_parts_of_its_second() {
        let iso = |text: &str| unix_of_iso(text.as_bytes()).map(|time| (time.s, time.fraction_ns));
        let first = 804_571_201;
        assert_eq!(
            iso("1995-07-01T00:00:01.25-04:00"),
            Some((first, Some(250_000_000)))
        );
        assert_eq!(iso("1995-07-01T04:00:01Z"), Some((first, None)));
        assert_eq!(
            iso("1995-07-01 04:00:01.000000001+0000"),
            Some((first, Some(1)))
        );
        for text in [
            "1995-07-01T04:00:01",
            "1995-02-29T04:00:01Z",
            "1995-07-01T04:00:01.Z",
        ] {
            assert_eq!(iso(text), None, "{text}");
        }
        let number = |number| unix_of_number(number).map(|time| (time.s, time.fraction_ns));
        assert_eq!(number(804_571_201.0), Some((first, None)));
        assert_eq!(number(804_571_201.25), Some((first, Some(250_000_000))));
        assert_eq!(number(804_571_201_250.0), Some((first, Some(250_000_000))));
        assert_eq!(number(-1.0), None);
        assert_eq!(number(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn a_stamp_written_is_read_back(time_s in -60_000_000_000i64..250_000_000_000) {
            let mut text = String::new();
            push_stamp(&mut text, time_s);
            prop_assert_eq!(read(&text), Some(time_s));
        }
    }
}
