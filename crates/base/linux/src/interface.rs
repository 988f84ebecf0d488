//! Network interfaces (netdevice(7)), their namespaces, and TAP devices.
//!
//! The functions work on interfaces of the calling thread's namespace. [`Interface::inside`] runs
//! them in another namespace.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::str::FromStr;
use std::thread;

use crate::ethtool::SIOCETHTOOL;
use crate::namespace;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Bytes of the longest name: `IFNAMSIZ` of include/uapi/linux/if.h without the final zero.
const NAME_BYTES: usize = 15;

/// The name of an interface, and its network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    namespace: Option<String>,
    name: String,
}

/// The error of a text that names no interface, or of a namespace that cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    #[error("{text:?}: {problem}; expected {expected}, NETNS by name or by path")]
    Syntax {
        text: String,
        problem: &'static str,
        expected: &'static str,
    },
    #[error("interface {interface}: cannot {action}: {source}")]
    Request {
        interface: String,
        action: &'static str,
        source: io::Error,
    },
    #[error("network namespace {namespace}: {source}")]
    Namespace {
        namespace: String,
        source: io::Error,
    },
}

impl InterfaceError {
    /// Whether the error is a missing permission.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Syntax { .. } => false,
            Self::Request { source, .. } | Self::Namespace { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
        }
    }
}

impl Interface {
    /// Reads `NETNS[:IFNAME]`. Without `:IFNAME`, the name is `default_name`.
    ///
    /// # Errors
    /// [`InterfaceError::Syntax`].
    pub fn in_namespace(text: &str, default_name: &str) -> Result<Self, InterfaceError> {
        let (namespace, name) = text.rsplit_once(':').unwrap_or((text, default_name));
        Self::new(Some(namespace), name).map_err(|problem| InterfaceError::Syntax {
            text: text.to_owned(),
            problem,
            expected: "NETNS or NETNS:IFNAME",
        })
    }

