//! The cost of an operation: instructions, and the lines of structures that it touches.

use perpacket_cost::Layer;
use perpacket_memory::Line;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;

use super::address::DividedLines;
use crate::error::ConfigurationError;
use crate::parameters::ParameterSet;
use perpacket_cost::named;

named! {
    /// The structures in memory.
    pub enum Structure {
        File = "file",
        Socket = "socket",
        Inpcb = "inpcb",
        Tcpcb = "tcpcb",
        Record = "record",
        Heap = "heap",
        Mbuf = "mbuf",
        TxMbuf = "tx_mbuf",
        TxDescriptor = "tx_descriptor",
        DoneDescriptor = "done_descriptor",
        TxSlot = "tx_slot",
        RxSlot = "rx_slot",
        RxMbuf = "rx_mbuf",
        RxBuffer = "rx_buffer",
        RxDescriptor = "rx_descriptor",
        Object = "object",
        PcbHash = "pcb_hash",
        Callout = "callout",
        Kernel = "kernel",
        Process = "process",
        Background = "background",
        Stream = "stream",
        Shared = "shared",
        Code = "code",
    }
}

impl Structure {
    /// Whether its lines are scattered over memory, so that it may be larger than a page.
    pub const fn is_scattered(self) -> bool {
        matches!(self, Self::Shared | Self::Code)
    }

    /// The distance between two of its lines. Those of a heap and of an object are every second line of
    /// a page, so that a prefetch of the next line does not help.
    pub const fn spacing(self) -> u32 {
        match self {
            Self::Heap | Self::Object => 2,
            _ => 1,
        }
    }

    /// Whether the kernel has one for each connection, with fields that can be reordered.
    const fn is_reordered(self) -> bool {
        matches!(self, Self::File | Self::Socket | Self::Inpcb | Self::Tcpcb)
    }

    /// Structures without instances: each touch uses the next lines in turn. The number is the index
    /// of the rotation.
    const fn rotation(self) -> Option<usize> {
        match self {
            Self::Background => Some(0),
            Self::Stream => Some(1),
            _ => None,
        }
    }
}

named! {
    /// The operations of the host. Each belongs to one layer. Their code is in memory in this order.
    /// Some operations of the web server and all of the bypass are last, so that they move no code of
    /// the bulk sender.
    pub enum Operation {
        UserRequest = "user.request",
        UserConnection = "user.connection",
        UserDynamic = "user.dynamic",
        UserWrite = "user.write",
        Poll = "syscall.poll",
        PollEvent = "syscall.poll_event",
        Accept = "syscall.accept",
        Read = "syscall.read",
        WriteHeader = "syscall.write_header",
        Sendfile = "syscall.sendfile",
        SendfilePage = "syscall.sendfile_page",
        WriteCopy = "syscall.write_copy",
        Write = "syscall.write",
        Wakeup = "syscall.wakeup",
        DynamicCalls = "syscall.dynamic",
        Close = "syscall.close",
        TcpOutput = "tcp.output",
        TcpInput = "tcp.input",
        TcpFreeMbuf = "tcp.free_mbuf",
        TcpFreePage = "tcp.free_page",
        TcpWalk = "tcp.walk",
        AppendWalk = "syscall.append_walk",
        TcpOpen = "tcp.open",
        TcpClose = "tcp.close",
        IpOutput = "ip.output",
        IpInput = "ip.input",
        EthernetOutput = "ethernet.output",
        EthernetInput = "ethernet.input",
        DriverSend = "driver.send",
        DriverReceive = "driver.receive",
        Background = "other.background",
        TcpOutputIdle = "tcp.output_idle",
        DriverInterrupt = "driver.interrupt",
        DriverClean = "driver.clean",
        Interrupt = "other.interrupt",
        DriverPrefetchHeader = "driver.prefetch_header",
        DriverPrefetchTcp = "driver.prefetch_tcp",
        PrefetchSyscall = "syscall.prefetch",
        PrefetchTcp = "syscall.prefetch_tcp",
        UserRespond = "user.respond",
        FilePages = "other.file_pages",
        BypassCommand = "bypass.command",
        BypassMessage = "bypass.message",
        BypassHandoff = "bypass.handoff",
        BypassRestore = "bypass.restore",
        BypassForward = "bypass.forward",
    }
}

