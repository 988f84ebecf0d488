//! One run: warm-up, measurement, result.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perpacket_workload::Replay;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::clients::Clients;
use crate::context::{Context, Event};
use crate::engine::Engine;
use crate::error::ConfigurationError;
use crate::explanation::Explanation;
use crate::host::cpu::{self, Cpu, Population};
use crate::host::{Application, BulkSender, Host, Interrupts, IoBus, Kernel, WebServer, footprint};
use crate::nic::Nic;
use crate::outcome::Outcome;
use crate::parameters::{self, Parameter, ParameterSet};
use crate::settings::Settings;
use crate::time::{Span, Time};
use crate::timeline::Timeline;
use crate::wire::Link;
use crate::workload::Workload;

/// The progress of a run, which another thread can watch and cancel.
#[derive(Debug, Default)]
pub struct Progress {
    packets: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Progress {
    /// Packets simulated so far, warm-up included.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Asks the run to end soon, without a result.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// The run was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulation was interrupted")]
pub struct Interrupted;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The result.
    pub outcome: Outcome,
    /// Cycles, instructions and waits by cause.
    pub explanation: Explanation,
    /// The samples, if they were requested.
    pub timeline: Option<Timeline>,
}

/// A configuration, checked and ready to run.
#[derive(Clone, Debug)]
pub struct Simulation {
    configuration: String,
    parameters: ParameterSet,
    settings: Settings,
    workload: Workload,
    trace: Option<Replay>,
}

/// The random stream of one purpose. Each purpose has its own, so that a policy's draws do not change
/// the workload.
fn stream(seed: u64, purpose: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(purpose),
    )
}

const CLIENTS: u64 = 1;
const PLACEMENT: u64 = 2;
const JITTER: u64 = 3;

/// Events between two checks for cancellation.
const EVENTS_PER_CHECK: u64 = 4096;

impl Simulation {
    /// Checks a configuration (`W-1024-P-N-FCFS-400`, `bulk`) with overrides of (name, value).
    ///
    /// # Errors
    /// The error names the parameter that is unknown, of the wrong type or not allowed.
    pub fn new(
        configuration: &str,
        overrides: &[(String, String)],
        trace: Option<Replay>,
    ) -> Result<Self, ConfigurationError> {
        let parameters = parameters::resolve(configuration, overrides)?;
        let settings = Settings::read(&parameters)?;
        let workload = Workload::read(&parameters)?;
        if let Workload::Bulk(bulk) = &workload
            && bulk.segment_bytes > settings.tcp.send_buffer_bytes
        {
            return Err(ConfigurationError::new(
                "workload.segment_bytes",
                bulk.segment_bytes,
                format!(
                    "a write must fit in tcp.send_buffer_bytes = {}",
                    settings.tcp.send_buffer_bytes
                ),
            ));
        }
        if let Some(trace) = &trace {
            if matches!(workload, Workload::Bulk(_)) {
                return Err(ConfigurationError::new(
                    "trace",
                    configuration,
                    "the bulk sender replays no trace: expected a workload such as W",
                ));
            }
            if trace.usable_requests() == 0 {
                return Err(ConfigurationError::new(
                    "trace",
                    "0 usable requests",
                    "expected a trace with at least one request",
                ));
            }
        }
        // Built here so that errors are reported before the run begins.
        footprint::read(&parameters)?;
        cpu::hierarchy(&settings.machine)?;
        Ok(Self {
            configuration: configuration.to_owned(),
            parameters,
            settings,
            workload,
            trace,
        })
    }

