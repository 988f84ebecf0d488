//! What `load stream` is asked to do: every option once, for the end that loads and for the far end.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::{Args, ValueEnum};
use perpacket_spec::{BitRate, RunsOn, Size, SpecError, Time, Whole, Window};
use schemars::JsonSchema;
use serde::Serialize;

use super::greeting::SEGMENT_LIMIT_BYTES;
use crate::error::LoadError;
use crate::sources::SourceAddresses;

/// Default payload bytes of a segment: it fills an Ethernet frame.
const SEGMENT_SIZE: Size = Size(1460);

/// The end that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// This machine sends.
    Send,
    /// The far end sends.
    Receive,
}

impl Direction {
    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// Send or receive bulk data on many TCP connections, as either end.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// Run the far end at this address until a signal.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "to")]
    pub listen: Option<String>,
    /// The far end to send to or receive from.
    #[arg(long, value_name = "ADDR:PORT")]
    pub to: Option<String>,
    /// End when all connections have closed.
    #[arg(long)]
    #[schemars(extend("x-needs" = "listen"))]
    pub once: bool,
    /// Number of connections [default: 1].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "to"))]
    pub connections: Option<Whole<1, 1_000_000>>,
    /// Payload bytes of a segment [default: 1460].
    #[arg(long, value_name = "SIZE")]
    #[schemars(extend("x-needs" = "to"))]
    pub segment_size: Option<Size>,
    /// Payload rate of all connections together; without it, as fast as possible.
    #[arg(long, value_name = "BIT-RATE")]
    #[schemars(extend("x-needs" = "to"))]
    pub bit_rate: Option<BitRate>,
    /// Side that sends [default: send].
    #[arg(long, value_enum)]
    #[schemars(extend("x-needs" = "to"))]
    pub direction: Option<Direction>,
    /// The measured window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: Window,
    /// Congestion control [default: that of the machine].
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// The CPUs.
    #[command(flatten)]
    #[serde(flatten)]
    pub runs_on: RunsOn,
    /// Number of threads [default: one per CPU].
    #[arg(long, value_name = "N")]
    #[schemars(extend(
        "x-needs" = "to",
        "x-excludes" = "cpus: each of them has one thread"
    ))]
    pub threads: Option<Whole<1, 4096>>,
    /// Source addresses of the connections.
    #[arg(long, value_name = "ADDR[-ADDR]")]
    #[schemars(extend("x-needs" = "to"))]
    pub source: Option<SourceAddresses>,
}

impl perpacket_spec::Spec for Spec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        let refuse = |text: String| Err(SpecError::new(text));
        if self.listen.is_some() {
            return match self.window.duration.is_some() || self.window.warmup.is_some() {
                true => refuse(
                    "--duration and --warmup have no effect with --listen: the end with --to has a window"
                        .to_owned(),
                ),
                false => Ok(self),
            };
        }
        if self.to.is_none() {
            return Err(SpecError::new(
                "load stream: expected --listen ADDR:PORT or --to ADDR:PORT",
            )
            .with_hint(
                "start the far end with --listen, then this one with --to and the address of the far end",
            ));
        }
        let size = *self.segment_size.get_or_insert(SEGMENT_SIZE);
        if !(1..=u64::from(SEGMENT_LIMIT_BYTES)).contains(&size.0) {
            return refuse(format!(
                "--segment-size {size}: expected 1 to {SEGMENT_LIMIT_BYTES} bytes"
            ));
        }
        if let Some(rate @ BitRate(0)) = self.bit_rate {
            return refuse(format!("--bit-rate {rate}: expected more than 0"));
        }
        self.connections.get_or_insert(Whole::nearest(1));
        self.direction.get_or_insert(Direction::Send);
        self.window.resolve(Time::from_secs(0), false);
        if self.runs_on.cpus.is_none() {
            self.threads = Some(Whole::nearest(super::threads(&self)));
        }
        Ok(self)
    }
}

impl Spec {
    /// The address that `--listen` or `--to` names.
    ///
    /// # Errors
    /// The text has no address and port.
    pub fn address(&self) -> Result<SocketAddr, LoadError> {
        let (option, text) = match (&self.listen, &self.to) {
            (Some(text), _) => ("listen", text.as_str()),
            (None, to) => ("to", to.as_deref().unwrap_or_default()),
        };
        let first = text.to_socket_addrs().ok().and_then(|mut all| all.next());
        first.ok_or_else(|| {
            LoadError::Usage(format!(
                "--{option} {text}: expected ADDRESS:PORT, such as 127.0.0.1:5001"
            ))
        })
    }

    pub fn connections(&self) -> u32 {
        self.connections.map_or(1, Whole::get)
    }

    /// Payload bytes of a segment.
    pub fn segment_bytes(&self) -> u32 {
        self.segment_size.unwrap_or(SEGMENT_SIZE).0 as u32
    }

    /// Bits of payload per second on all connections together; `None` is unlimited.
    pub fn rate_bps(&self) -> Option<f64> {
        self.bit_rate.map(|rate| rate.0 as f64)
    }

    /// The end that sends.
    pub fn direction(&self) -> Direction {
        self.direction.unwrap_or(Direction::Send)
    }
}
