//! `export`: the cost of packets as counters for a monitoring system.
//!
//! One thread samples and sums, one reads the number of requests, one answers scrapes and one pushes
//! the last sums, so that a slow client or collector does not delay samples.

mod metrics;
mod openmetrics;
mod otlp;
mod request_total;
mod scrape;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::mailbox::lock;
use perpacket_profiler::spec::{ControlGroups, DEFAULT_FREQUENCY, Frequency};
use perpacket_profiler::watch::{Watch, WatchSettings};
use perpacket_spec::{CpuList, Spec, SpecError, Time, Until, Whole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::Output;
use crate::status::{Failure, Status};
use crate::stop;
use crate::verb::Verb;
use otlp::Pushes;
use request_total::RequestTotal;
use scrape::Endpoint;

const EXAMPLE: &str = "\
Examples:
  perpacket-agent export
  perpacket-agent export --listen 0.0.0.0:9430 --requests http://127.0.0.1/nginx_status
  perpacket-agent export --requests http://127.0.0.1:8080/stats#/server/requests
  perpacket-agent export --by cgroup --names 50
  perpacket-agent export --unit nginx.service
  perpacket-agent export --otlp http://127.0.0.1:4318

A scrape: curl http://127.0.0.1:9430/metrics";

/// Time between two steps. A scrape reports sums that are at most this old.
const STEP: Duration = Duration::from_millis(500);

/// Shortest time between two pushes. More frequent pushes would only repeat the same sums.
const LEAST_PUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Further divisions of the processor time, besides layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// Control groups.
    Cgroup,
}

/// Serve the cost of packets as counters for Prometheus.
#[derive(Clone, Debug, clap::Args, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExportSpec {
    /// Address, port and path to serve.
    #[arg(
        long,
        value_name = "ADDRESS:PORT[/PATH]",
        default_value = "127.0.0.1:9430/metrics"
    )]
    listen: Endpoint,
    /// CPUs to profile, such as `0-3,8` [default: all that are online].
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    #[command(flatten)]
    #[serde(flatten)]
    group: ControlGroups,
    /// Samples a second on each CPU.
    #[arg(long, value_name = "HZ", default_value_t = DEFAULT_FREQUENCY)]
    frequency: Frequency,
    /// URL of the number of answered requests: JSON with `requests`, nginx's stub_status, or other
    /// JSON with the number's JSON pointer after a `#`.
    #[arg(long, value_name = "URL")]
    requests: Option<String>,
    /// Push the counters to an OpenTelemetry collector too, over HTTP. A URL without a path gets
    /// /v1/metrics; OTEL_EXPORTER_OTLP_HEADERS sets headers.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Time between two pushes.
    #[arg(long, value_name = "TIME", default_value_t = Time::from_secs(15))]
    #[schemars(extend("x-needs" = "otlp"))]
    otlp_interval: Time,
    /// TOML file of rules that override the built-in ones, as for `profile`. Rules for programs have
    /// no effect: the counters have no categories.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Divide the processor time by control group too: containers and systemd units by name.
    #[arg(long, value_enum, value_name = "GROUPING")]
    by: Option<Grouping>,
    /// Highest number of interfaces, and of control groups, with series of their own; the series
    /// `other` has the rest.
    #[arg(long, value_name = "N", default_value = "20")]
    names: Whole<1, 1000>,
    #[command(flatten)]
    #[serde(flatten)]
    until: Until,
}

impl Spec for ExportSpec {
    fn resolved(self) -> Result<Self, SpecError> {
        if self.otlp_interval.0 < LEAST_PUSH_INTERVAL {
            return Err(SpecError::new(format!(
                "--otlp-interval {}: expected at least {}",
                self.otlp_interval,
                Time(LEAST_PUSH_INTERVAL)
            )));
        }
        Ok(self)
    }
}

impl ExportSpec {
    fn watch(&self) -> WatchSettings {
        WatchSettings {
            cpus: self.cpus.clone().map(|list| list.0),
            frequency_hz: self.frequency.get(),
            rules: self.rules.clone(),
            selector: self.group.selector(),
            by_cgroup: self.by.is_some(),
            names: self.names.count(),
            ..WatchSettings::default()
        }
    }
}

pub fn verb() -> Verb {
    Verb::new("export", EXAMPLE, run)
}

/// Serves the counters until a signal or the duration ends it.
fn run(spec: ExportSpec, output: &Output) -> Result<Status, Failure> {
    let quiet = output.quiet;
    let note = move |text: &str| {
        if !quiet {
            message!("note: {text}");
        }
    };
    let requests = spec.requests.as_deref();
    let requests = requests.map(|url| RequestTotal::start(url, note));
    let requests = requests.transpose()?;
    let stop = stop::on_signals()?;
    let endpoint = &spec.listen;
    // Bound before the symbols are read, so that a wrong address fails at once.
    let listener = endpoint.bind()?;
    let mut watch = Watch::new(spec.watch())?;
    let current = Arc::new(Mutex::new(watch.step().clone()));
    let shown = Arc::clone(&current);
    let by_cgroup = spec.by.is_some();
    let failed_pushes = spec.otlp.is_some().then(Arc::<AtomicU64>::default);
    let counted = failed_pushes.clone();
    let metrics = Arc::new(move || {
        let totals = lock(&shown).clone();
        let requests = requests.as_ref().map(RequestTotal::now);
        let failed = counted
            .as_ref()
            .map(|failed| failed.load(Ordering::Relaxed));
        metrics::all(&totals, requests, failed, by_cgroup)
    });
    let pushed = Arc::clone(&metrics);
    let pushes = match (&spec.otlp, failed_pushes) {
        (Some(url), Some(failed)) => {
            let interval = spec.otlp_interval.0;
            Some(Pushes::start(
                url,
                interval,
                failed,
                move || pushed(),
                note,
            )?)
        }
        _ => None,
    };
    let address = scrape::serve(listener, endpoint, move || openmetrics::page(&metrics()))?;
    if !quiet {
        message!("serving http://{address}{}", endpoint.path());
        for limit in &watch.step().limits {
            message!("note: {}", limit.meaning);
        }
    }
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if let Some(duration) = spec.until.duration()
            && began.elapsed() >= duration
        {
            break;
        }
        thread::sleep(STEP);
        let totals = watch.step().clone();
        *lock(&current) = totals;
    }
    drop(pushes); // The last push has the last sums.
    Ok(Status::Done)
}