    /// Every parameter that will be used.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> {
        self.parameters.list()
    }

    /// The trace that is replayed, if one is.
    pub const fn trace(&self) -> Option<&Replay> {
        self.trace.as_ref()
    }

    /// Packets of the whole run, warm-up included.
    pub const fn packets(&self) -> u64 {
        self.settings.run.warmup_packets + self.settings.run.packets
    }

    /// Runs with `seed`. With `timeline`, the result has samples over time.
    ///
    /// # Errors
    /// A configuration that cannot be built, or [`Interrupted`] after [`Progress::cancel`].
    pub fn run(
        &self,
        seed: u64,
        timeline: bool,
        progress: &Progress,
    ) -> Result<Simulated, RunError> {
        let mut engine = self.engine(seed)?;
        if timeline {
            let interval = Span::from_us(u64::from(self.settings.run.timeline_interval_us));
            engine.timeline = Some(Timeline::every(interval));
            engine.context.at(Time::ZERO, Event::Sample);
        }
        let spread = Span::from_ms(self.settings.client.start_spread_ms);
        engine.clients.start(spread, &mut engine.context);
        let warmup = self.settings.run.warmup_packets;
        let mut events = run_until(&mut engine, warmup, 0, progress)?;
        let Context { measure, now, .. } = &mut engine.context;
        measure.begin_window(*now, engine.host.cpu().costs(), engine.nic.work());
        events += run_until(&mut engine, self.settings.run.packets, warmup, progress)?;
        Ok(Simulated {
            outcome: Outcome::new(&engine, &self.configuration, seed, events),
            explanation: Explanation::new(&engine),
            timeline: engine.timeline,
        })
    }

    fn engine(&self, seed: u64) -> Result<Engine, ConfigurationError> {
        let settings = &self.settings;
        let connections = self.workload.connections();
        let trace = self.trace.as_ref();
        let (source, objects, least_enqueue, application) = match &self.workload {
            Workload::Web(web) => (
                Some(web.source(trace, seed)?),
                web.objects(trace),
                settings.server.sendfile_enqueue_bytes,
                Application::Web(WebServer::new(&settings.server)),
            ),
            Workload::Bulk(bulk) => {
                let sender = BulkSender::new(bulk);
                (None, 1, bulk.segment_bytes, Application::Bulk(sender))
            }
        };
        let population = Population {
            // Connections that are closing exist beside those just opened.
            connections: 2 * connections + 64,
            has_heap: matches!(application, Application::Web(_)),
            objects,
            mbufs_per_connection: (settings.tcp.send_buffer_bytes / least_enqueue).min(64) + 2,
            ring: settings
                .nic
                .receive_ring_packets
                .max(settings.nic.send_ring_packets),
        };
        let (footprints, structures) = footprint::read(&self.parameters)?;
        let cpu = Cpu::new(
            &settings.machine,
            &footprints,
            &structures,
            population,
            settings.host.profiler_instructions,
            seed.wrapping_add(PLACEMENT << 32),
        )?;
        let network = &settings.machine.network;
        let base_ms = f64::from(network.base_rtt_us) / 2_000.0;
        let latency = Span::from_ms(base_ms + settings.network.added_latency_ms);
        let link = Link::new(network.rate_mbps, latency);
        let random = stream(seed, CLIENTS);
        Ok(Engine {
            context: Context::new(),
            clients: Clients::new(
                settings,
                connections,
                source,
                random,
                stream(seed, JITTER),
                link,
            ),
            nic: Nic::new(settings, link),
            host: Host::new(
                Kernel::new(settings, cpu, connections)?,
                application,
                Interrupts::new(&settings.machine.interrupt),
                IoBus::new(settings.machine.io_bus),
            ),
            timeline: None,
        })
    }
}

/// The reason why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(
        "after {packets} of {wanted} packets nothing more can happen: no connection makes progress \
         with these parameters"
    )]
    Stalled { packets: u64, wanted: u64 },
}

/// Runs until the window has `packets` packets. Returns the number of events. `before` counts the
/// packets of earlier windows.
fn run_until(
    engine: &mut Engine,
    packets: u64,
    before: u64,
    progress: &Progress,
) -> Result<u64, RunError> {
    let mut events = 0;
    while engine.context.measure.packets < packets {
        let done = engine.context.measure.packets;
        if events % EVENTS_PER_CHECK == 0 {
            progress.packets.store(before + done, Ordering::Relaxed);
            if progress.is_cancelled.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
        }
        if !engine.step() {
            return Err(RunError::Stalled {
                packets: done,
                wanted: packets,
            });
        }
        events += 1;
    }
    let done = before + engine.context.measure.packets;
    progress.packets.store(done, Ordering::Relaxed);
    Ok(events)
}
