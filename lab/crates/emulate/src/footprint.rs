//! The lines of memory that each operation on a packet touches, from a recording of a bulk sender.
//!
//! The sender writes a segment to each connection in turn, so the lines of one connection are
//! touched once a round. A line belongs to the card if the card writes it. It belongs to a
//! connection if it is touched regularly once a round. Other lines are shared. A line is charged to
//! the operation that touches it first in a packet, because this operation waits for the line.

use perpacket_cost::{Direction, Layer, named};
use perpacket_memory::{Line, Side};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::context::Context;
use crate::recording::{Chunk, Event, Events, Mark, Recording, RecordingError};

named! {
    /// The operations of a bulk sender, as the simulator names them.
    enum Operation {
        UserWrite = "user.write",
        SyscallWrite = "syscall.write",
        TcpOutput = "tcp.output",
        IpOutput = "ip.output",
        EthernetOutput = "ethernet.output",
        DriverSend = "driver.send",
        DriverReceive = "driver.receive",
        EthernetInput = "ethernet.input",
        IpInput = "ip.input",
        TcpInput = "tcp.input",
        Background = "other.background",
    }
}

/// Base-2 logarithm of the longest period of a shared line, in packets.
const LONGEST_PERIOD: u32 = 12;

/// The number of periods, from 1 packet to the longest.
const PERIODS: usize = LONGEST_PERIOD as usize + 1;

/// Minimum number of rounds in which a line must be touched before its regularity is judged.
const LEAST_ROUNDS: u32 = 8;

/// Tolerance for the time of the next touch of a connection's line, as a fraction of a round.
const TOLERANCE: f64 = 0.15;

/// Minimum fraction of the gaps between a line's touches that must be whole rounds.
const REGULAR: f64 = 0.6;

impl Operation {
    /// The operation of a context. `None` for the idle processor, which works on no packet.
    fn of(context: Context) -> Option<Self> {
        let is_send = context.direction() == Direction::Send;
        Some(match (context.layer(), is_send) {
            (Layer::Idle, _) => return None,
            (Layer::User, _) => Self::UserWrite,
            (Layer::Syscall | Layer::Socket, _) => Self::SyscallWrite,
            (Layer::Tcp, true) => Self::TcpOutput,
            (Layer::Ip, true) => Self::IpOutput,
            (Layer::Ethernet, true) => Self::EthernetOutput,
            (Layer::Driver, true) => Self::DriverSend,
            (Layer::Driver, false) => Self::DriverReceive,
            (Layer::Ethernet, false) => Self::EthernetInput,
            (Layer::Ip, false) => Self::IpInput,
            (Layer::Tcp, false) => Self::TcpInput,
            _ => Self::Background,
        })
    }

    /// The direction of its packets; `None` for work on both.
    const fn is_send(self) -> Option<bool> {
        match self {
            Self::UserWrite
            | Self::SyscallWrite
            | Self::TcpOutput
            | Self::IpOutput
            | Self::EthernetOutput
            | Self::DriverSend => Some(true),
            Self::DriverReceive | Self::EthernetInput | Self::IpInput | Self::TcpInput => {
                Some(false)
            }
            Self::Background => None,
        }
    }
}

/// The lines that one operation touches first, on average over its packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Touches {
    /// The operation's name.
    pub operation: &'static str,
    /// Number of packets in the window on which the operation works.
    pub packets: u64,
    /// Instructions in the window.
    pub instructions: u64,
    /// Mean number of lines per packet that belong to the packet's connection.
    pub connection_lines: f64,
    /// Mean number of lines per packet that the card has written since the last touch.
    pub device_lines: f64,
    /// Shared lines of data by period: the element k counts lines that are touched every 2^k packets.
    /// A line with gaps of several lengths counts as a fraction in the period of each length. The
    /// fraction is the share of the window that the gaps of this length take.
    pub shared_lines: [u32; PERIODS],
    /// Lines of code by period.
    pub code_lines: [u32; PERIODS],
}

