//! HTTP dates: formatted as IMF-fixdate, parsed in all three forms (RFC 9110, section 5.6.7).

/// Bytes of an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The last second of the year 9999, the latest that four digits can express.
const LAST_SECOND: i64 = 253_402_300_799;

/// An IMF-fixdate of seconds since 1970; times outside the years 1970 to 9999 are clamped.
#[must_use]
pub fn format_date(unix_s: i64) -> [u8; DATE_BYTES] {
    let unix_s = unix_s.clamp(0, LAST_SECOND);
    let (days, second_of_day) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil_from_days(days);
    let text = format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[((days + 4) % 7) as usize],
        MONTHS[month as usize - 1],
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    let mut date = [b' '; DATE_BYTES];
    date.copy_from_slice(&text.as_bytes()[..DATE_BYTES]);
    date
}

/// The Unix time of a date in any of the three forms, in seconds; `None` for any other text.
///
/// The two-digit years of RFC 850 mean 1970 to 2069.
#[must_use]
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let mut fields = [""; 7];
    let mut count = 0;
    for field in text
        .split([' ', ',', '-'])
        .filter(|field| !field.is_empty())
    {
        *fields.get_mut(count)? = field;
        count += 1;
    }
    let (day, month, year, clock) = match (count, fields[4]) {
        (6, clock) if fields[5] == "GMT" => (fields[1], fields[2], fields[3], clock),
        (5, year) => (fields[2], fields[1], year, fields[3]),
        _ => return None,
    };
    if !DAYS.iter().any(|name| fields[0].starts_with(name)) {
        return None;
    }
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let mut year = number(year)?;
    if year < 100 {
        year += if year < 70 { 2000 } else { 1900 };
    }
    let day = number(day).filter(|day| (1..=31).contains(day))?;
    let mut clock = clock.splitn(3, ':').map(number);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if hour > 23 || minute > 59 || second > 60 || !(1601..=9999).contains(&year) {
        return None;
    }
    Some(days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn number(text: &str) -> Option<i64> {
    let digits = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Year, month and day of a day since 1970. The computation starts years in March, so that the leap
/// day comes last, and counts days in eras of 400 years (146,097 days).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_of_the_rfc_are_the_same_second() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(&format_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 24:00:00 GMT",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_date_parses_to_the_same_second(second in 0i64..LAST_SECOND) {
            prop_assert_eq!(parse_date(&format_date(second)), Some(second));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_date(&bytes);
        }
    }
}