impl Operation {
    /// Whether it can touch the heap. The bulk sender has no heap, and never runs these operations.
    const fn can_touch_heap(self) -> bool {
        matches!(
            self,
            Self::UserRequest
                | Self::UserRespond
                | Self::UserDynamic
                | Self::DynamicCalls
                | Self::Read
                | Self::WriteHeader
                | Self::WriteCopy
        )
    }
}

/// Lines of one structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub structure: Structure,
    pub rotation: Option<usize>,
    pub first: u32,
    pub end: u32,
    /// Calls after which all of its lines were touched: each call touches the next part.
    pub every: u32,
}

impl Touch {
    /// The lines that a call touches.
    pub fn of_call(&self, call: u64) -> Range<u32> {
        let (lines, every) = (u64::from(self.end - self.first), u64::from(self.every));
        let end = |part: u64| self.first + (part * lines / every) as u32;
        end(call % every)..end(call % every + 1)
    }
}

/// The cost of one operation.
#[derive(Clone, Debug)]
pub struct Footprint {
    pub layer: Layer,
    pub instructions: u64,
    pub touches: Box<[Touch]>,
}

impl Footprint {
    /// The touches of a scattered structure, whose lines are at `places`.
    pub fn touches_of(&self, structure: Structure, places: &[Line]) -> Box<[DividedLines]> {
        self.touches
            .iter()
            .filter(|touch| touch.structure == structure)
            .map(|touch| DividedLines::new(*touch, places))
            .collect()
    }
}

/// Sizes of the structures, in lines if the name has no unit: `structures.*`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Structures {
    pub file: u32,
    pub socket: u32,
    pub inpcb: u32,
    pub tcpcb: u32,
    pub record: u32,
    pub heap: u32,
    pub mbuf: u32,
    pub tx_mbuf: u32,
    pub tx_mbufs: u32,
    pub rx_mbuf: u32,
    pub rx_buffer: u32,
    pub rx_buffers: u32,
    pub descriptors_per_line: u32,
    pub tx_descriptors: u32,
    pub slots_per_line: u32,
    pub ring: u32,
    pub unsent_frames: u32,
    pub object: u32,
    pub pcb_hash: u32,
    pub callout: u32,
    pub background: u32,
    pub stream: u32,
    pub kernel: u32,
    pub process: u32,
    pub shared: u32,
    pub code: u32,
    /// The share of a connection's lines that is touched. It is 1 if the fields are in their
    /// declared order, and less if fields that are used together are adjacent.
    pub field_share: f64,
}

impl Structures {
    /// The lines `first..end` of a structure, or those that have the same fields after reordering.
    fn reordered(&self, structure: Structure, first: u32, end: u32) -> Range<u32> {
        if !structure.is_reordered() {
            return first..end;
        }
        let first = (f64::from(first) * self.field_share).floor() as u32;
        let end = (f64::from(end) * self.field_share).ceil() as u32;
        first..end.max(first + 1)
    }

    /// Lines of one instance.
    pub const fn lines(&self, structure: Structure) -> u32 {
        match structure {
            Structure::File => self.file,
            Structure::Socket => self.socket,
            Structure::Inpcb => self.inpcb,
            Structure::Tcpcb => self.tcpcb,
            Structure::Record => self.record,
            Structure::Heap => self.heap,
            Structure::Mbuf => self.mbuf,
            Structure::TxMbuf => self.tx_mbuf,
            Structure::RxMbuf => self.rx_mbuf,
            Structure::RxBuffer => self.rx_buffer,
            Structure::Object => self.object,
            Structure::TxDescriptor
            | Structure::DoneDescriptor
            | Structure::TxSlot
            | Structure::RxSlot
            | Structure::RxDescriptor
            | Structure::PcbHash
            | Structure::Callout => 1,
            Structure::Kernel => self.kernel,
            Structure::Process => self.process,
            Structure::Background => self.background,
            Structure::Stream => self.stream,
            Structure::Shared => self.shared,
            Structure::Code => self.code,
        }
    }

