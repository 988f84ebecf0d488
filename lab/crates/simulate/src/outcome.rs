//! The result of a run.

use perpacket_cost::Layer;
use serde::Serialize;
use std::collections::BTreeMap;

use crate::context::Event;
use crate::engine::Engine;
use crate::host::cost::Cost;
use crate::host::footprint::Operation;
use crate::measure::Statistics;

/// Version of this format.
pub const SCHEMA: u32 = 1;

/// The result of one run. Shares are 0 to 1; rates are per second of simulated time; a packet is
/// one frame sent or received by the server's NIC. Values that do not apply to a workload are
/// `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Version of this format.
    pub schema: u32,
    /// The configuration's name.
    pub configuration: String,
    /// The seed of the workload and of memory placement.
    pub seed: u64,
    /// Length of the measured window, simulated seconds.
    pub simulated_s: f64,
    /// Packets in the window.
    pub packets: u64,
    /// Complete HTTP responses received, a second.
    pub requests_per_s: Option<f64>,
    /// HTTP content (for the bulk sender: payload) received by clients, 10^6 bits a second.
    pub content_mbps: f64,
    /// Frames sent and received, a second.
    pub packets_per_s: f64,
    /// Share of packets that TCP on the NIC processed.
    pub nic_packet_share: f64,
    /// Connections established, a second.
    pub connections_per_s: f64,
    /// Share of the established connections that were handed off.
    pub handed_off_share: Option<f64>,
    /// Share of time the host's processor is idle.
    pub host_idle: f64,
    /// Share of time the NIC's processor is idle.
    pub nic_idle: f64,
    /// Host cycles in the window.
    pub host_cycles: HostCycles,
    /// Share of the host's busy cycles in the stack below the system calls.
    pub stack_share: f64,
    /// Cost of a packet by layer, on the host.
    pub layers: BTreeMap<&'static str, LayerPerPacket>,
    /// Time in which host packets cross the NIC, microseconds.
    pub host_packet_delay_us: Delays,
    /// From sending a request to receiving the complete response, milliseconds.
    pub response_ms: Option<Statistics>,
    /// Frames dropped by full queues, both directions.
    pub drops: u64,
    /// TCP segments sent again, by either end.
    pub retransmissions: u64,
    /// TCP retransmission timeouts, at either end.
    pub timeouts: u64,
    /// Messages from the NIC to the host.
    pub nic_messages: Messages,
    /// Connections on the NIC over the window.
    pub connections_on_nic: OnNic,
    /// Whether frames are conserved: sent = delivered + dropped + in flight, in both directions.
    pub conserved: bool,
    /// Events in the whole run, for the benchmark.
    pub events: u64,
}

/// Host cycles by kind of activity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HostCycles {
    pub user: u64,
    pub kernel: u64,
    pub idle: u64,
}

/// One layer's cost of a packet, averaged over all packets of the window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerPerPacket {
    pub cycles_per_packet: f64,
    pub instructions_per_packet: f64,
    pub l1d_misses_per_packet: f64,
    pub l2_misses_per_packet: f64,
    pub fetch_misses_per_packet: f64,
    /// Fetches that missed the second level too. `l2_misses_per_packet` has those of data alone.
    pub fetch_l2_misses_per_packet: f64,
    pub tlb_misses_per_packet: f64,
}

/// Delays by direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delays {
    /// From the host's posting to the wire.
    pub send: Option<Statistics>,
    /// From the wire to the host's memory.
    pub receive: Option<Statistics>,
}

/// Messages from the NIC to the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Messages {
    /// Messages the host had to read.
    pub sent: u64,
    /// Additions to messages that the host had not yet read, such as a second acknowledgment.
    pub merged: u64,
}

/// Connections on the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OnNic {
    pub mean: f64,
    pub last: u32,
}