/// The footprint of a bulk sender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Footprint {
    /// Connections of the recording.
    pub connections: u32,
    /// Frames sent in the window.
    pub sent: u64,
    /// Frames received in the window.
    pub received: u64,
    /// Lines of a connection that packets of both directions touch.
    pub lines_of_both_directions: f64,
    /// Distinct lines by class: of connections, of the card, shared, of code.
    pub distinct_lines: [u64; 4],
    /// The operations.
    pub operations: Vec<Touches>,
}

/// Gaps of similar length between touches.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    number: u64,
    frames: u64,
}

/// One line in the window.
#[derive(Clone, Debug, Default)]
struct Usage {
    /// The last sent packet and the last received packet that touched the line, counted from 1.
    packet: [u32; 2],
    /// Number of packets that touched the line.
    packets: u32,
    /// Number of frames before the line's first touch and before its last touch, and the operation of
    /// the first touch.
    touched: Option<(u32, u32, Operation)>,
    /// The gaps between the line's touches, by the operation of the touch that ends the gap and by the
    /// logarithm of the gap.
    gaps: FxHashMap<(Operation, u32), Gaps>,
    /// The number of frames sent when its present round began.
    round: u32,
    rounds: u32,
    regular_rounds: u32,
    /// Whether a sent packet and a received packet of this round touched it.
    in_round: [bool; 2],
    /// Number of rounds in which packets touched the line, by direction and by the operation that
    /// touched it first. Neighbouring connections share some lines. Such a line counts once in a
    /// round, because only the first of these connections has a miss.
    once_a_round: [u32; Operation::ALL.len()],
    /// Whether the card has ever written the line.
    is_of_device: bool,
    /// Whether the card has written the line since its last touch.
    is_fresh: bool,
    /// Touches after a write of the card, by operation.
    fresh: [u32; Operation::ALL.len()],
}

impl Usage {
    /// A touch by an operation after a number of frames.
    fn touch(&mut self, operation: Operation, frames: u32) {
        self.packets += 1;
        match &mut self.touched {
            Some((_, last, _)) => {
                let gap = frames - std::mem::replace(last, frames);
                self.gap(operation, gap);
            }
            None => self.touched = Some((frames, frames, operation)),
        }
    }

    fn gap(&mut self, operation: Operation, gap: u32) {
        if let Some(logarithm) = gap.checked_ilog2() {
            let gaps = self.gaps.entry((operation, logarithm)).or_default();
            gaps.frames += u64::from(gap);
            gaps.number += 1;
        }
    }

    /// The window ends after a number of frames. The time before the first touch and the time after
    /// the last touch together count as one gap.
    fn end(&mut self, frames: u32) {
        if let Some((first, last, operation)) = self.touched {
            self.gap(operation, frames - last + first);
        }
    }

    fn is_of_connection(&self) -> bool {
        let gaps = self.rounds.saturating_sub(1);
        self.rounds >= LEAST_ROUNDS && f64::from(self.regular_rounds) >= REGULAR * f64::from(gaps)
    }

    /// Rounds in which packets of one direction touched it.
    fn rounds_of(&self, send: bool) -> u32 {
        let operations = Operation::ALL.into_iter().zip(self.once_a_round);
        operations
            .filter(|(operation, _)| operation.is_send() == Some(send))
            .map(|(_, count)| count)
            .sum()
    }
}

/// The footprint in the last window of a recording of a bulk sender.
///
/// # Errors
///
/// The recording is damaged or truncated, or its window lacks the number of connections, frames sent
/// or frames received.
pub fn footprint(recording: Recording<'_>) -> Result<Footprint, RecordingError> {
    if recording.processors().is_some() {
        return Err(RecordingError::Several);
    }
    let mut rows = Vec::new();
    let mut connections = 0;
    for chunk in recording.chunks() {
        if let Chunk::Window(facts) = chunk? {
            rows = facts.rows.iter().map(|row| row.context).collect();
            connections = facts.guest.connections();
        }
    }
    if connections == 0 {
        return Err(RecordingError::NoConnections);
    }
    let operations = rows.into_iter().map(Operation::of);
    let mut walk = Walk::new(operations.collect(), connections);
    for chunk in recording.chunks() {
        if let Chunk::Events(events) = chunk? {
            walk.run(events);
        }
    }
    if walk.sent == 0 || walk.received == 0 {
        return Err(RecordingError::NoFrames);
    }
    Ok(walk.footprint())
}

