//! Source addresses of connections, so that one client machine can represent many.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Maximum number of addresses in a range. A /16 network has that many.
const RANGE_LIMIT: u128 = 65_536;

/// A range of source addresses. If there is none, the kernel chooses the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceAddresses(Option<(IpAddr, u32)>);

/// The text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected ADDRESS or FIRST-LAST of one family, with at most 65536 addresses")]
pub struct SourceError;

impl SourceAddresses {
    /// The address of connection `index`, which counts from 0. Connections use the addresses of the
    /// range in order, and then from the start again.
    pub fn address(&self, index: usize) -> Option<IpAddr> {
        let (first, count) = self.0?;
        let offset = (index % count as usize) as u32;
        Some(match first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + offset).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(offset)).into(),
        })
    }

    /// Number of source addresses.
    pub fn count(&self) -> u64 {
        self.0.map_or(1, |(_, count)| u64::from(count))
    }
}

impl FromStr for SourceAddresses {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let error = || SourceError;
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| error());
        let bits = |address| match address {
            IpAddr::V4(address) => (4, u128::from(address.to_bits())),
            IpAddr::V6(address) => (6, address.to_bits()),
        };
        let (first, last) = (address(first)?, address(last)?);
        let ((family, from), (last_family, to)) = (bits(first), bits(last));
        let count = to.checked_sub(from).ok_or_else(error)?.saturating_add(1);
        if family != last_family || count > RANGE_LIMIT {
            return Err(error());
        }
        Ok(Self(Some((first, count as u32))))
    }
}

perpacket_spec::text! {
    SourceAddresses, "addresses", "10.0.0.2-10.0.0.9";
}

impl fmt::Display for SourceAddresses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => formatter.write_str("any"),
            Some((first, 1)) => write!(formatter, "{first}"),
            Some((first, count)) => match self.address(count as usize - 1) {
                Some(last) => write!(formatter, "{first}-{last}"),
                None => write!(formatter, "{first}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_use_the_addresses_in_turn() {
        let range: SourceAddresses = "127.0.0.254-127.0.1.1".parse().unwrap();
        let addresses: Vec<_> = (0..5)
            .map(|index| range.address(index).unwrap().to_string())
            .collect();
        assert_eq!(
            addresses,
            [
                "127.0.0.254",
                "127.0.0.255",
                "127.0.1.0",
                "127.0.1.1",
                "127.0.0.254"
            ]
        );
        assert_eq!(range.to_string(), "127.0.0.254-127.0.1.1");
    }

    #[test]
    fn a_descending_or_mixed_range_is_refused() {
        for text in [
            "127.0.0.2-127.0.0.1",
            "127.0.0.1-::1",
            "localhost",
            "10.0.0.0-10.255.0.0",
        ] {
            assert!(text.parse::<SourceAddresses>().is_err(), "{text}");
        }
    }
}
