//! HTTP dates (RFC 9110, section 5.6.7).

use super::response::DATE_BYTES;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const SECONDS_PER_DAY: u64 = 86_400;

/// A Unix time as an HTTP date.
pub(crate) fn http_date(unix_s: u64) -> [u8; DATE_BYTES] {
    let (mut day, second) = (unix_s / SECONDS_PER_DAY, unix_s % SECONDS_PER_DAY);
    let weekday = DAYS[(day % 7) as usize];
    let mut year = 1970;
    while day >= days_of_year(year) {
        day -= days_of_year(year);
        year += 1;
    }
    let mut month = 0;
    while day >= days_of_month(year, month) {
        day -= days_of_month(year, month);
        month += 1;
    }
    let text = format!(
        "{weekday}, {:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        day + 1,
        MONTHS[month],
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    text.as_bytes().try_into().unwrap_or([b' '; DATE_BYTES])
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfc_s_example_is_written_as_there() {
        assert_eq!(&http_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&http_date(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&http_date(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
    }
}
