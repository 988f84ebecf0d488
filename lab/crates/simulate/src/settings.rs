//! A run's parameters as typed values, checked once.

use perpacket_memory::{CacheParameters, CacheSize, DramParameters, HierarchyParameters, Policy};
use serde::Deserialize;

use crate::error::ConfigurationError;
use crate::parameters::ParameterSet;
use crate::tcp;

/// The processor and its memory: `machine.*`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    #[serde(rename = "name")]
    _name: String,
    pub(crate) clock_mhz: u32,
    pub(crate) cycles_per_instruction: f64,
    line_bytes: u32,
    policy: Policy,
    next_line_prefetch: bool,
    pub(crate) first_read_cycles: u32,
    pub(crate) code_bytes_per_instruction: f64,
    pub(crate) l1i: CacheSize,
    pub(crate) tlb: Translation,
    l1d: CacheParameters,
    l2: CacheParameters,
    dram: DramParameters,
    pub(crate) network: MachineNetwork,
    pub(crate) interrupt: Interrupt,
    pub(crate) io_bus: IoBus,
}

/// The interrupts. Two interrupts for received frames are at least `gap_us` apart. The interrupt for
/// sent frames comes `send_delay_us` after the last of them. If they preempt, the handler runs in the
/// middle of a job too, with the driver's and Ethernet's part of the received frames, and entry and
/// return count for the layer that they interrupt. They take `from_idle_cycles` if the processor is
/// idle, and else `access_cycles`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interrupt {
    pub is_on: bool,
    pub preempts: bool,
    pub charges_interrupted: bool,
    pub gap_us: u32,
    pub send_delay_us: u32,
    pub access_cycles: u32,
    pub from_idle_cycles: u32,
}

/// The bus between the NIC and the host's memory. A rate of 0 means no bus: each frame moves in
/// `nic.dma_ns`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IoBus {
    pub rate_mbps: u32,
    pub overhead_ns: u32,
}

/// The translation look-aside buffer for data; without entries, translation is free.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Translation {
    pub entries: u32,
    pub ways: u32,
    pub walk_cycles: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineNetwork {
    pub rate_mbps: u32,
    pub base_rtt_us: u32,
    pub jitter_us: u32,
}

impl Machine {
    pub(crate) fn hierarchy(&self) -> HierarchyParameters {
        HierarchyParameters {
            line_bytes: self.line_bytes,
            levels: vec![self.l1d, self.l2],
            policy: self.policy,
            next_line_prefetch: self.next_line_prefetch,
            dram: self.dram,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    pub added_latency_ms: f64,
}

/// The offload NIC: `nic.*`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nic {
    pub mips: u32,
    pub connections: u32,
    pub host_first: bool,
    pub load_control: bool,
    pub active_restore: bool,
    pub is_staged: bool,
    pub dma_ns: u32,
    pub receive_ring_packets: u32,
    pub send_ring_packets: u32,
    pub queue_packets: u32,
    pub report_bytes: u32,
    pub hiwat: u32,
    pub lowat: u32,
    pub soft_limit_step: u32,
    pub memory_mib: u32,
    pub connection_kib: u32,
    pub instructions: NicInstructions,
}

/// Instructions of the NIC's tasks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NicInstructions {
    pub lookup: u32,
    pub host_pass: u32,
    pub tcp_packet: u32,
    pub command: u32,
    pub timer: u32,
    pub message: u32,
    pub message_merge: u32,
    pub handoff: u32,
    pub restore: u32,
    pub connection_end: u32,
    pub load_control: u32,
}

/// How the host chooses connections to hand off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SelectionPolicy {
    /// At establishment, first come, first served.
    Fcfs,
    /// At the n-th enqueue to the send buffer.
    Threshold,
    /// When a connection is longer than a threshold that is estimated from ended connections.
    Lifetime,
    /// At establishment, with knowledge of the connection's future.
    Oracle,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selection {
    pub policy: SelectionPolicy,
    pub threshold: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    pub prefetch: String,
    pub prefetch_lines: PrefetchLines,
    pub prefetch_by: FetchKind,
    pub profiler_instructions: u32,
    pub reads_by_command: bool,
    pub interface_queue_packets: u32,
    pub soft_limit_delay_us: u32,
}

/// Lines of a packet that are fetched before they are needed (TR05-450, section 6).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PrefetchLines {
    All,
    Header,
    Tcp,
    Syscall,
}

impl PrefetchLines {
    pub fn has_header(self) -> bool {
        matches!(self, Self::All | Self::Header)
    }

    pub fn has_tcp(self) -> bool {
        matches!(self, Self::All | Self::Tcp)
    }

    pub fn has_syscall(self) -> bool {
        matches!(self, Self::All | Self::Syscall)
    }
}

/// How lines are fetched before they are needed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FetchKind {
    /// By prefetches, for which the processor does not wait.
    Prefetch,
    /// By loads, for which it waits.
    Load,
}

/// The lines that are fetched before they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefetchPolicy {
    /// Distance in packets.
    pub distance: usize,
    pub lines: PrefetchLines,
    pub kind: FetchKind,
}

