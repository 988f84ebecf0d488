//! `guest answer` and `guest ask`: small datagrams between the two sides of an emulated machine.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use perpacket_agent::status::{Failure, Status};
use perpacket_spec::{Spec, Whole};
use schemars::JsonSchema;
use serde::Serialize;

/// Time after which a datagram counts as lost and is sent again.
const LOST: Duration = Duration::from_millis(20);

/// Longest datagram of a frame of 1500 bytes.
const MOST_BYTES: u32 = 1472;

/// Send every datagram back to its sender.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
pub struct AnswerSpec {
    /// The address of the socket.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
}

/// Send a datagram from each of several sockets, and another after each answer.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
pub struct AskSpec {
    /// The address that answers.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// Number of sockets.
    #[arg(long, value_name = "N", default_value = "1")]
    connections: Whole<1, 20_000>,
    /// Bytes of a datagram.
    #[arg(long, value_name = "N", default_value = "64")]
    size: Whole<1, MOST_BYTES>,
}

impl Spec for AnswerSpec {}
impl Spec for AskSpec {}

/// Answers until the process ends.
pub fn answer(spec: &AnswerSpec) -> Result<Status, Failure> {
    let socket = UdpSocket::bind(spec.listen).map_err(|error| failed(spec.listen, &error))?;
    let mut datagram = [0; MOST_BYTES as usize];
    loop {
        let (bytes, from) = socket
            .recv_from(&mut datagram)
            .map_err(|error| failed(spec.listen, &error))?;
        socket
            .send_to(&datagram[..bytes], from)
            .map_err(|error| failed(from, &error))?;
    }
}

/// Asks until the process ends. The sockets take turns, so each has one datagram on its way.
pub fn ask(spec: &AskSpec) -> Result<Status, Failure> {
    let in_context = |error: io::Error| failed(spec.to, &error);
    let datagram = vec![0; spec.size.count()];
    let mut received = datagram.clone();
    let sockets = (0..spec.connections.get())
        .map(|_| connected(spec.to))
        .collect::<io::Result<Vec<_>>>()
        .map_err(in_context)?;
    for socket in &sockets {
        socket.send(&datagram).map_err(in_context)?;
    }
    loop {
        for socket in &sockets {
            match socket.recv(&mut received) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(in_context(error));
                }
                _ => {
                    socket.send(&datagram).map_err(in_context)?;
                }
            }
        }
    }
}

fn connected(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(LOST))?;
    Ok(socket)
}

fn failed(address: SocketAddr, error: &io::Error) -> Failure {
    Failure::failed(format!("{address}: {error}"))
}