/// The state while events are read.
struct Walk {
    /// The operation of each row.
    operations: Vec<Option<Operation>>,
    connections: u32,
    data: FxHashMap<u32, Usage>,
    code: FxHashMap<u32, Usage>,
    instructions: [u64; Operation::ALL.len()],
    is_counting: bool,
    sent: u64,
    received: u64,
    /// Packets so far.
    packets: u32,
    /// The numbers of the packet being sent and of the packet being received, counted from 1.
    packet_of: [u32; 2],
    /// Whether the work is on the packet that is sent.
    sends: bool,
    /// Whether the packet has left. The processor still works on it until the processor returns to
    /// user code.
    has_left: bool,
    current: Option<Operation>,
}

impl Walk {
    fn new(operations: Vec<Option<Operation>>, connections: u32) -> Self {
        Self {
            operations,
            connections,
            data: FxHashMap::default(),
            code: FxHashMap::default(),
            instructions: [0; Operation::ALL.len()],
            is_counting: false,
            sent: 0,
            received: 0,
            packets: 2,
            packet_of: [1, 2],
            sends: true,
            has_left: false,
            current: None,
        }
    }

    fn run(&mut self, events: Events<'_>) {
        let mut has_row = false;
        for event in events {
            // A chunk without a row at its start begins with row 0.
            if !std::mem::replace(&mut has_row, true) && !matches!(event, Event::Row(_)) {
                self.enter(self.operations.first().copied().flatten());
            }
            match event {
                Event::Access(side, line) => self.access(side, line),
                Event::Row(row) => self.enter(self.operations.get(row).copied().flatten()),
                Event::Instructions(number) => {
                    if let (true, Some(operation)) = (self.is_counting, self.current) {
                        self.instructions[operation as usize] += number;
                    }
                }
                Event::Sent => {
                    self.sent += u64::from(self.is_counting);
                    self.has_left = true;
                }
                Event::Received => self.received += u64::from(self.is_counting),
                Event::DeviceWrite(first, lines) => self.device_write(first, lines),
                Event::Mark(Mark::Start) => {
                    // A later window replaces an earlier one.
                    let operations = std::mem::take(&mut self.operations);
                    let device = std::mem::take(&mut self.data);
                    *self = Self {
                        current: self.current,
                        ..Self::new(operations, self.connections)
                    };
                    let written = device.into_iter().filter(|(_, usage)| usage.is_of_device);
                    self.data = written
                        .map(|(line, usage)| {
                            (
                                line,
                                Usage {
                                    is_of_device: true,
                                    is_fresh: usage.is_fresh,
                                    ..Usage::default()
                                },
                            )
                        })
                        .collect();
                    self.is_counting = true;
                }
                Event::Mark(Mark::Stop) => self.is_counting = false,
                Event::Mark(Mark::Attach) | Event::Flush | Event::Detail(_) => {}
            }
        }
    }

    /// Work of another operation begins.
    fn enter(&mut self, operation: Option<Operation>) {
        let before = std::mem::replace(&mut self.current, operation);
        let Some(send) = operation.and_then(Operation::is_send) else {
            return;
        };
        self.sends = send;
        let is_next_received =
            operation == Some(Operation::EthernetInput) && before == Some(Operation::DriverReceive);
        let is_next_sent =
            operation == Some(Operation::UserWrite) && std::mem::take(&mut self.has_left);
        if is_next_sent || is_next_received {
            self.packets += 1;
            self.packet_of[usize::from(!send)] = self.packets;
        }
    }

