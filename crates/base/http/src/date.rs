//! HTTP dates: formatted as IMF-fixdate, parsed in all three forms (RFC 9110, section 5.6.7).

use std::time::{Duration, UNIX_EPOCH};

/// Bytes of an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// The last second of the year 9999, the latest that four digits can express.
const LAST_SECOND: i64 = 253_402_300_799;

/// An IMF-fixdate of seconds since 1970. Times outside the years 1970 to 9999 are clamped.
pub fn format_date(unix_s: i64) -> [u8; DATE_BYTES] {
    let unix_s = unix_s.clamp(0, LAST_SECOND).unsigned_abs();
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_s));
    text.as_bytes().try_into().unwrap_or([b' '; DATE_BYTES])
}

/// The Unix time in seconds of a date in any of the three forms. `None` for any other text.
///
/// The two-digit years of RFC 850 mean 1970 to 2069.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let text = str::from_utf8(text).ok()?.trim();
    let time = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
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
    fn other_texts_are_not_dates() {
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