impl Outcome {
    /// The result of a run at the end of its window.
    pub(crate) fn new(engine: &Engine, configuration: &str, seed: u64, events: u64) -> Self {
        let now = engine.context.now;
        let measure = &engine.context.measure;
        let window_s = now.since(measure.since).as_seconds().max(1e-12);
        let per_second = |count: u64| count as f64 / window_s;
        let cycles = host_cycles(engine, window_s);
        let elapsed = window_s * engine.host.cpu().cycles_per_second();
        let busy = (cycles.user + cycles.kernel).max(1);
        let [send, receive, response_ms] = measure.statistics();
        let is_web = engine.host.is_web_server();
        let handed_off = measure.handed_off as f64 / measure.established as f64;
        Self {
            schema: SCHEMA,
            configuration: configuration.to_owned(),
            seed,
            simulated_s: window_s,
            packets: measure.packets,
            requests_per_s: is_web.then(|| per_second(measure.responses)),
            content_mbps: per_second(measure.content_bytes) * 8.0 / 1e6,
            packets_per_s: per_second(measure.packets),
            nic_packet_share: measure.nic_packets as f64 / measure.packets.max(1) as f64,
            connections_per_s: per_second(measure.established),
            handed_off_share: (measure.established > 0).then_some(handed_off),
            host_idle: (1.0 - busy as f64 / elapsed).max(0.0),
            nic_idle: (1.0 - measure.nic_busy.as_seconds() / window_s).max(0.0),
            host_cycles: cycles,
            stack_share: stack_cycles(engine) as f64 / busy as f64,
            layers: layers(engine),
            host_packet_delay_us: Delays { send, receive },
            response_ms,
            drops: measure.drops,
            retransmissions: measure.retransmissions,
            timeouts: measure.timeouts,
            nic_messages: Messages {
                sent: measure.messages,
                merged: measure.merged,
            },
            connections_on_nic: OnNic {
                mean: measure.on_nic_mean(now),
                last: engine.nic.connections(),
            },
            conserved: is_conserved(engine),
            events,
        }
    }
}

/// The layers a simulated host has.
const LAYERS: [Layer; 8] = [
    Layer::User,
    Layer::Syscall,
    Layer::Tcp,
    Layer::Ip,
    Layer::Ethernet,
    Layer::Driver,
    Layer::Bypass,
    Layer::Other,
];

/// The cost of a layer in the window.
fn cost_of(engine: &Engine, layer: Layer) -> Cost {
    let cpu = engine.host.cpu();
    let mut sum = Cost::default();
    for operation in Operation::ALL {
        if cpu.layer(operation) == layer {
            sum.add(&operation_cost(engine, operation));
        }
    }
    sum
}

/// The cost of an operation in the window.
pub fn operation_cost(engine: &Engine, operation: Operation) -> Cost {
    let index = operation as usize;
    engine.host.cpu().costs()[index].since(&engine.context.measure.costs_before[index])
}

fn host_cycles(engine: &Engine, window_s: f64) -> HostCycles {
    let cycles = |layer| cost_of(engine, layer).cycles;
    let user = cycles(Layer::User);
    let all: u64 = LAYERS.into_iter().map(cycles).sum();
    let elapsed = (window_s * engine.host.cpu().cycles_per_second()) as u64;
    HostCycles {
        user,
        kernel: all - user,
        idle: elapsed.saturating_sub(all),
    }
}

fn stack_cycles(engine: &Engine) -> u64 {
    LAYERS
        .into_iter()
        .filter(|layer| layer.is_below_system_calls())
        .map(|layer| cost_of(engine, layer).cycles)
        .sum()
}

fn layers(engine: &Engine) -> BTreeMap<&'static str, LayerPerPacket> {
    let packets = engine.context.measure.packets.max(1) as f64;
    LAYERS
        .into_iter()
        .map(|layer| {
            let cost = cost_of(engine, layer);
            let per_packet = LayerPerPacket {
                cycles_per_packet: cost.cycles as f64 / packets,
                instructions_per_packet: cost.instructions as f64 / packets,
                l1d_misses_per_packet: cost.l1d_misses as f64 / packets,
                l2_misses_per_packet: cost.l2_misses as f64 / packets,
                fetch_misses_per_packet: cost.fetch_misses as f64 / packets,
                fetch_l2_misses_per_packet: cost.fetch_l2_misses as f64 / packets,
                tlb_misses_per_packet: cost.tlb_misses as f64 / packets,
            };
            (layer.name(), per_packet)
        })
        .collect()
}

/// Compares the frames in flight with the balances of both directions.
fn is_conserved(engine: &Engine) -> bool {
    let [mut to_server, mut to_client] = engine.nic.frames();
    to_server += engine.host.waiting_frames();
    for event in engine.context.events.iter() {
        match event {
            Event::AtNic(_) => to_server += 1,
            Event::AtClient(_) | Event::ClientReadsFrame(_) | Event::Posted(_) => to_client += 1,
            _ => {}
        }
    }
    let frames = &engine.context.measure.frames;
    [(frames.to_server, to_server), (frames.to_client, to_client)]
        .iter()
        .all(|(balance, in_flight)| balance.sent == balance.delivered + balance.dropped + in_flight)
}
