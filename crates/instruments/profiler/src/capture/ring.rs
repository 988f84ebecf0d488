//! Divides the bytes of an event's ring into records (include/uapi/linux/perf_event.h of Linux).

/// Bytes of a record's header: type, mode and size.
pub const HEADER_BYTES: usize = 8;

/// Divides bytes into records and ends at an incomplete record. A ring that was read from tail to
/// head has no incomplete record.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = usize::from(u16::from_ne_bytes(rest.get(6..8)?.try_into().ok()?));
        if size < HEADER_BYTES {
            return None;
        }
        let (record, after) = rest.split_at_checked(size)?;
        rest = after;
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_never_exceed_the_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let total: usize = records(&bytes).map(<[u8]>::len).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
