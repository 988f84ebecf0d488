//! What `serve media` is asked to do: every option once, with its default, range, help and needs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use perpacket_spec::{BitRate, RunsOn, Size, SpecError, Time, Whole};
use schemars::JsonSchema;
use serde::Serialize;

use super::Buffering;

/// Longest session timeout: a day.
const SESSION_TIMEOUT_LIMIT: Time = Time::from_secs(86_400);

/// Stream stored media over RTSP and RTP, in one of five ways of buffering.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// Folder of the files: .ts, .wav, .pcmu, .pcma, .g722, .gsm.
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Address for RTSP; port 0 selects a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8554")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The user that root becomes after binding, by name or number [default: nobody].
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// How media get from the disk to the sender.
    #[arg(long, value_enum, default_value = "shared")]
    pub buffering: Buffering,
    /// Packets in a buffer of `single` and `double` [default: 10].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "buffering=single, buffering=double"))]
    pub buffer_packets: Option<Whole<1, 10_000>>,
    /// The CPUs.
    #[command(flatten)]
    #[serde(flatten)]
    pub runs_on: RunsOn,
    /// Highest number of sessions; the response to another SETUP is 453.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_sessions: u64,
    /// Highest payload rate of all streams; the response to a PLAY above it is 453.
    #[arg(long, value_name = "BIT-RATE")]
    pub max_bit_rate: Option<BitRate>,
    /// The response to PLAY is 453 while more than 1 % of the packets leave later than this.
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    pub max_lateness: Time,
    /// End a session after this time without a message from its client.
    #[arg(long, value_name = "TIME", default_value_t = Time::from_secs(60))]
    pub session_timeout: Time,
    /// Emulate a slow disk: delay every read by this time.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub read_delay: Time,
    /// Emulate a disk that serves one read after another at this rate, and reads 128 KiB ahead.
    #[arg(long, value_name = "BIT-RATE")]
    pub disk_rate: Option<BitRate>,
    /// Reader threads of `shared` and `mapped` [default: 8].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "buffering=shared, buffering=mapped"))]
    pub readers: Option<Whole<1, 1024>>,
    /// Size of the cache of file contents for later viewers, with `shared` and `mapped`
    /// [default: 256MiB].
    #[arg(long, value_name = "SIZE")]
    #[schemars(extend("x-needs" = "buffering=shared, buffering=mapped"))]
    pub cache_size: Option<Size>,
    /// With `shared` and `mapped`, at high rates, send packets together up to this long before
    /// their due time [default: 250ms].
    #[arg(long, value_name = "TIME")]
    #[schemars(extend("x-needs" = "buffering=shared, buffering=mapped"))]
    pub ahead: Option<Time>,
}

impl perpacket_spec::Spec for Spec {
    fn resolved(self) -> Result<Self, SpecError> {
        let timeout = self.session_timeout;
        if timeout < Time::from_secs(1) || timeout > SESSION_TIMEOUT_LIMIT {
            return Err(SpecError::new(format!(
                "--session-timeout {timeout}: expected 1s to {SESSION_TIMEOUT_LIMIT}"
            )));
        }
        Ok(self)
    }
}

impl Spec {
    /// Packets in a buffer of `single` and `double`.
    pub fn buffer_packets(&self) -> u32 {
        self.buffer_packets.map_or(10, Whole::get)
    }

    /// Highest payload rate of all streams.
    pub fn max_rate_bps(&self) -> u64 {
        self.max_bit_rate.map_or(u64::MAX, |rate| rate.0)
    }

    /// Reader threads of `shared` and `mapped`.
    pub fn readers(&self) -> usize {
        self.readers.map_or(8, Whole::count)
    }

    /// Size of the cache of blocks for later viewers.
    pub fn cache_bytes(&self) -> usize {
        self.cache_size.map_or(256 << 20, Size::as_usize)
    }

    /// At high rates, a packet may leave up to this time before it is due, together with another packet.
    pub fn ahead(&self) -> Duration {
        self.ahead.map_or(Duration::from_millis(250), |time| time.0)
    }
}
