use super::*;
use crate::context::CommandKind;
use crate::parameters;
use crate::tcp::{Endpoint, Flags, Segment, Sequence};

/// A host that records the NIC's accesses to its memory.
#[derive(Default)]
struct RecordedHost {
    end: Option<Box<TimedEndpoint>>,
    frames: Vec<Frame>,
    returned: Vec<Command>,
    message: Option<Message>,
}

impl HostMemory for RecordedHost {
    fn move_frame(&mut self, _: &Frame, _: Time) -> Option<Time> {
        None
    }

    fn write_frame(&mut self, frame: Frame, _: &mut Context) {
        self.frames.push(frame);
    }

    fn write_message(&mut self, _: ConnectionId, add: impl FnOnce(&mut Message)) -> bool {
        let is_new = self.message.is_none();
        add(self.message.get_or_insert_default());
        is_new
    }

    fn take_connection(&mut self, _: ConnectionId) -> Option<Box<TimedEndpoint>> {
        self.end.take()
    }

    fn return_connection(&mut self, _: ConnectionId, end: Box<TimedEndpoint>) {
        self.end = Some(end);
    }

    fn take_command(&mut self, _: &Command) {}

    fn return_command(&mut self, command: Command, _: &mut Context) {
        self.returned.push(command);
    }

    fn refuse_send(&mut self, _: ConnectionId) {}
}

struct Pair {
    nic: Nic,
    host: RecordedHost,
    context: Context,
    connection: ConnectionId,
    segment: Segment,
}

impl Pair {
    /// A NIC, and a connection on the host whose client has sent its SYN.
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(overrides: &[(&str, &str)]) -> Self {
        let overrides: Vec<(String, String)> = overrides
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let parameters = parameters::resolve("W-16-N-N-FCFS-400", &overrides).unwrap();
        let settings = Settings::read(&parameters).unwrap();
        let mut context = Context::new();
        let connection = context.connections.open();
        let mut client = Endpoint::connect(&settings.tcp, Sequence(7));
        let segment = client.transmit(&settings.tcp, Time::ZERO).unwrap();
        assert!(segment.flags.has(Flags::SYN));
        let end = Endpoint::accept(&settings.tcp, Sequence(9), &segment);
        let host = RecordedHost {
            end: Some(Box::new(TimedEndpoint::new(end))),
            ..RecordedHost::default()
        };
        let link = Link::new(1_000, Span::from_us(50));
        Self {
            nic: Nic::new(&settings, link),
            host,
            context,
            connection,
            segment,
        }
    }

    fn command(&mut self, kind: CommandKind) {
        let connection = self.connection;
        let command = Command { connection, kind };
        self.nic.command(command, &mut self.host, &mut self.context);
        self.finish_tasks();
    }

    fn receive(&mut self) {
        let frame = Frame {
            connection: self.connection,
            segment: self.segment,
        };
        self.nic.receive(frame, &mut self.host, &mut self.context);
        self.finish_tasks();
    }

    /// Lets the NIC's processor finish what it has begun; other events are dropped.
    fn finish_tasks(&mut self) {
        while let Some((time, event)) = self.context.events.pop() {
            self.context.now = time;
            match event {
                Event::NicDone => self.nic.task_done(&mut self.host, &mut self.context),
                Event::NicMoved => self.nic.moved(&mut self.host, &mut self.context),
                _ => {}
            }
            self.context.connections.release(&event);
        }
    }
}

#[test]
fn frames_pass_to_the_host_until_the_handoff() {
    let mut pair = Pair::new();
    pair.receive();
    assert_eq!(pair.host.frames.len(), 1);
    pair.command(CommandKind::Handoff);
    assert!(pair.nic.runs(pair.connection) && pair.host.end.is_none());
    pair.receive();
    assert_eq!(pair.host.frames.len(), 1, "the NIC processes the frame");
    assert_eq!(pair.nic.connections(), 1);
}

#[test]
fn a_restore_returns_the_connection_and_the_commands_behind_it() {
    let mut pair = Pair::new();
    pair.command(CommandKind::Handoff);
    pair.command(CommandKind::Restore);
    assert!(!pair.nic.runs(pair.connection) && pair.host.end.is_some());
    assert!(pair.host.message.unwrap().restored);
    pair.command(CommandKind::Close);
    assert_eq!(pair.host.returned.len(), 1);
    assert_eq!(pair.nic.connections(), 0);
}

/// OSDI 2006, sections 2 and 4.1: packets are in the host's memory. A sent packet passes the NIC's
/// processor before and after its transfer, and a received packet only before its transfer.
#[test]
fn a_sent_packet_passes_the_processor_twice_and_a_received_one_once() {
    let instructions = [
        ("nic.instructions.host_pass", "400"),
        ("nic.instructions.lookup", "100"),
    ];
    // 400 million instructions a second: 2.5 ns each.
    for (staged, sent_ns, received_ns) in [
        ("true", 2 * 1_000 + 700, 1_250 + 700),
        ("false", 2_000, 1_250),
    ] {
        let mut pair = Pair::with(&[
            instructions[0],
            instructions[1],
            ("nic.dma_ns", "700"),
            ("nic.is_staged", staged),
        ]);
        let frame = Frame {
            connection: pair.connection,
            segment: pair.segment,
        };
        pair.nic.receive(frame, &mut pair.host, &mut pair.context);
        pair.finish_tasks();
        let [_, receive, _] = pair.context.measure.statistics();
        pair.nic.post(frame, &mut pair.host, &mut pair.context);
        pair.finish_tasks();
        let [send, _, _] = pair.context.measure.statistics();
        let (sent, received) = (send.unwrap().mean * 1e3, receive.unwrap().mean * 1e3);
        // The histogram has three significant digits.
        assert!(
            (sent / f64::from(sent_ns) - 1.0).abs() < 0.002,
            "{staged}: {sent}"
        );
        assert!(
            (received / f64::from(received_ns) - 1.0).abs() < 0.002,
            "{staged}: {received}"
        );
        assert_eq!(pair.host.frames.len(), 1);
        assert_eq!(pair.nic.frames(), [0, 0]);
    }
}

/// When a timer expires, the processor executes instructions for it, in addition to those for the
/// segment that is sent again. The event of a timer that was set again in the meantime costs no
/// instructions.
#[test]
fn a_timer_costs_instructions_when_it_has_run_out() {
    let mut pair = Pair::with(&[("nic.instructions.timer", "321")]);
    // The NIC acknowledges the SYN. In the last event, the timer of this acknowledgment runs out.
    pair.command(CommandKind::Handoff);
    let due = pair.context.now;
    // The 3,000 instructions of the handoff come before the segment.
    let handoff = Clock::from_mhz(400).span(3_000);
    assert_eq!(due.since(Time::ZERO), Span::from_ms(3_000.0) + handoff);
    for time in [due, due + Span::from_us(1)] {
        pair.context.now = time;
        let connection = pair.connection;
        pair.nic
            .timer(connection, &mut pair.host, &mut pair.context);
        pair.finish_tasks();
        let work = pair.nic.work();
        assert_eq!(work.since(&WorkCounts::default(), Work::Timer), (1, 321));
        assert_eq!(work.since(&WorkCounts::default(), Work::TcpSend).0, 2);
    }
}
