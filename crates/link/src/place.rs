//! Where an end of a link stands: a network namespace and the name of the device in it.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::LinkError;

/// Name of the device where none is given.
const DEFAULT_DEVICE: &str = "link0";

/// Longest name of a device, `IFNAMSIZ` of include/uapi/linux/if.h without the final zero.
const LONGEST_NAME: usize = 15;

/// A network namespace, by name or by path, and the device to make in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    namespace: String,
    device: String,
}

impl Place {
    /// Name of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Name or path of the namespace, as it was given.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The file that stands for the namespace: a name means the one that `ip netns` would use.
    pub(crate) fn open(&self) -> Result<File, LinkError> {
        let path = if self.namespace.contains('/') {
            PathBuf::from(&self.namespace)
        } else {
            PathBuf::from("/run/netns").join(&self.namespace)
        };
        File::open(path).map_err(|source| self.namespace_error(source))
    }

    pub(crate) fn namespace_error(&self, source: std::io::Error) -> LinkError {
        LinkError::Namespace {
            namespace: self.namespace.clone(),
            source,
        }
    }

    pub(crate) fn device_error(&self, action: &'static str, source: std::io::Error) -> LinkError {
        LinkError::Device {
            device: self.device.clone(),
            namespace: self.namespace.clone(),
            action,
            source,
        }
    }
}

impl FromStr for Place {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let (namespace, device) = text.rsplit_once(':').unwrap_or((text, DEFAULT_DEVICE));
        let problem = if namespace.is_empty() {
            "the network namespace has no name"
        } else if device.is_empty() || device.len() > LONGEST_NAME {
            "a device's name has 1 to 15 bytes"
        } else if device
            .bytes()
            .any(|byte| !byte.is_ascii_graphic() || byte == b'/' || byte == b'%')
        {
            "a device's name has no blanks, slashes or percent signs"
        } else {
            return Ok(Self {
                namespace: namespace.to_owned(),
                device: device.to_owned(),
            });
        };
        Err(LinkError::Place {
            text: text.to_owned(),
            problem,
        })
    }
}

/// An IPv4 address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) host: Ipv4Addr,
    pub(crate) prefix_bits: u32,
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
    fn a_place_is_a_namespace_and_perhaps_a_device() {
        let place: Place = "server:eth0".parse().unwrap();
        assert_eq!((place.namespace(), place.device()), ("server", "eth0"));
        let path: Place = "/proc/17/ns/net".parse().unwrap();
        assert_eq!(
            (path.namespace(), path.device()),
            ("/proc/17/ns/net", "link0")
        );
    }

    #[test]
    fn a_name_the_kernel_would_refuse_is_refused_before() {
        for text in [
            "",
            ":eth0",
            "server:",
            "server:a b",
            "server:a%d",
            "server:sixteen-bytes-xx",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn masks_follow_from_prefixes() {
        let masks = [
            ("10.0.0.1/0", "0.0.0.0"),
            ("10.0.0.1/24", "255.255.255.0"),
            ("10.0.0.1/32", "255.255.255.255"),
        ];
        for (text, mask) in masks {
            assert_eq!(text.parse::<Address>().unwrap().mask().to_string(), mask);
        }
        for text in ["10.0.0.1", "10.0.0.1/33", "10.0.0/24", "::1/64"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
