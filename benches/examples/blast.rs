//! A steady stream of UDP packets that contain the time at which they were sent, and its receiver.
//!
//! This program measures one-way delay between two hosts that share a clock, such as two network
//! namespaces of one machine. The delay ends when the receiving kernel gets the packet from its
//! device, so it does not depend on how busy the receiving program is.
//!
//! ```text
//! blast receive 0.0.0.0:9000
//! blast send 10.0.0.1:9000 200000000 1472 5
//! ```
//!
//! The sender's arguments are a destination, a rate in bits a second of Ethernet frames, bytes a
//! packet and seconds. The sender spins between packets, so its own lateness is not part of the
//! measurement. After a pause it does not catch up, because that would cause a burst. The receiver
//! ends after a second without packets and prints JSON with times in microseconds.

use std::env;
use std::error::Error;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use hdrhistogram::Histogram;
use perpacket_linux::clock::realtime_ns;
use perpacket_linux::udp;

/// Bytes of the Ethernet, IPv4 and UDP headers.
const HEADER_BYTES: u64 = 14 + 20 + 8;

/// The receiver ends after this time without packets.
const SILENCE: Duration = Duration::from_secs(1);

/// Room for packets that wait to be received.
const BUFFER_BYTES: usize = 8 << 20;

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

fn send(to: &str, rate_bps: u64, size_bytes: usize, duration_s: f64) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let mut packet = vec![0; size_bytes.max(8)];
    let frame_bits = (packet.len() as u64 + HEADER_BYTES) * 8;
    let interval_ns = frame_bits * 1_000_000_000 / rate_bps;
    let start_ns = realtime_ns();
    let end_ns = start_ns + (duration_s * 1e9) as u64;
    let mut due_ns = start_ns;
    let mut packets = 0_u64;
    while due_ns < end_ns {
        let mut time_ns = realtime_ns();
        while time_ns < due_ns {
            std::hint::spin_loop();
            time_ns = realtime_ns();
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
    udp::record_arrivals(&socket)?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)?;
    println!("ready");
    let mut delays_ns = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3)?;
    let mut packet = [0; 2048];
    loop {
        match udp::receive(&socket, &mut packet) {
            Ok(received) if received.bytes >= 8 => {
                let sent_ns = u64::from_le_bytes(packet[..8].try_into()?);
                let arrived_ns = received
                    .arrival_ns
                    .ok_or("a packet has no time of arrival")?;
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
