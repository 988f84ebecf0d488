//! What `load media` is asked to do: every option once, with its default, range, help and needs.

use clap::Args;
use perpacket_spec::{RunsOn, SpecError, Time, Whole, Window};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Distribution, Transport};

/// Receive streams from an RTSP server, and check every byte.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// rtsp://HOST[:PORT]/PATH; the medium's number in five digits replaces {}.
    pub url: String,
    /// Number of clients.
    #[arg(long, value_name = "N", default_value = "1")]
    pub clients: Whole<1, 100_000>,
    /// Time over which the clients start, before the warm-up.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub ramp: Time,
    /// The measured window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: Window,
    /// The media that clients play.
    #[arg(long, value_enum, default_value = "unique")]
    pub distribution: Distribution,
    /// Number of media in `multiple` [default: the number of clients].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "distribution=multiple"))]
    pub files: Option<Whole<1, 100_000>>,
    /// Number of the first medium [default: 0].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "url=*{}*"))]
    pub first_file: Option<Whole<0, 1_000_000>>,
    /// How RTP packets are carried.
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Transport,
    /// Compare every byte with the stream of `media synthesize`; exit with 1 if one differs.
    #[arg(long)]
    pub check: bool,
    /// The CPUs.
    #[command(flatten)]
    #[serde(flatten)]
    pub runs_on: RunsOn,
}

impl perpacket_spec::Spec for Spec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        self.window.resolve(Time::from_secs(1), false);
        Ok(self)
    }
}

impl Spec {
    /// Number of media in `multiple`.
    pub fn files(&self) -> u32 {
        self.files.map_or(self.clients.get(), Whole::get)
    }

    /// Number of the first medium.
    pub fn first_file(&self) -> u32 {
        self.first_file.map_or(0, Whole::get)
    }
}
