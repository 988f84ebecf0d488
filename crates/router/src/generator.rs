//! Makes frames at a rate, from one core.
//!
//! A packet socket sends batches and numbers each frame. Live frames of `BPF_PROG_RUN` cost less, but
//! all are equal, no rate is below some 10,000 a second, and the far end of a veth device takes them
//! only if it has a program too ([`crate::plane::take_redirected`]).

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::packet::{BATCH, PacketSocket};
use serde::Serialize;

use crate::bpf::{self, License, Numbers, Program, redirect};
use crate::error::RouterError;
use crate::place::Place;
use crate::stream::{SEQUENCE_AT, Stream};

/// How frames are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Batches through a packet socket, past the queueing discipline.
    Socket,
    /// Live frames of `BPF_PROG_RUN`.
    Live,
}

/// A generator of one stream on one interface.
#[derive(Debug)]
pub struct Generator {
    place: Place,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
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

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// Frames.
    pub frames: u64,
    /// Seconds it took, without setting up.
    pub duration_s: f64,
}

/// Longest run of live frames in one call, which cannot be broken off. To end a call the kernel
/// waits for readers of its lists, tens of milliseconds, so short ones would not keep a rate.
const LONGEST_CALL_S: f64 = 4.0;

/// Time from the begin of a call to its first frame.
const SET_UP: Duration = Duration::from_millis(1);

/// Time beyond its own after which a stream is broken off: a machine that is busy for a moment does
/// not spoil a slow stream, and one that cannot keep the rate does not make a trial endless.
fn limit(planned_s: f64) -> Duration {
    Duration::from_secs_f64(planned_s * 1.01) + Duration::from_millis(5)
}

/// Below this wait the clock is watched instead of sleeping, since sleep lasts longer than asked.
const SHORTEST_SLEEP: Duration = Duration::from_micros(120);

impl Generator {
    /// Opens it.
    ///
    /// # Errors
    /// The interface, or for live frames BPF, cannot be used.
    pub fn open(place: &Place, stream: &Stream, method: Method) -> Result<Self, RouterError> {
        let frame = stream.frame()?;
        let (socket, hardware) = place.socket(false)?;
        let kind = match method {
            Method::Socket => {
                socket
                    .bypass_queue()
                    .map_err(|source| place.failed("pass its queueing discipline by", source))?;
                Kind::Socket {
                    socket,
                    frames: vec![frame; BATCH],
                    next_sequence: 0,
                }
            }
            Method::Live => {
                let pace = Numbers::new()?;
                let program = redirect(stream, hardware.index, &pace)?;
                Kind::Live {
                    program: bpf::load(&program, License::Mit)?,
                    pace,
                    frame,
                }
            }
        };
        Ok(Self {
            place: place.clone(),
            kind,
        })
    }

    /// Sends so many frames at a rate, or as many as go out within the time they should take; `goes`
    /// is asked before each batch whether to go on.
    ///
    /// # Errors
    /// The kernel takes no frames.
    pub fn send(
        &mut self,
        frames: u64,
        rate_pps: f64,
        goes: impl Fn() -> bool + Send,
    ) -> Result<Sent, RouterError> {
        let place = self.place.clone();
        place.inside(move || match &mut self.kind {
            Kind::Socket {
                socket,
                frames: buffers,
                next_sequence,
            } => send_batches(socket, buffers, next_sequence, frames, rate_pps, goes),
            Kind::Live {
                program,
                pace,
                frame,
            } => send_live(program, pace, frame, frames, rate_pps, goes),
        })
    }
}

fn send_batches(
    socket: &PacketSocket,
    buffers: &mut [Vec<u8>],
    next_sequence: &mut u64,
    frames: u64,
    rate_pps: f64,
    goes: impl Fn() -> bool,
) -> Result<Sent, RouterError> {
    let begin = Instant::now();
    let limit = limit(frames as f64 / rate_pps);
    let mut sent = 0;
    while sent < frames && goes() {
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
        let gone = match socket.send(&buffers[..count]) {
            Ok(gone) => gone as u64,
            Err(error) if is_full(&error) => 0,
            Err(source) => {
                return Err(RouterError::Traffic {
                    what: "send frames",
                    source,
                });
            }
        };
        *next_sequence += gone;
        sent += gone;
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
    goes: impl Fn() -> bool,
) -> Result<Sent, RouterError> {
    let most = (rate_pps * LONGEST_CALL_S).max(1.0) as u64;
    let planned_s = frames as f64 / rate_pps;
    let mut sent = Sent {
        frames: 0,
        duration_s: 0.0,
    };
    while sent.frames < frames && sent.duration_s <= planned_s && goes() {
        let count = most.min(frames - sent.frames).min(u64::from(u32::MAX)) as u32;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = Duration::try_from(now).unwrap_or_default();
        let first_ns = (now + SET_UP).as_nanos() as u64;
        let gap_ns = (1e9 / rate_pps) as u64;
        pace.write([first_ns, gap_ns, first_ns])?;
        program.run_live(frame, count)?;
        let [_, _, latest_ns] = pace.read()?;
        sent.frames += u64::from(count);
        sent.duration_s += (latest_ns.saturating_sub(first_ns) + gap_ns) as f64 / 1e9;
    }
    Ok(sent)
}

/// Whether a device had no room at the moment.
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
