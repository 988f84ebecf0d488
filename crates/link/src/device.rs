//! A TAP device in the network namespace of a host.
//!
//! A thread enters the namespace, makes the device and ends; the descriptor goes on working from
//! anywhere. The device lives as long as the descriptor, so that nothing is left behind by a link
//! that was killed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use perpacket_linux::interface::{self, TapError};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{LinkError, OPEN_ACTION};
use crate::place::{Address, Place};

/// Frames that wait in the device until the link reads them. The kernel's 500 are 24 ms at
/// 250 Mb/s; a host that sends a whole window at once needs more.
const QUEUE_FRAMES: u32 = 10_000;

/// Which column of /proc/net/dev, after the device's name, counts frames dropped in sending.
const SEND_DROPS_COLUMN: usize = 11;

/// An open device.
#[derive(Debug)]
pub struct Device {
    tap: File,
    /// /proc/net/dev of the device's namespace.
    counters: File,
    name: String,
}

impl Device {
    /// Make the device of a place and bring it up.
    pub fn open(place: &Place, address: Option<Address>) -> Result<Self, LinkError> {
        let namespace = place.open()?;
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                        .map_err(|error| place.namespace_error(error.into()))?;
                    Self::make(place, address)
                })
                .join()
                .unwrap_or_else(|_| {
                    let source = io::Error::other("the thread that entered it ended early");
                    Err(place.namespace_error(source))
                })
        })
    }

    /// Make the device in the namespace of the calling thread.
    fn make(place: &Place, address: Option<Address>) -> Result<Self, LinkError> {
        let name = place.device();
        let failed = |action| move |source| place.device_error(action, source);
        let tap = interface::create_tap(name).map_err(|error| match error {
            TapError::Open(source) => failed(OPEN_ACTION)(source),
            TapError::Create(source) => failed("make it")(source),
        })?;
        let socket = interface::control_socket().map_err(failed("open a socket"))?;
        interface::set_queue(&socket, name, QUEUE_FRAMES).map_err(failed("set its queue"))?;
        interface::set_mac(&socket, name, hardware_address(place))
            .map_err(failed("set its Ethernet address"))?;
        if let Some(address) = address {
            interface::set_address(&socket, name, address.host)
                .map_err(failed("set its address"))?;
            interface::set_mask(&socket, name, address.mask()).map_err(failed("set its mask"))?;
        }
        interface::bring_up(&socket, name).map_err(failed("bring it up"))?;
        let counters = File::open("/proc/thread-self/net/dev").map_err(failed("count drops"))?;
        Ok(Self {
            tap,
            counters,
            name: name.to_owned(),
        })
    }

    /// What becomes readable when the host has sent a frame.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames the host sent that found the device's queue full; none if the device is gone.
    pub fn unread_drops(&mut self) -> Option<u64> {
        let mut table = String::new();
        self.counters.seek(SeekFrom::Start(0)).ok()?;
        self.counters.read_to_string(&mut table).ok()?;
        send_drops(&table, &self.name)
    }
}

/// The drops in sending of a device in the text of /proc/net/dev.
fn send_drops(table: &str, device: &str) -> Option<u64> {
    let row = table.lines().find_map(|line| {
        let (name, row) = line.split_once(':')?;
        (name.trim() == device).then_some(row)
    })?;
    row.split_ascii_whitespace()
        .nth(SEND_DROPS_COLUMN)?
        .parse()
        .ok()
}

/// A locally administered Ethernet address that is the same whenever the same link is made, so
/// that neighbours' tables stay true when a link is replaced by one with another delay.
fn hardware_address(place: &Place) -> [u8; 6] {
    // FNV-1a, 64 bits.
    let text = place
        .namespace()
        .bytes()
        .chain([0])
        .chain(place.device().bytes());
    let hash = text.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [_, _, a, b, c, d, e, f] = hash.to_be_bytes();
    // Bit 0 would make it a multicast address, bit 1 says that no vendor gave it.
    [(a & !1) | 2, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_in_sending_are_the_twelfth_number_of_the_devices_row() {
        let table = "Inter-|   Receive |  Transmit\n face |bytes packets\n    \
                     lo: 0 0 0 0 0 0 0 0 0 0 0 9 0 0 0 0\n \
                     link0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(send_drops(table, "link0"), Some(12));
        assert_eq!(send_drops(table, "link1"), None);
    }

    #[test]
    fn ethernet_addresses_are_for_one_device_and_stay() {
        let (left, right): (Place, Place) = ("a:x".parse().unwrap(), "b:x".parse().unwrap());
        assert_eq!(hardware_address(&left), hardware_address(&left));
        assert_ne!(hardware_address(&left), hardware_address(&right));
        assert_eq!(hardware_address(&left)[0] & 3, 2);
    }
}
