//! One range of bytes of a representation (RFC 9110, section 14).

use std::ops::Range;

/// The part of a representation that a `Range` field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole representation: the unit is unknown, the field is malformed, or it lists several
    /// ranges.
    Whole,
    /// These bytes of the representation.
    Part(Range<u64>),
    /// The range lies outside the representation.
    Unsatisfiable,
}

/// Parses a `Range` field for a representation of `length` bytes.
///
/// Several ranges select the whole representation, as section 14.2 allows, because a multipart
/// response can be many times as large as the file.
pub fn parse_range(field: &[u8], length: u64) -> Selection {
    let Some(set) = field.trim_ascii().strip_prefix(b"bytes=") else {
        return Selection::Whole;
    };
    let set = set.trim_ascii();
    let Some(dash) = set.iter().position(|&byte| byte == b'-') else {
        return Selection::Whole;
    };
    let (first, last) = (&set[..dash], &set[dash + 1..]);
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Selection::Whole,
        (Some(_), None) if !last.is_empty() => Selection::Whole,
        (Some(first), last) => {
            if first >= length {
                return Selection::Unsatisfiable;
            }
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            Selection::Part(first..end)
        }
        (None, Some(suffix)) if first.is_empty() => {
            if suffix == 0 || length == 0 {
                return Selection::Unsatisfiable;
            }
            Selection::Part(length.saturating_sub(suffix)..length)
        }
        _ => Selection::Whole,
    }
}

/// A decimal number without sign; `u64::MAX` if it does not fit.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        byte.is_ascii_digit().then(|| {
            value
                .saturating_mul(10)
                .saturating_add(u64::from(byte - b'0'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc_select_the_ranges_it_states() {
        let read = |text: &str| parse_range(text.as_bytes(), 10_000);
        assert_eq!(read("bytes=0-499"), Selection::Part(0..500));
        assert_eq!(read("bytes=500-999"), Selection::Part(500..1000));
        assert_eq!(read("bytes=-500"), Selection::Part(9500..10_000));
        assert_eq!(read("bytes=9500-"), Selection::Part(9500..10_000));
        assert_eq!(read("bytes=0-0,-1"), Selection::Whole);
        assert_eq!(read("bytes=10000-"), Selection::Unsatisfiable);
        assert_eq!(read("bytes=-0"), Selection::Unsatisfiable);
        assert_eq!(read("bytes=5-2"), Selection::Whole);
        assert_eq!(read("lines=1-2"), Selection::Whole);
        assert_eq!(read("bytes=1-x"), Selection::Whole);
        assert_eq!(read("bytes=-99999"), Selection::Part(0..10_000));
        assert_eq!(
            read("bytes=3-99999999999999999999999"),
            Selection::Part(3..10_000)
        );
    }

    proptest! {
        #[test]
        fn a_part_is_never_empty_and_lies_within(
            field in "bytes=[0-9,x-]{0,12}", length in 0u64..2000
        ) {
            if let Selection::Part(part) = parse_range(field.as_bytes(), length) {
                prop_assert!(part.start < part.end && part.end <= length);
            }
        }
    }
}
