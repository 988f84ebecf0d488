#![expect(
    unsafe_code,
    reason = "no safe wrapper hands out the kernel's time of a packet's arrival"
)]
//! A steady stream of UDP packets that carry the time they were sent, and its receiver.
//!
//! It measures one-way delay between two hosts that share a clock, such as two network namespaces
//! of one machine, up to the moment the receiving kernel gets the packet from its device: how busy
//! the receiver is does not matter.
//!
//! ```text
//! blast receive 0.0.0.0:9000
//! blast send 10.0.0.1:9000 200000000 1472 5
//! ```
//!
//! The sender takes a destination, a rate in bits a second of Ethernet frames, bytes a packet and
//! seconds; it spins between packets, so that its own lateness is no part of what is measured, and
//! does not catch up when it was not allowed to run: a burst would be another stream. The receiver ends after a second without packets and prints JSON, times in microseconds.

use std::env;
use std::error::Error;
use std::io;
use std::mem::{size_of, size_of_val};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

/// Bytes of the Ethernet, IPv4 and UDP headers before a packet.
const HEADER_BYTES: u64 = 14 + 20 + 8;

/// How long the receiver waits for more once it has got something.
const SILENCE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["receive", listen] => receive(listen),
        ["send", to, rate_bps, size_bytes, duration_s] => send(
            to,
            rate_bps.parse()?,
            size_bytes.parse()?,
            duration_s.parse()?,
        ),
        _ => Err("receive LISTEN, or send TO RATE_BPS SIZE_BYTES SECONDS".into()),
    }
}

fn now_ns() -> u64 {
    // The kernel's times of arrival are on this clock.
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn send(to: &str, rate_bps: u64, size_bytes: usize, duration_s: f64) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let mut packet = vec![0; size_bytes.max(8)];
    let frame_bits = (packet.len() as u64 + HEADER_BYTES) * 8;
    let interval_ns = frame_bits * 1_000_000_000 / rate_bps;
    let start_ns = now_ns();
    let end_ns = start_ns + (duration_s * 1e9) as u64;
    let mut due_ns = start_ns;
    let mut packets = 0_u64;
    while due_ns < end_ns {
        let mut time_ns = now_ns();
        while time_ns < due_ns {
            std::hint::spin_loop();
            time_ns = now_ns();
        }
        packet[..8].copy_from_slice(&time_ns.to_le_bytes());
        socket.send(&packet)?;
        packets += 1;
        due_ns = time_ns.max(due_ns) + interval_ns;
    }
    let rate_bps = (packets * frame_bits) as f64 / duration_s;
    println!("{{\"packets\": {packets}, \"rate_bps\": {rate_bps}}}");
    Ok(())
}

fn receive(listen: &str) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind(listen)?;
    let (on, buffer_bytes): (libc::c_int, libc::c_int) = (1, 8 << 20);
    set_option(&socket, libc::SO_TIMESTAMPNS, on)?;
    set_option(&socket, libc::SO_RCVBUFFORCE, buffer_bytes)?;
    println!("ready");
    let mut delays_ns = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3)?;
    let mut packet = [0; 2048];
    loop {
        match receive_with_time(&socket, &mut packet) {
            Ok((length, arrived_ns)) if length >= 8 => {
                let sent_ns = u64::from_le_bytes(packet[..8].try_into()?);
                delays_ns.saturating_record(arrived_ns.saturating_sub(sent_ns));
                if delays_ns.len() == 1 {
                    socket.set_read_timeout(Some(SILENCE))?;
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    let microseconds = |quantile| delays_ns.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "{{\"packets\": {}, \"p50\": {}, \"p99\": {}, \"max\": {}}}",
        delays_ns.len(),
        microseconds(0.5),
        microseconds(0.99),
        delays_ns.max() as f64 / 1e3
    );
    Ok(())
}

fn set_option(socket: &UdpSocket, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the socket is open; the value is read during the call and has the length stated.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A packet's length and when the kernel got it from the device.
fn receive_with_time(socket: &UdpSocket, packet: &mut [u8]) -> io::Result<(usize, u64)> {
    let mut control = [0_u64; 8];
    let mut place = libc::iovec {
        iov_base: packet.as_mut_ptr().cast(),
        iov_len: packet.len(),
    };
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut place;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message names a buffer and a control buffer that outlive the call.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the control buffer that the message names.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: a header that is not null is within the control buffer.
    if header.is_null() || unsafe { (*header).cmsg_type } != libc::SCM_TIMESTAMPNS {
        return Err(io::Error::other("a packet without its time of arrival"));
    }
    let mut time = [0_i64; 2];
    // SAFETY: the data of this kind of header is a `timespec`: two 64-bit numbers.
    unsafe {
        ptr::copy_nonoverlapping(
            libc::CMSG_DATA(header),
            time.as_mut_ptr().cast(),
            2 * size_of::<i64>(),
        );
    }
    let arrived_ns = time[0].unsigned_abs() * 1_000_000_000 + time[1].unsigned_abs();
    Ok((length.unsigned_abs(), arrived_ns))
}
