//! Cuts what an event's ring has into records (include/uapi/linux/perf_event.h of Linux).

/// Bytes of a record's header: type, mode and size.
pub const HEADER_BYTES: usize = 8;

/// Cuts bytes into records: for each the place of its header and its length. Ends at the first
/// record that is not whole, which a ring read between head and tail never has.
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
        fn no_bytes_break_the_cutter(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let cut: usize = records(&bytes).map(<[u8]>::len).sum();
            prop_assert!(cut <= bytes.len());
        }
    }
}