    fn check(&self) -> Result<(), ConfigurationError> {
        const PAGE_LINES: u32 = 64;
        const MOST: u32 = 1 << 22;
        for structure in Structure::ALL {
            let lines = self.lines(structure);
            let most = if structure.rotation().is_some() || structure.is_scattered() {
                MOST
            } else {
                PAGE_LINES / structure.spacing()
            };
            if lines == 0 || lines > most {
                return Err(ConfigurationError::new(
                    format!("structures.{}", structure.name()),
                    lines,
                    format!("expected 1 to {most} lines"),
                ));
            }
        }
        if !(self.field_share > 0.0 && self.field_share <= 1.0) {
            return Err(ConfigurationError::new(
                "structures.field_share",
                self.field_share,
                "expected more than 0 and at most 1",
            ));
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationData {
    instructions: u64,
    touches: Vec<String>,
}

/// The footprints of all operations, by `Operation as usize`, and the structures' sizes.
pub fn read(
    parameters: &ParameterSet,
) -> Result<(Box<[Footprint]>, Structures), ConfigurationError> {
    let structures: Structures = parameters.section("structures")?;
    structures.check()?;
    let mut layers: BTreeMap<String, BTreeMap<String, OperationData>> =
        parameters.section("layers")?;
    let mut footprints = Vec::with_capacity(Operation::ALL.len());
    for operation in Operation::ALL {
        let name = operation.name();
        let (layer, task) = name.split_once('.').unwrap_or((name, ""));
        let data = layers.get_mut(layer).and_then(|tasks| tasks.remove(task));
        let (Some(layer), Some(data)) = (Layer::from_name(layer), data) else {
            return Err(ConfigurationError::new(
                format!("layers.{name}"),
                "missing",
                "expected its instructions and touches",
            ));
        };
        const MOST_INSTRUCTIONS: u64 = 1_000_000_000;
        if data.instructions > MOST_INSTRUCTIONS {
            return Err(ConfigurationError::new(
                format!("layers.{name}.instructions"),
                data.instructions,
                format!("expected {MOST_INSTRUCTIONS} or fewer"),
            ));
        }
        let touches: Result<_, _> = data
            .touches
            .iter()
            .map(|text| parse_touch(operation, text, &structures))
            .collect();
        footprints.push(Footprint {
            layer,
            instructions: data.instructions,
            touches: touches?,
        });
    }
    let unknown = layers
        .iter()
        .find_map(|(layer, tasks)| tasks.keys().next().map(|task| format!("{layer}.{task}")));
    match unknown {
        Some(name) => Err(ConfigurationError::new(
            format!("layers.{name}"),
            "unknown",
            "no operation of the simulator has this name",
        )),
        None => Ok((footprints.into(), structures)),
    }
}

fn parse_touch(
    operation: Operation,
    text: &str,
    structures: &Structures,
) -> Result<Touch, ConfigurationError> {
    let wrong = |allowed: String| {
        ConfigurationError::new(
            format!("layers.{}.touches", operation.name()),
            text,
            allowed,
        )
    };
    let form =
        || wrong("expected `structure first..end` in lines, such as `socket 0..3`".to_owned());
    let (name, range) = text.split_once(' ').ok_or_else(form)?;
    let (range, every) = range.split_once(" / ").unwrap_or((range, "1"));
    let every: u32 = every.parse().map_err(|_| form())?;
    let (first, end) = range.split_once("..").ok_or_else(form)?;
    let first: u32 = first.parse().map_err(|_| form())?;
    let end: u32 = end.parse().map_err(|_| form())?;
    let Some(structure) = Structure::from_name(name) else {
        let known = Structure::ALL.map(Structure::name);
        return Err(wrong(format!("the structures are {}", known.join(", "))));
    };
    if structure == Structure::Heap && !operation.can_touch_heap() {
        let able: Vec<_> = Operation::ALL
            .into_iter()
            .filter(|operation| operation.can_touch_heap())
            .map(Operation::name)
            .collect();
        return Err(wrong(format!("only {} touch the heap", able.join(", "))));
    }
    let lines = structures.lines(structure);
    if first >= end || end > lines {
        return Err(wrong(format!("`{name}` has {lines} lines")));
    }
    if every == 0 || every > 1 && structure.rotation().is_some() {
        return Err(wrong(format!("`{name}` is not touched in parts")));
    }
    let Range { start, end } = structures.reordered(structure, first, end);
    Ok(Touch {
        structure,
        rotation: structure.rotation(),
        first: start,
        end,
        every,
    })
}
