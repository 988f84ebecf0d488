//! One range of bytes of a representation (RFC 9110, section 14).

use std::ops::Range;

/// What a `Range` field asks of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All of it: no range, one this server does not know, or several.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that it does not have.
    Unsatisfiable,
}

/// Reads a `Range` field for a representation of `length` bytes.
///
/// Several ranges are answered with the whole, which section 14.2 allows and which spares the
/// server the attacks on multipart answers.
#[must_use]
pub fn read_range(field: &[u8], length: u64) -> Asked {
    let Some(set) = field.trim_ascii().strip_prefix(b"bytes=") else {
        return Asked::Whole;
    };
    let set = set.trim_ascii();
    let Some(dash) = set.iter().position(|&byte| byte == b'-') else {
        return Asked::Whole;
    };
    let (first, last) = (&set[..dash], &set[dash + 1..]);
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Asked::Whole,
        (Some(_), None) if !last.is_empty() => Asked::Whole,
        (Some(first), last) => {
            if first >= length {
                return Asked::Unsatisfiable;
            }
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            Asked::Part(first..end)
        }
        (None, Some(suffix)) if first.is_empty() => {
            if suffix == 0 || length == 0 {
                return Asked::Unsatisfiable;
            }
            Asked::Part(length.saturating_sub(suffix)..length)
        }
        _ => Asked::Whole,
    }
}

/// A number of digits alone; larger than any file where it does not fit.
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
    fn the_examples_of_the_rfc_for_10_000_bytes() {
        let read = |text: &str| read_range(text.as_bytes(), 10_000);
        assert_eq!(read("bytes=0-499"), Asked::Part(0..500));
        assert_eq!(read("bytes=500-999"), Asked::Part(500..1000));
        assert_eq!(read("bytes=-500"), Asked::Part(9500..10_000));
        assert_eq!(read("bytes=9500-"), Asked::Part(9500..10_000));
        assert_eq!(read("bytes=0-0,-1"), Asked::Whole);
        assert_eq!(read("bytes=10000-"), Asked::Unsatisfiable);
        assert_eq!(read("bytes=-0"), Asked::Unsatisfiable);
        assert_eq!(read("bytes=5-2"), Asked::Whole);
        assert_eq!(read("lines=1-2"), Asked::Whole);
        assert_eq!(read("bytes=1-x"), Asked::Whole);
        assert_eq!(read("bytes=-99999"), Asked::Part(0..10_000));
        assert_eq!(
            read("bytes=3-99999999999999999999999"),
            Asked::Part(3..10_000)
        );
    }

    proptest! {
        #[test]
        fn a_part_is_never_empty_and_lies_within(
            field in "bytes=[0-9,x-]{0,12}", length in 0u64..2000
        ) {
            if let Asked::Part(part) = read_range(field.as_bytes(), length) {
                prop_assert!(part.start < part.end && part.end <= length);
            }
        }
    }
}
