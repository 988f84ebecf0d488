//! A TAP device in the network namespace of a host.
//!
//! A thread enters the namespace, creates the device and ends. The descriptor works from any
//! namespace. The kernel removes the device when the descriptor closes, even if the link is killed.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};

use perpacket_linux::interface::{self, Interface, Mac, TapError, counts};
use perpacket_linux::text;

use crate::address::Address;
use crate::error::{LinkError, OPEN_TUN};

/// Maximum number of frames that wait in the device until the link reads them. The kernel's default
/// of 500 frames is 24 ms at 250 Mb/s. A host that sends a whole window at once needs more.
const QUEUE_FRAMES: u32 = 10_000;

/// Index of the count of frames dropped in sending among the counts of /proc/net/dev.
const SEND_DROPS: usize = 11;

/// An open device.
#[derive(Debug)]
pub struct Device {
    tap: File,
    /// /proc/net/dev of the device's namespace.
    counters: File,
    name: String,
}

impl Device {
    /// Creates the device and brings it up.
    pub fn open(interface: &Interface, address: Option<Address>) -> Result<Self, LinkError> {
        interface.inside(|| Self::create(interface, address))
    }

    /// Creates the device in the namespace of the calling thread.
    fn create(interface: &Interface, address: Option<Address>) -> Result<Self, LinkError> {
        let name = interface.name();
        let failed = |action| {
            move |source| LinkError::Device {
                device: interface.to_string(),
                action,
                source,
            }
        };
        let tap = interface::create_tap(name).map_err(|error| match error {
            TapError::Open(source) => failed(OPEN_TUN)(source),
            TapError::Create(source) => failed("create it")(source),
        })?;
        let socket = interface::control_socket().map_err(failed("open a socket"))?;
        interface::set_queue(&socket, name, QUEUE_FRAMES).map_err(failed("set its queue"))?;
        interface::set_mac(&socket, name, mac(interface))
            .map_err(failed("set its Ethernet address"))?;
        if let Some(address) = address {
            interface::set_address(&socket, name, address.host)
                .map_err(failed("set its address"))?;
            interface::set_mask(&socket, name, address.mask()).map_err(failed("set its mask"))?;
        }
        interface::bring_up(&socket, name).map_err(failed("bring it up"))?;
        let counters =
            File::open("/proc/thread-self/net/dev").map_err(failed("read its counters"))?;
        Ok(Self {
            tap,
            counters,
            name: name.to_owned(),
        })
    }

    /// The descriptor that is readable when the host has sent a frame.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames that the host sent while the device's queue was full; `None` if the device is gone.
    pub fn send_drops(&mut self) -> Option<u64> {
        self.counters.seek(SeekFrom::Start(0)).ok()?;
        let table = text::read_rest(&mut self.counters).ok()?;
        counts(&table)
            .find(|(name, _)| *name == self.name)
            .map(|(_, row)| row[SEND_DROPS])
    }
}

/// A locally administered Ethernet address that depends only on the interface. So the neighbour
/// tables of the hosts stay valid when a new link with another delay replaces this one.
fn mac(interface: &Interface) -> Mac {
    // This is FNV-1a with 64 bits.
    let hash = interface
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let [_, _, a, b, c, d, e, f] = hash.to_be_bytes();
    // Bit 0 marks multicast addresses, bit 1 locally administered ones.
    [(a & !1) | 2, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ethernet_address_depends_on_the_interface_only() {
        let (left, right): (Interface, Interface) =
            ("a:x".parse().unwrap(), "b:x".parse().unwrap());
        assert_eq!(mac(&left), mac(&left));
        assert_ne!(mac(&left), mac(&right));
        assert_eq!(mac(&left)[0] & 3, 2);
    }
}
