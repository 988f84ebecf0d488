//! `route`: checks a router against the rules and finds its throughput.

mod tables;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perpacket_agent::message;
use perpacket_agent::output::Output;
use perpacket_agent::status::{Failure, Status};
use perpacket_agent::stop;
use perpacket_agent::verb::Verb;
use perpacket_linux::interface::{Interface, InterfaceError, Mac};
use perpacket_router::frame::UdpFrame;
use perpacket_router::generator::{self, Generator};
use perpacket_router::plane::{self, Attached};
use perpacket_router::probe::{CaseResult, Port, Probe};
use perpacket_router::receiver::{self, Receiver};
use perpacket_router::search::{self, KnownDropper, SearchResult, SearchSpec, Step};
use perpacket_router::trial::TrafficTrial;
use perpacket_router::{RouterError, Stream};
use perpacket_spec::{Rate, Size, Spec, SpecError, Until};
use schemars::JsonSchema;
use serde::Serialize;

use tables::{check_table, plane_table, throughput_table};

pub fn verbs() -> Vec<Verb> {
    vec![
        Verb::new("route check", CHECK_EXAMPLE, |spec, output| {
            check(&spec, output)
        }),
        Verb::new("route throughput", THROUGHPUT_EXAMPLE, |spec, output| {
            throughput(&spec, output)
        }),
        Verb::new("route self-test", SELF_TEST_EXAMPLE, |spec, output| {
            self_test(&spec, output)
        }),
        Verb::new("route plane", PLANE_EXAMPLE, |spec, output| {
            forward(&spec, output)
        }),
    ]
}

/// Shown after the options of `route check`.
const CHECK_EXAMPLE: &str = "\
Example: a router in namespace R with hosts A and B:

  perpacket-agent route check --port R:r0=A:a0 --port R:r1=B:b0

Exit status 1 if a case fails. Switch off the router's limit of ICMP errors
(sysctl net.ipv4.icmp_ratemask=0): an error that the limit suppresses fails its case.";

/// Shown after the options of `route throughput`.
const THROUGHPUT_EXAMPLE: &str = "\
Example: 64-byte frames from host A over a router with 10.0.0.1 on A's side to host B:

  perpacket-agent route throughput --from A:a0 --next-hop R:r0 --to B:b0 --frame-size 64

If --generator live sends into a veth device, the device's far end must accept live frames:
  --take-redirected R:r0";

/// Shown after the options of `route self-test`.
const SELF_TEST_EXAMPLE: &str = "\
Example: perpacket-agent route self-test --capacity 345k --queue-frames 1000";

/// Shown after the options of `route plane`.
const PLANE_EXAMPLE: &str = "\
Example: perpacket-agent route plane --interfaces R:r0,R:r1 --take-redirected A:a0,B:b0";

/// Send cases to a router and check every frame that it sends.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct CheckSpec {
    /// An interface of the router and the host's interface at the other end; two ports at least.
    #[arg(long, value_name = "[NETNS:]IFNAME=[NETNS:]IFNAME", required = true)]
    port: Vec<String>,
}

/// Find the highest rate without loss (RFC 2544), or the loss at given rates.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct ThroughputSpec {
    /// The host's interface that sends the frames.
    #[arg(long, value_name = "[NETNS:]IFNAME")]
    from: String,
    /// The router's interface that receives them.
    #[arg(long, value_name = "[NETNS:]IFNAME")]
    next_hop: String,
    /// The host's interface at which they must arrive.
    #[arg(long, value_name = "[NETNS:]IFNAME")]
    to: String,
    /// Bytes of a frame with its check sequence, from 64 to 1518.
    #[arg(long, value_name = "SIZE", default_value_t = Size(64))]
    frame_size: Size,
    /// How frames are sent: in batches through a packet socket, or as live frames of BPF.
    #[arg(long, value_enum, default_value = "socket")]
    generator: generator::Method,
    /// How frames are counted: in XDP, in a packet socket, or (`auto`) in XDP if the machine allows
    /// it, else in a packet socket.
    #[arg(long, value_enum, default_value = "auto")]
    receiver: ReceiverName,
    /// Interfaces that must accept live frames: the far ends of veth devices.
    #[arg(long, value_name = "[NETNS:]IFNAME", value_delimiter = ',')]
    take_redirected: Vec<String>,
    /// Measure the loss at these rates in frames a second, instead of a search.
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    rates: Vec<Rate>,
    #[command(flatten)]
    #[serde(flatten)]
    search: SearchSpec,
}

