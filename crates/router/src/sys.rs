//! System calls that have no safe wrapper: packet sockets, batches of frames, `bpf`.
#![expect(
    unsafe_code,
    reason = "packet sockets, sendmmsg, recvmmsg and bpf have no safe wrapper"
)]

use std::ffi::c_int;
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::frame::Mac;

/// All protocols, in the order packet(7) wants.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Most frames of one batch.
pub const BATCH: usize = 64;

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A packet socket on an interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

/// What the kernel says of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Its number in its namespace.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Bytes of the largest packet it sends.
    pub mtu_bytes: usize,
    /// Its IPv4 address, if it has one.
    pub address: Option<Ipv4Addr>,
    /// Bits that addresses of its network share.
    pub network_bits: u8,
}

impl PacketSocket {
    /// A socket on the interface of that name in this thread's namespace. It receives everything
    /// that comes in if `receives`, and nothing otherwise.
    pub fn open(interface: &str, receives: bool) -> io::Result<(Self, Hardware)> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: creates a descriptor; no memory is passed. Protocol 0 receives nothing yet.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let hardware = hardware(&fd, interface)?;
        let socket = Self { fd };
        socket.option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // SAFETY: all zeros are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receives { ALL } else { 0 };
        address.sll_ifindex = hardware.index as c_int;
        // SAFETY: the address lives through the call and its size is given.
        check(unsafe {
            libc::bind(
                socket.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        })?;
        Ok((socket, hardware))
    }

    /// Frames go straight to the device, past its queueing discipline.
    pub fn bypass_queue(&self) -> io::Result<()> {
        self.option(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)
    }

    /// Room for frames that wait to be read; more than the system's limit where that is allowed.
    pub fn set_receive_buffer(&self, bytes: c_int) -> io::Result<()> {
        self.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
            .or_else(|_| self.option(libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
    }

    fn option(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        // SAFETY: the value lives through the call and its size is given.
        check(unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<c_int>() as u32,
            )
        })
        .map(|_| ())
    }

    /// Sends frames in one call; how many went.
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        let frames = &frames[..frames.len().min(BATCH)];
        // SAFETY: all zeros are valid headers and vectors, which point nowhere.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        for ((header, vector), frame) in headers.iter_mut().zip(&mut vectors).zip(frames) {
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the headers point to vectors and those to frames, all alive; sending only reads.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                frames.len() as u32,
                libc::MSG_DONTWAIT,
            )
        };
        check(sent).map(|sent| sent as usize)
    }

    /// Receives what waits into `buffers`, putting the lengths beside; how many frames came.
    pub fn receive(&self, buffers: &mut [Vec<u8>], lengths: &mut [usize]) -> io::Result<usize> {
        let count = buffers.len().min(lengths.len()).min(BATCH);
        // SAFETY: all zeros are valid headers and vectors, which point nowhere.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        for ((header, vector), buffer) in headers.iter_mut().zip(&mut vectors).zip(buffers) {
            vector.iov_base = buffer.as_mut_ptr().cast();
            vector.iov_len = buffer.len();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the headers point to vectors and those to initialised buffers of their lengths.
        let got = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let got = check(got)? as usize;
        for (length, header) in lengths.iter_mut().zip(&headers[..got]) {
            *length = header.msg_len as usize;
        }
        Ok(got)
    }

    /// Frames that found no room since the last call (packet(7), `PACKET_STATISTICS`).
    pub fn overflowed(&self) -> io::Result<u64> {
        // SAFETY: all zeros are valid counts.
        let mut counts: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut size = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the counts and their size live through the call.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut size,
            )
        })?;
        Ok(u64::from(counts.tp_drops))
    }
}

/// Asks for number, address and largest packet of an interface (netdevice(7)).
fn hardware(fd: &OwnedFd, interface: &str) -> io::Result<Hardware> {
    let ask = |request| {
        // SAFETY: all zeros are a valid request.
        let mut asked: libc::ifreq = unsafe { mem::zeroed() };
        // The last byte stays zero, whatever the name.
        let room = asked.ifr_name.len() - 1;
        for (place, byte) in asked.ifr_name[..room].iter_mut().zip(interface.bytes()) {
            *place = byte as libc::c_char;
        }
        // SAFETY: the kernel writes no more than a request is long.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut asked) }).map(|_| asked)
    };
    let index = ask(libc::SIOCGIFINDEX)?;
    let address = ask(libc::SIOCGIFHWADDR)?;
    let mtu = ask(libc::SIOCGIFMTU)?;
    let mut mac = Mac::default();
    // SAFETY: each answer has the member that belongs to its request.
    let (index, address, mtu) = unsafe {
        (
            index.ifr_ifru.ifru_ifindex,
            address.ifr_ifru.ifru_hwaddr.sa_data,
            mtu.ifr_ifru.ifru_mtu,
        )
    };
    for (place, byte) in mac.iter_mut().zip(address) {
        *place = byte as u8;
    }
    // The four bytes after family and port of an internet address.
    let octets = |asked: libc::ifreq| {
        // SAFETY: the answer to a request for an address has one.
        let data = unsafe { asked.ifr_ifru.ifru_addr.sa_data };
        Ipv4Addr::from([2, 3, 4, 5].map(|at: usize| data[at] as u8))
    };
    let mask = ask(libc::SIOCGIFNETMASK).map_or(Ipv4Addr::BROADCAST, octets);
    Ok(Hardware {
        index: index as u32,
        mac,
        mtu_bytes: mtu as usize,
        address: ask(libc::SIOCGIFADDR).ok().map(octets),
        network_bits: mask.to_bits().leading_ones() as u8,
    })
}

/// The `bpf` system call with a command and its attributes (linux/bpf.h, `union bpf_attr`).
///
/// The attributes must be laid out as the command wants, and what they point to must be alive and as
/// large as they say; the callers in `bpf` see to that.
pub fn bpf<A>(command: c_int, attributes: &mut A) -> io::Result<c_int> {
    // SAFETY: the kernel reads and writes no more than the size given, and what is pointed to as
    // the contract says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<A>(),
        )
    };
    check(c_int::try_from(result).unwrap_or(-1))
}

/// Takes a descriptor that a system call just made.
pub fn own(fd: c_int) -> OwnedFd {
    // SAFETY: the caller got it from the kernel this moment; nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
