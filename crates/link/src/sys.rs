#![expect(
    unsafe_code,
    reason = "neither rustix nor socket2 wraps the requests that make and configure a device, \
              nor the change of a thread's scheduling class"
)]
//! The requests to the kernel that no crate wraps: those of interfaces, and the scheduling class.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a device's name in a request, `IFNAMSIZ` of include/uapi/linux/if.h.
const NAME_BYTES: usize = 16;

/// Bytes of a request's value: the largest member of `struct ifreq`'s union.
const VALUE_BYTES: usize = 24;

/// `struct ifreq` of include/uapi/linux/if.h: a device's name and a value.
#[repr(C, align(8))]
struct Request {
    name: [u8; NAME_BYTES],
    value: [u8; VALUE_BYTES],
}

impl Request {
    fn new(device: &str, value: &[u8]) -> Self {
        let mut request = Self {
            name: [0; NAME_BYTES],
            value: [0; VALUE_BYTES],
        };
        for (place, byte) in request.name[..NAME_BYTES - 1]
            .iter_mut()
            .zip(device.bytes())
        {
            *place = byte;
        }
        for (place, byte) in request.value.iter_mut().zip(value) {
            *place = *byte;
        }
        request
    }

    fn send(mut self, descriptor: BorrowedFd<'_>, code: libc::Ioctl) -> io::Result<()> {
        // SAFETY: the descriptor is open for the length of the call; every code used in this
        // module reads and writes at most a `struct ifreq`, whose size `Request` has.
        let answer = unsafe { libc::ioctl(descriptor.as_raw_fd(), code, &raw mut self) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Make the TAP device that an open `/dev/net/tun` stands for: Ethernet frames, nothing before them.
pub fn make_tap(tun: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as u16;
    Request::new(device, &flags.to_ne_bytes()).send(tun, libc::TUNSETIFF)
}

/// Set how many frames may wait in the device until they are read.
pub fn set_queue(socket: BorrowedFd<'_>, device: &str, frames: u32) -> io::Result<()> {
    Request::new(device, &frames.to_ne_bytes()).send(socket, libc::SIOCSIFTXQLEN as libc::Ioctl)
}

/// Set the device's Ethernet address.
pub fn set_hardware_address(
    socket: BorrowedFd<'_>,
    device: &str,
    address: [u8; 6],
) -> io::Result<()> {
    let mut value = [0; 8];
    value[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
    value[2..].copy_from_slice(&address);
    Request::new(device, &value).send(socket, libc::SIOCSIFHWADDR as libc::Ioctl)
}

/// Give the device an IPv4 address.
pub fn set_address(socket: BorrowedFd<'_>, device: &str, address: Ipv4Addr) -> io::Result<()> {
    send_ipv4(socket, device, address, libc::SIOCSIFADDR as libc::Ioctl)
}

/// Say which addresses the device reaches.
pub fn set_mask(socket: BorrowedFd<'_>, device: &str, mask: Ipv4Addr) -> io::Result<()> {
    send_ipv4(socket, device, mask, libc::SIOCSIFNETMASK as libc::Ioctl)
}

fn send_ipv4(
    socket: BorrowedFd<'_>,
    device: &str,
    address: Ipv4Addr,
    code: libc::Ioctl,
) -> io::Result<()> {
    // `struct sockaddr_in`: family, port, address in network order.
    let mut value = [0; 8];
    value[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    value[4..].copy_from_slice(&address.octets());
    Request::new(device, &value).send(socket, code)
}

/// Let the device carry frames.
pub fn bring_up(socket: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
    Request::new(device, &flags.to_ne_bytes()).send(socket, libc::SIOCSIFFLAGS as libc::Ioctl)
}

/// Priority of a link's thread: above a load generator's that asks for the lowest, below that of
/// the kernel's own threads for timers and interrupts.
const PRIORITY: libc::c_int = 10;

/// Let the calling thread run before all that are scheduled in the usual way.
pub fn run_first() -> io::Result<()> {
    let wanted = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: process 0 is the calling thread; the parameter is read during the call alone.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