    fn access(&mut self, side: Side, line: Line) {
        let Some(operation) = self.current else {
            return;
        };
        let lines = match side {
            Side::Instruction => &mut self.code,
            Side::Data => &mut self.data,
        };
        if !self.is_counting {
            if let Some(usage) = lines.get_mut(&line.0) {
                usage.is_fresh = false;
            }
            return;
        }
        let usage = lines.entry(line.0).or_default();
        if std::mem::take(&mut usage.is_fresh) {
            usage.fresh[operation as usize] += 1;
        }
        let direction = usize::from(!self.sends);
        let packet = self.packet_of[direction];
        if std::mem::replace(&mut usage.packet[direction], packet) == packet {
            return;
        }
        usage.touch(operation, (self.sent + self.received) as u32);
        let sent = self.sent as u32;
        let gap = f64::from(sent - usage.round) / f64::from(self.connections);
        if usage.rounds == 0 || gap > 0.5 {
            let is_regular = gap >= 1.0 - TOLERANCE && (gap - gap.round()).abs() <= TOLERANCE;
            usage.regular_rounds += u32::from(usage.rounds > 0 && is_regular);
            usage.rounds += 1;
            usage.round = sent;
            usage.in_round = [false; 2];
        }
        if !std::mem::replace(&mut usage.in_round[direction], true) {
            usage.once_a_round[operation as usize] += 1;
        }
    }

    fn device_write(&mut self, first: Line, lines: u32) {
        for line in first.0..first.0.saturating_add(lines) {
            let usage = self.data.entry(line).or_default();
            usage.is_of_device = true;
            usage.is_fresh = true;
        }
    }

    fn footprint(&self) -> Footprint {
        let packets = |operation: Operation| match operation.is_send() {
            Some(true) => self.sent,
            Some(false) => self.received,
            None => self.sent + self.received,
        };
        let mut operations = Operation::ALL.map(|operation| Touches {
            operation: operation.name(),
            packets: packets(operation),
            instructions: self.instructions[operation as usize],
            ..Touches::default()
        });
        let mut both = 0.0;
        let mut distinct = [0; 4];
        let frames = (self.sent + self.received) as f64;
        let mut shared = [Shared::default(), Shared::default()];
        for usage in self.data.values() {
            if usage.is_of_device {
                distinct[1] += u64::from(usage.packets > 0);
                for (touches, fresh) in operations.iter_mut().zip(usage.fresh) {
                    touches.device_lines += f64::from(fresh) / touches.packets as f64;
                }
            } else if usage.is_of_connection() {
                distinct[0] += 1;
                for (touches, first) in operations.iter_mut().zip(usage.once_a_round) {
                    touches.connection_lines += f64::from(first) / touches.packets as f64;
                }
                let sent = f64::from(usage.rounds_of(true)) / self.sent as f64;
                let received = f64::from(usage.rounds_of(false)) / self.received as f64;
                both += sent.min(received);
            } else {
                distinct[2] += 1;
                shared[0].add(usage, frames);
            }
        }
        for usage in self.code.values() {
            distinct[3] += 1;
            shared[1].add(usage, frames);
        }
        for (operation, touches) in Operation::ALL.into_iter().zip(&mut operations) {
            let every = frames / touches.packets as f64;
            touches.shared_lines = shared[0].lines(operation, every, frames);
            touches.code_lines = shared[1].lines(operation, every, frames);
        }
        Footprint {
            connections: self.connections,
            sent: self.sent,
            received: self.received,
            lines_of_both_directions: both,
            distinct_lines: distinct,
            operations: operations.into(),
        }
    }
}

/// Gaps of shared lines, by operation and logarithm.
#[derive(Default)]
struct Shared(FxHashMap<(Operation, u32), Gaps>);

impl Shared {
    fn add(&mut self, usage: &Usage, frames: f64) {
        let mut usage = usage.clone();
        usage.end(frames as u32);
        for (key, gaps) in usage.gaps {
            let all = self.0.entry(key).or_default();
            all.number += gaps.number;
            all.frames += gaps.frames;
        }
    }

    /// Lines by period, for an operation that runs once in `every` frames of a window.
    ///
    /// The gaps of one line add up to the window. So the number of lines of a period is the sum of
    /// all their gaps divided by the window. With this number of lines, a given number of frames
    /// touches on average as many lines as in the recording.
    fn lines(&self, operation: Operation, every: f64, frames: f64) -> [u32; PERIODS] {
        let mut lines = [0.0; PERIODS];
        for (_, gaps) in self.0.iter().filter(|((own, _), _)| *own == operation) {
            let calls = gaps.frames as f64 / gaps.number as f64 / every;
            let period = calls.max(1.0).log2().round() as usize;
            lines[period.min(PERIODS - 1)] += gaps.frames as f64 / frames;
        }
        lines.map(|lines| lines.round() as u32)
    }
}
