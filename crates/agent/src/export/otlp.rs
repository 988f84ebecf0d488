//! Pushes metrics to an OpenTelemetry collector: OTLP/HTTP with protobuf (OTLP 1.x,
//! opentelemetry.io/docs/specs/otlp).
//!
//! Counters are cumulative sums, so a push that fails loses nothing: the next one contains it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as proto;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as PointValue;
use opentelemetry_proto::tonic::resource::v1::Resource;
use perpacket_http::target::percent_decode;
use prost::Message;
use ureq::http::Uri;

use super::metrics::{Form, Metric, Number, Point};
use crate::status::Failure;

/// Time that a collector has to respond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Path of the metrics if a URL has no path.
const PATH: &str = "/v1/metrics";

/// The environment variable that adds headers to each push: `name=value,name=value`. Other
/// OpenTelemetry programs read it too.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Where metrics are pushed, and what they have in common.
struct Collector {
    url: String,
    headers: Vec<(String, String)>,
    agent: ureq::Agent,
    resource: Resource,
    began_ns: u64,
}

/// A thread that pushes metrics until it is dropped, and then once more.
pub struct Pushes {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pushes {
    /// Begins to push the result of `metrics` to a URL once an interval, and counts failures.
    ///
    /// `note` gets a sentence when pushes begin to fail, and when they succeed again.
    pub fn start(
        url: &str,
        interval: Duration,
        failed: Arc<AtomicU64>,
        metrics: impl Fn() -> Vec<Metric> + Send + 'static,
        note: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, Failure> {
        let collector = Collector::new(url)?;
        let (end, ended) = mpsc::channel();
        let run = move || {
            let mut is_failing = false;
            loop {
                let is_last = ended.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
                let pushed = collector.push(&metrics());
                if let Err(error) = &pushed {
                    failed.fetch_add(1, Ordering::Relaxed);
                    if !is_failing {
                        note(&format!("--otlp {}: {error}", collector.url));
                    }
                } else if is_failing {
                    note(&format!("--otlp {}: pushes succeed again", collector.url));
                }
                is_failing = pushed.is_err();
                if is_last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("pushes".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Failure::failed(format!("--otlp {url}: {error}")))?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A push that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

impl Collector {
    fn new(url: &str) -> Result<Self, Failure> {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("perpacket/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            url: endpoint(url).ok_or_else(|| {
                Failure::usage(format!(
                    "--otlp {url}: expected http://HOST:4318 or https://..."
                ))
                .with_hint("4318 is the port for OTLP over HTTP; 4317 is for gRPC")
            })?,
            headers: headers(&std::env::var(HEADERS).unwrap_or_default())
                .ok_or_else(|| Failure::usage(format!("{HEADERS}: expected name=value,...")))?,
            agent: config.into(),
            resource: resource(),
            began_ns: now_ns(),
        })
    }

    /// Pushes the current metrics. The caller prints the error after the URL, so the error is a
    /// phrase such as `connection refused`.
    fn push(&self, metrics: &[Metric]) -> Result<(), String> {
        let request = request(metrics, &self.resource, self.began_ns, now_ns());
        let mut post = self.agent.post(&self.url);
        for (name, value) in &self.headers {
            post = post.header(name, value);
        }
        let post = post.header("Content-Type", "application/x-protobuf");
        let mut response = post
            .send(&request.encode_to_vec()[..])
            .map_err(|error| error.to_string())?;
        let body = response.body_mut().read_to_vec();
        let body = body.map_err(|error| error.to_string())?;
        // A collector may accept a push with an empty or an unknown body.
        let answer = ExportMetricsServiceResponse::decode(&body[..]).unwrap_or_default();
        match answer.partial_success {
            Some(partial) if partial.rejected_data_points > 0 => Err(format!(
                "the collector rejected {} values: {}",
                partial.rejected_data_points, partial.error_message
            )),
            _ => Ok(()),
        }
    }
}

/// The URL of pushes. A URL without a path gets the path of metrics.
fn endpoint(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host()?.is_empty() {
        return None;
    }
    Some(match uri.path() {
        "" | "/" => format!("{}{PATH}", url.trim_end_matches('/')),
        _ => url.to_owned(),
    })
}

/// Names and values; values are percent-encoded. `None` for other text.
fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let value = String::from_utf8(percent_decode(value.trim().as_bytes())?).ok()?;
            Some((name.trim().to_owned(), value))
        })
        .collect()
}

/// This program and this machine.
fn resource() -> Resource {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Resource {
        attributes: [
            ("service.name", "perpacket"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("host.name", host.trim()),
        ]
        .into_iter()
        .map(|(name, value)| attribute(name, value))
        .collect(),
        ..Resource::default()
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn attribute(name: &str, value: &str) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

/// The message with all metrics. Times are nanoseconds since 1970.
fn request(
    metrics: &[Metric],
    resource: &Resource,
    began_ns: u64,
    now_ns: u64,
) -> ExportMetricsServiceRequest {
    let scope = InstrumentationScope {
        name: "perpacket".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let metrics = metrics
        .iter()
        .filter(|metric| !metric.points.is_empty())
        .map(|metric| message(metric, began_ns, now_ns))
        .collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![proto::ResourceMetrics {
            resource: Some(resource.clone()),
            scope_metrics: vec![proto::ScopeMetrics {
                scope: Some(scope),
                metrics,
                ..proto::ScopeMetrics::default()
            }],
            ..proto::ResourceMetrics::default()
        }],
    }
}

fn message(metric: &Metric, began_ns: u64, now_ns: u64) -> proto::Metric {
    let point = |point: &Point| proto::NumberDataPoint {
        attributes: point
            .labels
            .iter()
            .map(|(name, value)| attribute(name, value))
            .collect(),
        start_time_unix_nano: began_ns,
        time_unix_nano: now_ns,
        value: Some(match point.value {
            Number::Whole(value) => PointValue::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
            Number::Real(value) => PointValue::AsDouble(value),
        }),
        ..proto::NumberDataPoint::default()
    };
    let data_points = metric.points.iter().map(point).collect();
    let data = match metric.form {
        Form::Counter => proto::metric::Data::Sum(proto::Sum {
            data_points,
            aggregation_temporality: proto::AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        Form::Gauge | Form::Info => proto::metric::Data::Gauge(proto::Gauge { data_points }),
    };
    let suffix = if metric.form == Form::Info {
        "_info"
    } else {
        ""
    };
    proto::Metric {
        name: format!("perpacket_{}{suffix}", metric.name),
        description: metric.help.to_owned(),
        unit: if metric.unit() == "seconds" { "s" } else { "1" }.to_owned(),
        data: Some(data),
        ..proto::Metric::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_that_of_metrics() {
        let path_of = |url| endpoint(url);
        let expected = Some("http://a:4318/v1/metrics".to_owned());
        assert_eq!(path_of("http://a:4318"), expected);
        assert_eq!(path_of("http://a:4318/"), expected);
        assert_eq!(
            path_of("https://[::1]/otlp/x").as_deref(),
            Some("https://[::1]/otlp/x")
        );
        for wrong in ["a:4318", "grpc://a", "http://", "/v1", "http://a b"] {
            assert_eq!(path_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn headers_are_pairs_with_decoded_values() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers(""), Some(Vec::new()));
        assert_eq!(
            headers("authorization=Basic%20YQ==, x-tenant = 7"),
            Some(vec![
                pair("authorization", "Basic YQ=="),
                pair("x-tenant", "7")
            ])
        );
        assert_eq!(headers("authorization"), None);
    }
}