/// Test the search with a dropper: a simulated device with a known limit.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct SelfTestSpec {
    /// Frames a second that the dropper forwards.
    #[arg(long, value_name = "RATE", default_value_t = Rate(345_000.0))]
    capacity: Rate,
    /// Frames that may wait in the dropper.
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    queue_frames: f64,
    #[command(flatten)]
    #[serde(flatten)]
    search: SearchSpec,
}

/// Forward in XDP by the kernel's routes, until a signal.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct PlaneSpec {
    /// Interfaces of the router.
    #[arg(
        long,
        value_name = "[NETNS:]IFNAME",
        value_delimiter = ',',
        required = true
    )]
    interfaces: Vec<String>,
    /// Interfaces that must accept forwarded frames: the far ends of veth devices.
    #[arg(long, value_name = "[NETNS:]IFNAME", value_delimiter = ',')]
    take_redirected: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ReceiverName {
    Auto,
    Socket,
    Xdp,
}

/// The report of `route check`.
#[derive(Serialize)]
struct CheckReport {
    schema: u32,
    /// Whether all cases ran.
    complete: bool,
    /// Cases whose output was wrong.
    wrong: usize,
    /// The results in order.
    cases: Vec<CaseResult>,
}

/// The report of `route throughput` and of `route self-test`.
#[derive(Serialize)]
struct ThroughputReport {
    schema: u32,
    /// Whether the search ended by itself.
    complete: bool,
    /// Bytes of a frame with its check sequence.
    frame_bytes: usize,
    /// Length of each trial.
    trial_s: f64,
    /// How frames were sent; `None` for the test of the search.
    generator: Option<generator::Method>,
    /// How frames were counted.
    receiver: Option<receiver::Method>,
    /// The known limit, in a test of the search.
    known_pps: Option<f64>,
    #[serde(flatten)]
    search: SearchResult,
}

/// The report of `route plane`.
#[derive(Serialize)]
struct PlaneReport {
    schema: u32,
    #[serde(flatten)]
    attached: Attached,
    /// Time for which the router forwarded.
    duration_s: f64,
}

const SCHEMA: u32 = 1;

/// Port of the discard service (RFC 863).
const DISCARD: u16 = 9;

impl Spec for CheckSpec {
    fn resolved(self) -> Result<Self, SpecError> {
        if let Some(text) = self.port.iter().find(|text| !text.contains('=')) {
            return Err(SpecError::new(format!(
                "--port {text}: expected ROUTER=HOST, both [NETNS:]IFNAME"
            )));
        }
        match self.port.len() {
            1 => Err(SpecError::new("--port: one port, expected two at least")),
            _ => Ok(self),
        }
    }
}

impl Spec for ThroughputSpec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        if let Some(rate) = self.rates.iter().find(|rate| rate.0 < 1.0) {
            return Err(SpecError::new(format!(
                "--rates {rate}: expected at least 1 frame a second"
            )));
        }
        self.search = self.search.resolved()?;
        Ok(self)
    }
}

impl Spec for SelfTestSpec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        if !(self.queue_frames.is_finite() && self.queue_frames >= 0.0) {
            return Err(SpecError::new(format!(
                "--queue-frames {}: expected a number, 0 or more",
                self.queue_frames
            )));
        }
        self.search = self.search.resolved()?;
        Ok(self)
    }
}

impl Spec for PlaneSpec {}

fn check(spec: &CheckSpec, output: &Output) -> Result<Status, Failure> {
    let ports: Result<Vec<Port>, Failure> = spec.port.iter().map(|text| port(text)).collect();
    let ports = ports?;
    let stop = stop::on_signals()?;
    let mut probe = Probe::open(&ports).map_err(failure)?;
    let cases = probe
        .run(|| !stop.load(Ordering::Relaxed))
        .map_err(failure)?;
    let interrupted = stop.load(Ordering::Relaxed);
    let report = CheckReport {
        schema: SCHEMA,
        complete: !interrupted,
        wrong: cases.iter().filter(|case| case.breach.is_some()).count(),
        cases,
    };
    output.print(&report, check_table)?;
    Ok(match (interrupted, report.wrong) {
        (true, _) => Status::Interrupted,
        (false, 0) => Status::Done,
        (false, _) => Status::Unmet,
    })
}

