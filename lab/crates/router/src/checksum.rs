//! The internet checksum, computed and updated.

/// The checksum of `bytes`: the complement of the sum of 16-bit words in one's complement (RFC
/// 1071). If `bytes` contain their own correct checksum, the result is 0.
pub fn checksum(bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut sum: u64 = pairs
        .iter()
        .map(|&pair| u64::from(u16::from_be_bytes(pair)))
        .sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    !fold(sum)
}

/// The checksum after one 16-bit word changed from `old` to `new` (RFC 1624, equation 3). The
/// equation of RFC 1141 is wrong for some sums of zero.
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Adds the carries of a sum of words back to it.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_1071_section_3_sums_to_ddf2() {
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
    }

    #[test]
    fn rfc_1624_section_4_updates_dd2f_to_0000() {
        // For this example, the equation of RFC 1141 gives 0xffff.
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn an_update_equals_a_new_sum(
            mut words in proptest::collection::vec(any::<u16>(), 2..20),
            new: u16,
        ) {
            let bytes = |words: &[u16]| -> Vec<u8> {
                words.iter().flat_map(|word| word.to_be_bytes()).collect()
            };
            // Make the header nonzero. For a header of all zeros, the update gives 0, but a new sum
            // gives 0xffff. Both are zeros of one's complement.
            words[1] |= 1;
            let before = checksum(&bytes(&words));
            let old = std::mem::replace(&mut words[0], new);
            prop_assert_eq!(updated(before, old, new), checksum(&bytes(&words)));
        }
    }
}
