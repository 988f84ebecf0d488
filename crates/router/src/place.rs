//! Where frames go in and out: an interface, perhaps in another network namespace.

use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;

use perpacket_linux::packet::PacketSocket;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::RouterError;

pub use perpacket_linux::interface::Hardware;

/// Where `ip netns` keeps namespaces that have a name.
const NAMED: &str = "/run/netns";

/// An interface and the namespace it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name or path of the network namespace; none for the one we are in.
    pub namespace: Option<String>,
    /// Name of the interface.
    pub interface: String,
}

impl FromStr for Place {
    type Err = RouterError;

    fn from_str(text: &str) -> Result<Self, RouterError> {
        let (namespace, interface) = match text.rsplit_once(':') {
            Some((namespace, interface)) => (Some(namespace), interface),
            None => (None, text),
        };
        // IFNAMSIZ is 16 with the zero at the end (linux/if.h).
        if interface.is_empty() || interface.len() > 15 || namespace == Some("") {
            return Err(RouterError::Place {
                text: text.to_owned(),
            });
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            interface: interface.to_owned(),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}:{}", self.interface),
            None => formatter.write_str(&self.interface),
        }
    }
}

impl Place {
    /// Does `work` in a thread of its own inside the namespace, so that nothing else moves.
    ///
    /// # Errors
    /// The namespace cannot be entered, or what `work` gives.
    pub fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, RouterError> + Send,
    ) -> Result<T, RouterError> {
        let Some(namespace) = &self.namespace else {
            return work();
        };
        let entered = || {
            enter(namespace)?;
            work()
        };
        thread::scope(|scope| {
            scope
                .spawn(entered)
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Place {
    /// What the kernel says of the interface.
    ///
    /// # Errors
    /// It is not there, or this user may not ask in this way.
    pub fn hardware(&self) -> Result<Hardware, RouterError> {
        self.socket(false).map(|(_, hardware)| hardware)
    }

    /// A packet socket on the interface, which receives what comes in or nothing.
    pub(crate) fn socket(&self, receives: bool) -> Result<(PacketSocket, Hardware), RouterError> {
        self.inside(|| {
            PacketSocket::open(&self.interface, receives)
                .map_err(|source| self.failed("open a packet socket", source))
        })
    }

    /// What cannot be done with the interface.
    pub(crate) fn failed(&self, what: &'static str, source: std::io::Error) -> RouterError {
        RouterError::Interface {
            interface: self.to_string(),
            what,
            source,
        }
    }
}

/// Moves this thread into a network namespace.
fn enter(namespace: &str) -> Result<(), RouterError> {
    let path = if namespace.contains('/') {
        PathBuf::from(namespace)
    } else {
        PathBuf::from(NAMED).join(namespace)
    };
    let failed = |source| RouterError::Namespace {
        namespace: namespace.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_as_they_are_written() {
        for text in ["eth0", "router:eth0", "/proc/1/ns/net:eth0"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["", ":eth0", "router:", "a-name-far-too-long"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let place: Place = "no-such-namespace:eth0".parse().unwrap();
        let error = place.inside(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains("no-such-namespace"), "{error}");
    }
}
