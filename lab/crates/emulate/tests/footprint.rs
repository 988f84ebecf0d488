//! The footprint of a recording whose lines are known.
#![allow(missing_docs, clippy::expect_used)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use perpacket_cost::{Direction, Kind, Layer};
use perpacket_emulate::recording::{
    Mark, Operation, RecordFilter, Recorder, Recording, RecordingError,
};
use perpacket_emulate::{Context, Facts, Frames, Guest, Returns, RowName, Touches, footprint};
use perpacket_memory::{Line, Side};

const CONNECTIONS: u32 = 5;
const ROUNDS: u32 = 20;

/// Number of lines of the connection that each sent packet touches. Each received packet touches
/// the last of them.
const OWN_LINES: u32 = 3;

/// The rows of the recording: the code that runs.
const ROWS: [(Layer, Direction); 6] = [
    (Layer::User, Direction::Neither),
    (Layer::Tcp, Direction::Send),
    (Layer::Driver, Direction::Receive),
    (Layer::Ethernet, Direction::Receive),
    (Layer::Tcp, Direction::Receive),
    (Layer::Idle, Direction::Neither),
];

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn facts(connections: u32) -> Facts {
    Facts {
        label: "window".to_owned(),
        frames: Some(Frames::default()),
        guest: Guest {
            values: [0, 0, 0, u64::from(connections), 0, 0],
            text: String::new(),
        },
        turn_instructions: 0,
        data_accesses: 0,
        returns: Returns::default(),
        responses: BTreeMap::new(),
        dma_lines: 0,
        rows: ROWS
            .iter()
            .map(|(layer, direction)| RowName {
                context: Context::new(*layer, Kind::Other, *direction),
                function: None,
                structure: None,
            })
            .collect(),
        processors: Vec::new(),
        queues: Vec::new(),
        meetings: None,
    }
}

/// A sender that writes to each connection in turn; each packet is acknowledged at once.
fn recording(rounds: u32) -> Vec<u8> {
    recording_of(rounds, CONNECTIONS)
}

/// The same as [`recording`], with another number of connections in its window.
fn recording_of(rounds: u32, connections: u32) -> Vec<u8> {
    let file = Shared::default();
    let mut recorder = Recorder::new(Box::new(file.clone()), RecordFilter::None);
    recorder.mark(Mark::Attach);
    recorder.mark(Mark::Start);
    for packet in 0..rounds * CONNECTIONS {
        let own = 10_000 + packet % CONNECTIONS * 64;
        recorder.instructions(0, 10);
        recorder.access(Side::Instruction, Line(1));
        recorder.instructions(1, 300);
        recorder.access(Side::Instruction, Line(2));
        for line in 0..OWN_LINES {
            recorder.access(Side::Data, Line(own + line));
        }
        recorder.access(Side::Data, Line(20_000));
        // Eight lines in turn.
        recorder.access(Side::Data, Line(21_000 + packet % 8));
        // A line in bursts: two packets in a row, then none for six.
        if packet % 8 < 2 {
            recorder.access(Side::Data, Line(22_000));
        }
        recorder.happened(Operation::Sent);
        // The sender returns from the send, but still works on the packet.
        recorder.instructions(1, 5);
        recorder.access(Side::Data, Line(own));
        recorder.instructions(5, 1000);
        recorder.access(Side::Data, Line(30_000));
        recorder.device_write(Line(40_000));
        recorder.instructions(2, 20);
        recorder.access(Side::Data, Line(40_000));
        recorder.instructions(3, 20);
        recorder.access(Side::Data, Line(40_000));
        recorder.instructions(4, 200);
        recorder.access(Side::Data, Line(own + OWN_LINES - 1));
        recorder.happened(Operation::Received);
    }
    recorder.mark(Mark::Stop);
    recorder.window(&facts(connections));
    recorder.finish().expect("written to memory");
    file.0.take()
}

fn operation<'a>(operations: &'a [Touches], name: &str) -> &'a Touches {
    operations
        .iter()
        .find(|touches| touches.operation == name)
        .expect("an operation of the sender")
}

#[test]
fn each_line_is_charged_to_its_class_and_to_the_operation_that_touches_it_first() {
    let bytes = recording(ROUNDS);
    let footprint =
        footprint(Recording::new(&bytes).expect("a recording")).expect("a whole recording");
    let packets = u64::from(ROUNDS * CONNECTIONS);
    assert_eq!((footprint.sent, footprint.received), (packets, packets));
    let own = u64::from(OWN_LINES * CONNECTIONS);
    assert_eq!(footprint.distinct_lines, [own, 1, 10, 2]);
    assert!((footprint.lines_of_both_directions - 1.0).abs() < 1e-9);

    let sent = operation(&footprint.operations, "tcp.output");
    assert_eq!((sent.packets, sent.instructions), (packets, 305 * packets));
    assert!((sent.connection_lines - f64::from(OWN_LINES)).abs() < 1e-9);
    // One line is touched in each packet, and eight lines in every eighth packet. Another line is
    // touched in bursts: gaps of seven packets take most of its time, so it counts with the eight.
    assert_eq!(sent.shared_lines[..4], [1, 0, 0, 9]);
    assert_eq!(sent.code_lines[..2], [1, 0]);

    let received = operation(&footprint.operations, "tcp.input");
    assert!((received.connection_lines - 1.0).abs() < 1e-9);
    let driver = operation(&footprint.operations, "driver.receive");
    assert!((driver.device_lines - 1.0).abs() < 1e-9);
    let ethernet = operation(&footprint.operations, "ethernet.input");
    assert!(ethernet.device_lines.abs() < 1e-9);
    let all: u64 = footprint
        .operations
        .iter()
        .map(|touches| touches.instructions)
        .sum();
    assert_eq!(
        all,
        packets * (10 + 305 + 20 + 20 + 200),
        "no idle processor"
    );
}

#[test]
fn lines_of_few_rounds_are_not_of_a_connection() {
    let bytes = recording(4);
    let footprint =
        footprint(Recording::new(&bytes).expect("a recording")).expect("a whole recording");
    assert_eq!(footprint.distinct_lines[0], 0);
}

#[test]
fn a_window_without_frames_is_an_error() {
    let bytes = recording(0);
    let footprint = footprint(Recording::new(&bytes).expect("a recording"));
    assert!(matches!(footprint, Err(RecordingError::NoFrames)));
}

#[test]
fn a_window_without_the_number_of_connections_is_an_error() {
    let bytes = recording_of(ROUNDS, 0);
    let footprint = footprint(Recording::new(&bytes).expect("a recording"));
    assert!(matches!(footprint, Err(RecordingError::NoConnections)));
}