fn throughput(spec: &ThroughputSpec, output: &Output) -> Result<Status, Failure> {
    let rates_pps: Vec<f64> = spec.rates.iter().map(|rate| rate.0).collect();
    let stop = stop::on_signals()?;
    let (from, to) = (interface(&spec.from)?, interface(&spec.to)?);
    let stream = stream(
        &from,
        &interface(&spec.next_hop)?,
        &to,
        spec.frame_size.as_usize(),
    )?;
    let _accepting =
        plane::accept_redirected(&interfaces(&spec.take_redirected)?).map_err(failure)?;
    let (mut receiver, counted) = open_receiver(&to, &stream, spec, output)?;
    let method = spec.generator;
    let mut generator = Generator::open(&from, &stream, method).map_err(failure)?;
    let mut trial = TrafficTrial {
        generator: &mut generator,
        receiver: &mut receiver,
        duration: spec.search.trial.0,
        stop: &stop,
    };
    let may_continue = || !stop.load(Ordering::Relaxed);
    let result = if spec.rates.is_empty() {
        search::throughput(&spec.search, &mut trial, may_continue).map_err(failure)?
    } else {
        SearchResult {
            throughput_pps: None,
            failed_pps: None,
            generator_limited: false,
            steps: search::loss_curve(&spec.search, &rates_pps, &mut trial, may_continue)
                .map_err(failure)?,
        }
    };
    let report = ThroughputReport {
        schema: SCHEMA,
        complete: may_continue(),
        frame_bytes: spec.frame_size.as_usize(),
        trial_s: spec.search.trial.0.as_secs_f64(),
        generator: Some(method),
        receiver: Some(counted),
        known_pps: None,
        search: result,
    };
    output.print(&report, throughput_table)?;
    if !report.complete {
        return Ok(Status::Interrupted);
    }
    let has_received = |step: &Step| step.outcome.received + step.outcome.not_counted > 0;
    if method == generator::Method::Live
        && spec.take_redirected.is_empty()
        && !report.search.steps.iter().any(has_received)
    {
        return Err(Failure::failed("no live frame arrived").with_hint(format!(
            "a veth device drops live frames unless its far end accepts them: add \
             `--take-redirected {}`",
            spec.next_hop
        )));
    }
    Ok(Status::Done)
}

/// Opens the receiver of `--receiver`; for `auto`, XDP if this machine allows it.
fn open_receiver(
    to: &Interface,
    stream: &Stream,
    spec: &ThroughputSpec,
    output: &Output,
) -> Result<(Receiver, receiver::Method), Failure> {
    let open = |method| Receiver::open(to, stream, method).map(|receiver| (receiver, method));
    match spec.receiver {
        ReceiverName::Xdp => open(receiver::Method::Xdp),
        ReceiverName::Socket => open(receiver::Method::Socket),
        ReceiverName::Auto => open(receiver::Method::Xdp).or_else(|error| {
            if !output.quiet {
                message!("counting in a packet socket: {error}");
            }
            open(receiver::Method::Socket)
        }),
    }
    .map_err(failure)
}

fn self_test(spec: &SelfTestSpec, output: &Output) -> Result<Status, Failure> {
    let (search, trial) = (&spec.search, spec.search.trial.0);
    let mut dropper = KnownDropper {
        capacity_pps: spec.capacity.0,
        queue_frames: spec.queue_frames,
        generator_pps: f64::INFINITY,
        duration_s: trial.as_secs_f64(),
    };
    let known_pps = dropper.throughput_pps();
    let Ok(result) = search::throughput(search, &mut dropper, || true);
    let report = ThroughputReport {
        schema: SCHEMA,
        complete: true,
        frame_bytes: 64,
        trial_s: spec.search.trial.0.as_secs_f64(),
        generator: None,
        receiver: None,
        known_pps: Some(known_pps),
        search: result,
    };
    output.print(&report, throughput_table)?;
    let low = known_pps.min(search.highest_rate.0) / (1.0 + search.resolution);
    // A trial counts whole frames. So a rate that is too high by one frame per trial may pass.
    let high = known_pps + 1.0 / trial.as_secs_f64();
    match report.search.throughput_pps {
        Some(rate_pps) if (low * 0.999..=high * 1.001).contains(&rate_pps) => Ok(Status::Done),
        None if known_pps < search.lowest_rate.0 => Ok(Status::Done),
        other => Err(Failure::unmet(format!(
            "the search found {other:?} frames a second, expected {known_pps:.0}"
        ))),
    }
}

