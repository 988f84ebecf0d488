//! Sends frames at a rate, from one CPU.
//!
//! A packet socket sends batches and numbers each frame. Live frames cost less. They are frames
//! that the kernel passes to an XDP program and really sends (`BPF_PROG_RUN`). But all of them are
//! equal, and their rate is at least some 10,000 a second. The far end of a veth device accepts
//! live frames only if it has a program too ([`crate::plane::accept_redirected`]).

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use perpacket_linux::clock::monotonic_ns;
use perpacket_linux::interface::Interface;
use perpacket_linux::packet::{BATCH, PacketSocket};
use schemars::JsonSchema;
use serde::Serialize;

use crate::bpf::{self, License, Numbers, Program, redirect};
use crate::error::RouterError;
use crate::stream::{SEQUENCE_AT, Stream};

/// How frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Batches through a packet socket. They bypass the queueing discipline.
    Socket,
    /// Live frames of `BPF_PROG_RUN`.
    Live,
}

/// A generator of one stream on one interface.
#[derive(Debug)]
pub struct Generator {
    interface: Interface,
    sender: Sender,
}

#[derive(Debug)]
enum Sender {
    Socket {
        socket: PacketSocket,
        frames: Vec<Vec<u8>>,
        next_sequence: u64,
    },
    Live {
        program: Program,
        pace: Numbers,
        frame: Vec<u8>,
    },
}

/// The counts of one call of [`Generator::send`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sent {
    pub frames: u64,
    /// Time spent sending, without set-up, in seconds.
    pub duration_s: f64,
}

/// Longest time that one call sends live frames. A call cannot be interrupted. At the end of a
/// call, the kernel waits for an RCU grace period of tens of milliseconds, so short calls would
/// lower the rate.
const LONGEST_CALL_S: f64 = 4.0;

/// Time from the start of a call to its first frame.
const SET_UP: Duration = Duration::from_millis(1);

/// The time after which a stream stops even if frames are left. It is a little more than the
/// planned time, because the machine may be busy for a moment.
fn limit(planned_s: f64) -> Duration {
    Duration::from_secs_f64(planned_s * 1.01) + Duration::from_millis(5)
}

/// Shortest wait in which the generator sleeps. In a shorter wait it polls the clock, because a
/// sleep lasts longer than requested.
const SHORTEST_SLEEP: Duration = Duration::from_micros(120);

impl Generator {
    /// Opens a generator.
    ///
    /// # Errors
    /// The interface, or BPF for live frames, cannot be used.
    pub fn open(
        interface: &Interface,
        stream: &Stream,
        method: Method,
    ) -> Result<Self, RouterError> {
        let frame = stream.frame()?;
        let (socket, hardware) = PacketSocket::open(interface, false)?;
        let sender = match method {
            Method::Socket => {
                socket
                    .bypass_queue()
                    .map_err(interface.failed("bypass its queueing discipline"))?;
                Sender::Socket {
                    socket,
                    frames: vec![frame; BATCH],
                    next_sequence: 0,
                }
            }
            Method::Live => {
                let pace = Numbers::new()?;
                let program = redirect(stream, hardware.index, &pace)?;
                Sender::Live {
                    program: bpf::load(&program, License::Mit)?,
                    pace,
                    frame,
                }
            }
        };
        Ok(Self {
            interface: interface.clone(),
            sender,
        })
    }

    /// Sends frames at a rate. Stops after the planned time if the machine is slower. Before each
    /// batch, `may_continue` decides whether to go on.
    ///
    /// # Errors
    /// The kernel refuses frames.
    pub fn send(
        &mut self,
        frames: u64,
        rate_pps: f64,
        may_continue: impl Fn() -> bool + Send,
    ) -> Result<Sent, RouterError> {
        let interface = self.interface.clone();
        interface.inside(move || match &mut self.sender {
            Sender::Socket {
                socket,
                frames: buffers,
                next_sequence,
            } => send_batches(
                socket,
                buffers,
                next_sequence,
                frames,
                rate_pps,
                may_continue,
            ),
            Sender::Live {
                program,
                pace,
                frame,
            } => send_live(program, pace, frame, frames, rate_pps, may_continue),
        })
    }
}

fn send_batches(
    socket: &PacketSocket,
    buffers: &mut [Vec<u8>],
    next_sequence: &mut u64,
    frames: u64,
    rate_pps: f64,
    may_continue: impl Fn() -> bool,
) -> Result<Sent, RouterError> {
    let begin = Instant::now();
    let limit = limit(frames as f64 / rate_pps);
    let mut sent = 0;
    while sent < frames && may_continue() {
        let elapsed = begin.elapsed();
        if elapsed > limit {
            break;
        }
        let due = frames.min((elapsed.as_secs_f64() * rate_pps) as u64 + 1);
        if due <= sent {
            let next = Duration::from_secs_f64(sent as f64 / rate_pps);
            wait(next.saturating_sub(elapsed));
            continue;
        }
        let count = (due - sent).min(buffers.len() as u64) as usize;
        for (frame, sequence) in buffers[..count].iter_mut().zip(*next_sequence..) {
            frame[SEQUENCE_AT..SEQUENCE_AT + 8].copy_from_slice(&sequence.to_be_bytes());
        }
        let sent_now = match socket.send(&buffers[..count]) {
            Ok(count) => count as u64,
            Err(error) if is_full(&error) => 0,
            Err(source) => return Err(RouterError::traffic("send frames")(source)),
        };
        *next_sequence += sent_now;
        sent += sent_now;
    }
    Ok(Sent {
        frames: sent,
        duration_s: begin.elapsed().as_secs_f64(),
    })
}

fn send_live(
    program: &Program,
    pace: &Numbers,
    frame: &[u8],
    frames: u64,
    rate_pps: f64,
    may_continue: impl Fn() -> bool,
) -> Result<Sent, RouterError> {
    let longest_call = (rate_pps * LONGEST_CALL_S).max(1.0) as u64;
    let planned_s = frames as f64 / rate_pps;
    let mut sent = Sent {
        frames: 0,
        duration_s: 0.0,
    };
    while sent.frames < frames && sent.duration_s <= planned_s && may_continue() {
        let count = longest_call
            .min(frames - sent.frames)
            .min(u64::from(u32::MAX)) as u32;
        let first_ns = monotonic_ns() + SET_UP.as_nanos() as u64;
        let gap_ns = (1e9 / rate_pps) as u64;
        pace.write([first_ns, gap_ns, first_ns])?;
        program.run_live(frame, count)?;
        let [_, _, latest_ns] = pace.read()?;
        sent.frames += u64::from(count);
        sent.duration_s += (latest_ns.saturating_sub(first_ns) + gap_ns) as f64 / 1e9;
    }
    Ok(sent)
}

/// Whether the device has no room now.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn wait(time: Duration) {
    if time > SHORTEST_SLEEP {
        thread::sleep(time - SHORTEST_SLEEP / 2);
    } else {
        thread::yield_now();
    }
}
