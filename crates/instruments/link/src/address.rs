//! An IPv4 address with the length of its network's prefix.

use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::error::LinkError;

/// An IPv4 address with the length of its network's prefix, such as `10.0.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) host: Ipv4Addr,
    prefix_bits: u32,
}

impl Address {
    /// The network mask.
    pub(crate) fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::MAX.checked_shl(32 - self.prefix_bits).unwrap_or(0))
    }
}

impl FromStr for Address {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        text.split_once('/')
            .and_then(|(host, prefix)| {
                let prefix_bits = prefix.parse().ok().filter(|bits| *bits <= 32)?;
                Some(Self {
                    host: host.parse().ok()?,
                    prefix_bits,
                })
            })
            .ok_or_else(|| LinkError::Address {
                text: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_has_as_many_bits_as_the_prefix() {
        let masks = [
            ("10.0.0.1/0", "0.0.0.0"),
            ("10.0.0.1/24", "255.255.255.0"),
            ("10.0.0.1/32", "255.255.255.255"),
        ];
        for (text, mask) in masks {
            assert_eq!(text.parse::<Address>().unwrap().mask().to_string(), mask);
        }
    }

    #[test]
    fn a_text_that_is_not_an_address_with_a_prefix_is_an_error() {
        for text in ["10.0.0.1", "10.0.0.1/33", "10.0.0/24", "::1/64"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