impl Host {
    /// The lines that are fetched before they are needed, if there are any.
    pub fn prefetch_policy(&self) -> Result<Option<PrefetchPolicy>, ConfigurationError> {
        if self.prefetch == "none" {
            return Ok(None);
        }
        const MOST: usize = 65_536;
        match self.prefetch.parse() {
            Ok(distance) if distance <= MOST => Ok(Some(PrefetchPolicy {
                distance,
                lines: self.prefetch_lines,
                kind: self.prefetch_by,
            })),
            _ => Err(ConfigurationError::new(
                "host.prefetch",
                &self.prefetch,
                "expected `none` or a distance in packets, such as 0 or 1",
            )),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub header_bytes: u32,
    pub request_bytes: u32,
    pub sendfile_enqueue_bytes: u32,
    pub writable_room_bytes: u32,
    pub copies_dynamic: bool,
    pub responds_in_next_round: bool,
    pub events_per_poll: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub think_time_ms: f64,
    pub read_rate_bps: u64,
    pub read_chunk_bytes: u32,
    pub acknowledges_reads: bool,
    pub times_connections: bool,
    pub waits_for_fin: bool,
    pub start_spread_ms: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub warmup_packets: u64,
    pub packets: u64,
    pub timeline_interval_us: u32,
}

/// Every section of a run but the workload and the layers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub machine: Machine,
    pub network: Network,
    pub tcp: tcp::Settings,
    pub nic: Nic,
    pub selection: Selection,
    pub host: Host,
    pub server: Server,
    pub client: Client,
    pub run: Run,
}

impl Settings {
    pub fn read(parameters: &ParameterSet) -> Result<Self, ConfigurationError> {
        let settings = Self {
            machine: parameters.section("machine")?,
            network: parameters.section("network")?,
            tcp: parameters.section("tcp")?,
            nic: parameters.section("nic")?,
            selection: parameters.section("selection")?,
            host: parameters.section("host")?,
            server: parameters.section("server")?,
            client: parameters.section("client")?,
            run: parameters.section("run")?,
        };
        settings.check_host_side()?;
        settings.check_nic()?;
        Ok(settings)
    }

    fn check_host_side(&self) -> Result<(), ConfigurationError> {
        let (server, tcp) = (&self.server, &self.tcp);
        // A partial segment may stay in the send buffer until the server writes more. So the server
        // must not wait for more room than this.
        let most_room = (tcp.send_buffer_bytes.saturating_sub(tcp.mss_bytes)).max(1);
        let (mss, buffer) = (tcp.mss_bytes, tcp.send_buffer_bytes);
        for (name, value, least, most) in [
            ("tcp.send_buffer_bytes", buffer, mss, ANY),
            (
                "tcp.receive_buffer_bytes",
                tcp.receive_buffer_bytes,
                mss * 2,
                ANY,
            ),
            ("server.header_bytes", server.header_bytes, 1, buffer),
            ("server.request_bytes", server.request_bytes, 1, mss),
            (
                "server.writable_room_bytes",
                server.writable_room_bytes,
                1,
                most_room,
            ),
        ] {
            whole(name, value, least, most)?;
        }
        self.host.prefetch_policy()?;
        Ok(())
    }

    fn check_nic(&self) -> Result<(), ConfigurationError> {
        let nic = &self.nic;
        if self.machine.io_bus.rate_mbps > 0 && !nic.is_staged {
            return Err(ConfigurationError::new(
                "nic.is_staged",
                false,
                "a NIC on a bus moves frames in a stage of its own: expected true, or \
                 machine.io_bus.rate_mbps = 0",
            ));
        }
        if nic.connections > 0 {
            // The server must wake although the NIC keeps a partial segment and has not reported all
            // acknowledgments.
            let kept = self.server.writable_room_bytes + self.tcp.mss_bytes;
            let most = self.tcp.send_buffer_bytes.saturating_sub(kept);
            whole("nic.report_bytes", nic.report_bytes, 0, most)?;
        }
        if nic.lowat >= nic.hiwat {
            return Err(ConfigurationError::new(
                "nic.lowat",
                nic.lowat,
                format!("expected a low watermark below nic.hiwat = {}", nic.hiwat),
            ));
        }
        let (queue, packets) = if nic.host_first {
            ("nic.queue_packets", nic.queue_packets)
        } else {
            ("nic.receive_ring_packets", nic.receive_ring_packets)
        };
        if nic.load_control && nic.hiwat >= packets {
            return Err(ConfigurationError::new(
                "nic.hiwat",
                nic.hiwat,
                format!("load control needs a high watermark below {queue} = {packets}"),
            ));
        }
        if nic.load_control && nic.connections == 0 {
            return Err(ConfigurationError::new(
                "nic.connections",
                0,
                "load control needs a NIC for 1 connection or more",
            ));
        }
        let room = nic.memory_mib.saturating_mul(1024) / nic.connection_kib.max(1);
        if nic.connections > room {
            return Err(ConfigurationError::new(
                "nic.connections",
                nic.connections,
                format!(
                    "expected at most {room}, which fit in nic.memory_mib = {}",
                    nic.memory_mib
                ),
            ));
        }
        if self.selection.policy == SelectionPolicy::Threshold {
            whole("selection.threshold", self.selection.threshold, 1, ANY)?;
        }
        Ok(())
    }
}

/// No upper limit.
const ANY: u32 = u32::MAX;

fn whole(name: &str, value: u32, least: u32, most: u32) -> Result<(), ConfigurationError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let allowed = if most == ANY {
        format!("expected {least} or more")
    } else {
        format!("expected {least} to {most}")
    };
    Err(ConfigurationError::new(name, value, allowed))
}