    fn new(namespace: Option<&str>, name: &str) -> Result<Self, &'static str> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'%';
        if namespace == Some("") {
            return Err("the network namespace has no name");
        }
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err("the name of an interface has 1 to 15 bytes");
        }
        if !name.bytes().all(is_allowed) {
            return Err("the name of an interface has no blanks, slashes or percent signs");
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// The interface's name in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes an error of this interface, for `map_err`.
    pub fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> InterfaceError {
        let interface = self.to_string();
        move |source| InterfaceError::Request {
            interface,
            action,
            source,
        }
    }

    /// Reads number, addresses and MTU of the interface.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn hardware(&self) -> Result<Hardware, InterfaceError> {
        self.inside(|| {
            control_socket()
                .and_then(|socket| hardware(socket, &self.name))
                .map_err(self.failed("read its addresses"))
        })
    }

    /// Runs `work` inside the interface's namespace. It runs in another thread, so that the calling
    /// thread stays in its own namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or `work` fails.
    pub fn inside<T: Send, E: From<InterfaceError> + Send>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let Some(namespace) = &self.namespace else {
            return work();
        };
        let enter_and_work = || {
            namespace::enter(namespace).map_err(|source| InterfaceError::Namespace {
                namespace: namespace.clone(),
                source,
            })?;
            work()
        };
        thread::scope(|scope| {
            scope
                .spawn(enter_and_work)
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl FromStr for Interface {
    type Err = InterfaceError;

    /// Reads `[NETNS:]IFNAME`.
    fn from_str(text: &str) -> Result<Self, InterfaceError> {
        let (namespace, name) = match text.rsplit_once(':') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        Self::new(namespace, name).map_err(|problem| InterfaceError::Syntax {
            text: text.to_owned(),
            problem,
            expected: "IFNAME or NETNS:IFNAME",
        })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}:{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

/// A socket for requests about interfaces.
///
/// # Errors
/// The errors of socket(2).
pub fn control_socket() -> io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    Ok(rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// The rows of `/proc/net/dev`: each interface's name, and its eight counts for receiving and eight for
/// sending. Lines that are no such row are left out.
pub fn counts(table: &str) -> impl Iterator<Item = (&str, [u64; 16])> {
    table.lines().filter_map(|line| {
        let (name, row) = line.split_once(':')?;
        let counts: Option<Vec<u64>> = row
            .split_ascii_whitespace()
            .map(|field| field.parse().ok())
            .collect();
        Some((name.trim(), counts?.try_into().ok()?))
    })
}

/// The kernel's description of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Number in its namespace.
    pub index: u32,
    /// Ethernet address.
    pub mac: Mac,
    /// Bytes of the largest packet that it sends.
    pub mtu_bytes: usize,
    /// IPv4 address, if it has one.
    pub address: Option<Ipv4Addr>,
    /// Bits of its network's prefix.
    pub network_bits: u8,
}

/// Reads number, addresses and MTU of an interface. `socket` may be any socket of its namespace.
///
/// # Errors
/// The interface does not exist.
pub fn hardware(socket: impl AsFd, interface: &str) -> io::Result<Hardware> {
    let socket = socket.as_fd();
    let request = |code: libc::c_ulong| exchange(socket, interface, code as libc::Ioctl, |_| {});
    let octets = |answer: libc::ifreq| {
        // SAFETY: the kernel answers these requests with an internet address.
        let data = unsafe { answer.ifr_ifru.ifru_addr.sa_data };
        Ipv4Addr::from([2, 3, 4, 5].map(|at: usize| data[at] as u8))
    };
    let index = request(libc::SIOCGIFINDEX)?.ifr_ifru;
    let mac = request(libc::SIOCGIFHWADDR)?.ifr_ifru;
    let mask = request(libc::SIOCGIFNETMASK).map_or(Ipv4Addr::BROADCAST, octets);
    // SAFETY: each answer has the member that belongs to its request.
    let (index, mac) = unsafe { (index.ifru_ifindex, mac.ifru_hwaddr.sa_data) };
    Ok(Hardware {
        index: index as u32,
        mac: [0, 1, 2, 3, 4, 5].map(|at: usize| mac[at] as u8),
        mtu_bytes: mtu(socket, interface)?,
        address: request(libc::SIOCGIFADDR).ok().map(octets),
        network_bits: mask.to_bits().leading_ones() as u8,
    })
}

/// Bytes of the largest packet that the interface sends.
///
/// # Errors
/// The interface does not exist.
pub fn mtu(socket: impl AsFd, interface: &str) -> io::Result<usize> {
    let answer = exchange(socket, interface, libc::SIOCGIFMTU as libc::Ioctl, |_| {})?;
    // SAFETY: the answer to this request has an MTU.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu } as usize)
}

/// Creates a TAP device. It passes Ethernet frames without an additional header, and reads from it
/// do not block. Closing the file removes the device.
///
/// # Errors
/// The kernel has no TAP devices, this process may not create one, or a device of that name exists.
pub fn create_tap(name: &str) -> Result<File, TapError> {
    let tap = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(TapError::Open)?;
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    exchange(&tap, name, libc::TUNSETIFF, |request| {
        request.ifr_ifru.ifru_flags = flags;
    })
    .map_err(TapError::Create)?;
    Ok(tap)
}

/// The reason why a TAP device was not created.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    #[error("cannot open /dev/net/tun: {0}")]
    Open(io::Error),
    #[error("cannot create it: {0}")]
    Create(io::Error),
}

/// Sets the maximum number of frames that wait in a device until they are read.
///
/// # Errors
/// The interface does not exist, or this process may not change it.
pub fn set_queue(socket: impl AsFd, interface: &str, frames: u32) -> io::Result<()> {
    change(socket, interface, libc::SIOCSIFTXQLEN, |request| {
        // In this request, the member for the interface's number contains the length of the queue.
        request.ifr_ifru.ifru_ifindex = frames as libc::c_int;
    })
}

/// Sets the largest packet that the interface sends.
///
/// # Errors
/// The same errors as [`set_queue`], or the driver does not support the size.
pub fn set_mtu(socket: impl AsFd, interface: &str, bytes: usize) -> io::Result<()> {
    change(socket, interface, libc::SIOCSIFMTU, |request| {
        request.ifr_ifru.ifru_mtu = bytes as libc::c_int;
    })
}

/// Sets the Ethernet address.
///
/// # Errors
/// The same errors as [`set_queue`].
pub fn set_mac(socket: impl AsFd, interface: &str, mac: Mac) -> io::Result<()> {
    let mut address = socket_address(libc::ARPHRD_ETHER);
    for (place, byte) in address.sa_data.iter_mut().zip(mac) {
        *place = byte as libc::c_char;
    }
    change(socket, interface, libc::SIOCSIFHWADDR, |request| {
        request.ifr_ifru.ifru_hwaddr = address;
    })
}

/// Sets the IPv4 address.
///
/// # Errors
/// The same errors as [`set_queue`].
pub fn set_address(socket: impl AsFd, interface: &str, address: Ipv4Addr) -> io::Result<()> {
    change(socket, interface, libc::SIOCSIFADDR, |request| {
        request.ifr_ifru.ifru_addr = internet_address(address);
    })
}

/// Sets the network mask.
///
/// # Errors
/// The same errors as [`set_queue`].
pub fn set_mask(socket: impl AsFd, interface: &str, mask: Ipv4Addr) -> io::Result<()> {
    change(socket, interface, libc::SIOCSIFNETMASK, |request| {
        request.ifr_ifru.ifru_netmask = internet_address(mask);
    })
}

/// Brings the interface up.
///
/// # Errors
/// The same errors as [`set_queue`].
pub fn bring_up(socket: impl AsFd, interface: &str) -> io::Result<()> {
    change(socket, interface, libc::SIOCSIFFLAGS, |request| {
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    })
}

/// Work that a card, or a layer near the driver, does for the stack. ethtool(8) turns it on and
/// off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Segmentation of TCP by the card.
    Tso,
    /// Segmentation in the kernel, just before the driver.
    Gso,
    /// Merging of received segments in the kernel.
    Gro,
    /// Checksums of sent frames by the card.
    SendChecksum,
    /// Checksums of received frames by the card.
    ReceiveChecksum,
    /// Frames in several pieces of memory.
    ScatterGather,
}

impl Offload {
    /// The request that sets this offload (include/uapi/linux/ethtool.h).
    fn command(self) -> u32 {
        match self {
            Self::Tso => 0x1f,
            Self::Gso => 0x24,
            Self::Gro => 0x2c,
            Self::SendChecksum => 0x17,
            Self::ReceiveChecksum => 0x15,
            Self::ScatterGather => 0x19,
        }
    }
}

/// Turns an offload of an interface on or off.
///
/// # Errors
/// The same errors as [`set_queue`], or the driver does not support the change.
pub fn set_offload(
    socket: impl AsFd,
    interface: &str,
    offload: Offload,
    on: bool,
) -> io::Result<()> {
    /// `struct ethtool_value`
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value {
        command: offload.command(),
        data: u32::from(on),
    };
    let address = &raw mut value;
    change(socket, interface, SIOCETHTOOL as libc::c_ulong, |request| {
        // The kernel reads and writes the value. The value outlives the call.
        request.ifr_ifru.ifru_data = address.cast();
    })
}

fn socket_address(family: u16) -> libc::sockaddr {
    libc::sockaddr {
        sa_family: family,
        sa_data: [0; 14],
    }
}

fn internet_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut socket = socket_address(libc::AF_INET as u16);
    // The first two bytes are the port.
    for (place, byte) in socket.sa_data[2..].iter_mut().zip(address.octets()) {
        *place = byte as libc::c_char;
    }
    socket
}

fn change(
    socket: impl AsFd,
    interface: &str,
    code: libc::c_ulong,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<()> {
    exchange(socket, interface, code as libc::Ioctl, fill).map(drop)
}

/// Sends a request about an interface and returns the kernel's answer.
pub(crate) fn exchange(
    socket: impl AsFd,
    interface: &str,
    code: libc::Ioctl,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<libc::ifreq> {
    // SAFETY: zeros are a valid request.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte is always zero, so the name is terminated.
    let room = request.ifr_name.len() - 1;
    for (place, byte) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    fill(&mut request);
    // SAFETY: every code of this module reads and writes at most a `struct ifreq`.
    crate::check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), code, &raw mut request) })?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_printed_as_it_is_read() {
        for text in ["eth0", "router:eth0", "/proc/1/ns/net:eth0"] {
            assert_eq!(text.parse::<Interface>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_row_of_the_kernels_table_has_sixteen_counts() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 2 3\n link0: \
                     1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let expected = std::array::from_fn(|index| index as u64 + 1);
        assert_eq!(counts(table).collect::<Vec<_>>(), [("link0", expected)]);
    }

    #[test]
    fn a_namespace_alone_has_the_default_interface() {
        for (text, printed) in [
            ("server", "server:link0"),
            ("server:eth0", "server:eth0"),
            ("/proc/17/ns/net", "/proc/17/ns/net:link0"),
        ] {
            let interface = Interface::in_namespace(text, "link0").unwrap();
            assert_eq!(interface.to_string(), printed);
        }
    }

    #[test]
    fn a_name_that_the_kernel_refuses_is_an_error() {
        for text in ["", ":a", "n:", "n:a b", "n:a%d", "n:sixteen-bytes-xx"] {
            assert!(text.parse::<Interface>().is_err(), "{text}");
            assert!(Interface::in_namespace(text, "link0").is_err(), "{text}");
        }
        let error = "n:a b".parse::<Interface>().unwrap_err().to_string();
        assert!(
            error.ends_with("or NETNS:IFNAME, NETNS by name or by path"),
            "{error}"
        );
    }

    #[test]
    fn a_namespace_that_does_not_exist_is_named() {
        let interface: Interface = "no-such-namespace:eth0".parse().unwrap();
        let error: InterfaceError = interface.inside(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains("no-such-namespace"), "{error}");
    }

    #[test]
    fn the_loopback_interface_has_an_address_and_a_large_mtu() {
        let loopback = hardware(control_socket().unwrap(), "lo").unwrap();
        assert!(
            loopback.mtu_bytes >= 1500 && loopback.mac == [0; 6],
            "{loopback:?}"
        );
    }
}