fn forward(spec: &PlaneSpec, output: &Output) -> Result<Status, Failure> {
    let stop = stop::on_signals()?;
    let _accepting =
        plane::accept_redirected(&interfaces(&spec.take_redirected)?).map_err(failure)?;
    let forwarding = plane::in_xdp(&interfaces(&spec.interfaces)?).map_err(failure)?;
    if !output.quiet {
        message!("ready: forwarding in XDP");
    }
    let begin = Instant::now();
    wait(&stop, spec.until.duration());
    let report = PlaneReport {
        schema: SCHEMA,
        attached: forwarding.attached(),
        duration_s: begin.elapsed().as_secs_f64(),
    };
    output.print(&report, plane_table)?;
    Ok(if stop.load(Ordering::Relaxed) {
        Status::Interrupted
    } else {
        Status::Done
    })
}

/// Waits for a signal, or for the time to pass.
fn wait(stop: &AtomicBool, duration: Option<Duration>) {
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) && duration.is_none_or(|limit| begin.elapsed() < limit) {
        thread::sleep(Duration::from_millis(20));
    }
}

fn interface(text: &str) -> Result<Interface, Failure> {
    text.parse::<Interface>()
        .map_err(|error| failure(error.into()))
}

fn interfaces(texts: &[String]) -> Result<Vec<Interface>, Failure> {
    texts.iter().map(|text| interface(text)).collect()
}

fn port(text: &str) -> Result<Port, Failure> {
    let (router, host) = text.split_once('=').ok_or_else(|| {
        Failure::usage(format!(
            "--port {text}: expected ROUTER=HOST, both [NETNS:]IFNAME"
        ))
    })?;
    Ok(Port {
        router: interface(router)?,
        host: interface(host)?,
    })
}

/// The stream from one host to the other, with the addresses of their interfaces.
fn stream(
    from: &Interface,
    router: &Interface,
    to: &Interface,
    frame_bytes: usize,
) -> Result<Stream, Failure> {
    let (source_mac, source) = addresses(from)?;
    let (target_mac, _) = addresses(router)?;
    let (_, target) = addresses(to)?;
    Ok(Stream {
        headers: UdpFrame {
            source_mac,
            target_mac,
            source,
            target,
            source_port: DISCARD,
            target_port: DISCARD,
            ttl: 64,
            identification: 1,
            dont_fragment: true,
        },
        // Other streams at the same time come from other processes, so the process id is a unique
        // number.
        number: std::process::id(),
        frame_bytes,
    })
}

fn addresses(interface: &Interface) -> Result<(Mac, Ipv4Addr), Failure> {
    let hardware = interface
        .hardware()
        .map_err(|error| failure(error.into()))?;
    let address = hardware.address.ok_or_else(|| {
        Failure::usage(format!(
            "interface {interface}: expected one with an IPv4 address"
        ))
    })?;
    Ok((hardware.mac, address))
}

const NEEDS_ROOT: &str = "run as root; without BPF, use --generator socket --receiver socket";

fn failure(error: RouterError) -> Failure {
    match error {
        RouterError::Setting { .. } | RouterError::Interface(InterfaceError::Syntax { .. }) => {
            Failure::usage(error)
        }
        RouterError::Bpf(_) => Failure::lacking(error).with_hint(NEEDS_ROOT),
        RouterError::Interface(ref denied) if denied.is_denied() => {
            Failure::lacking(error).with_hint(NEEDS_ROOT)
        }
        RouterError::Interface(InterfaceError::Namespace { .. }) => {
            Failure::usage(error).with_hint("`ip netns list` prints the existing namespaces")
        }
        RouterError::Interface(InterfaceError::Request { .. }) => {
            Failure::usage(error).with_hint("`ip -n NETNS link` prints the existing interfaces")
        }
        RouterError::Traffic { .. } => Failure::failed(error),
    }
}
