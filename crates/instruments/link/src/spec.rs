//! What `link` is asked to do: every option once, with its default, range, help and needs.

use clap::Args;
use perpacket_spec::{BitRate, RunsOn, Seed, Share, Time, Until, Whole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::schedule::DirectionSpec;

/// Frames that may wait.
pub type Queue = Whole<1, 4_294_967_295>;

/// Join two hosts by a link with latency, bandwidth and loss.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// Network namespace of the left host, by name or by path, and the TAP device to create in it
    /// [default of IFNAME: link0].
    #[arg(long, value_name = "NETNS[:IFNAME]")]
    pub left: String,
    /// The same for the right host.
    #[arg(long, value_name = "NETNS[:IFNAME]")]
    pub right: String,
    /// IPv4 address of the left device; without it, the device has none.
    #[arg(long, value_name = "CIDR")]
    pub left_address: Option<String>,
    /// The same for the right device.
    #[arg(long, value_name = "CIDR")]
    pub right_address: Option<String>,
    /// Delay of each frame, one way.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub delay: Time,
    /// Make each frame's delay shorter or longer by a uniformly random time up to this one; frames
    /// stay in order.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub jitter: Time,
    /// Bits a second that each direction carries, Ethernet headers included [default: no limit].
    #[arg(long, value_name = "BIT-RATE")]
    pub bit_rate: Option<BitRate>,
    /// Highest number of frames that wait where --bit-rate limits a direction [default: 1000].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "bit-rate, left-to-right-bit-rate, right-to-left-bit-rate"))]
    pub queue_packets: Option<Queue>,
    /// Share of frames lost in each direction, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub loss: Share,
    /// What differs from left to right.
    #[command(flatten)]
    #[serde(flatten)]
    pub left_to_right: LeftToRight,
    /// What differs from right to left.
    #[command(flatten)]
    #[serde(flatten)]
    pub right_to_left: RightToLeft,
    /// The seed.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
    /// The CPUs.
    #[command(flatten)]
    #[serde(flatten)]
    pub runs_on: RunsOn,
    /// The end.
    #[command(flatten)]
    #[serde(flatten)]
    pub until: Until,
}

/// Options of the direction from left to right.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[command(next_help_heading = "From left to right, where it differs")]
pub struct LeftToRight {
    /// Instead of --delay.
    #[arg(long, value_name = "TIME")]
    pub left_to_right_delay: Option<Time>,
    /// Instead of --jitter.
    #[arg(long, value_name = "TIME")]
    pub left_to_right_jitter: Option<Time>,
    /// Instead of --bit-rate.
    #[arg(long, value_name = "BIT-RATE")]
    pub left_to_right_bit_rate: Option<BitRate>,
    /// Instead of --queue-packets.
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "bit-rate, left-to-right-bit-rate"))]
    pub left_to_right_queue_packets: Option<Queue>,
    /// Instead of --loss.
    #[arg(long, value_name = "SHARE")]
    pub left_to_right_loss: Option<Share>,
}

/// Options of the direction from right to left.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[command(next_help_heading = "From right to left, where it differs")]
pub struct RightToLeft {
    /// Instead of --delay.
    #[arg(long, value_name = "TIME")]
    pub right_to_left_delay: Option<Time>,
    /// Instead of --jitter.
    #[arg(long, value_name = "TIME")]
    pub right_to_left_jitter: Option<Time>,
    /// Instead of --bit-rate.
    #[arg(long, value_name = "BIT-RATE")]
    pub right_to_left_bit_rate: Option<BitRate>,
    /// Instead of --queue-packets.
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "bit-rate, right-to-left-bit-rate"))]
    pub right_to_left_queue_packets: Option<Queue>,
    /// Instead of --loss.
    #[arg(long, value_name = "SHARE")]
    pub right_to_left_loss: Option<Share>,
}

impl perpacket_spec::Spec for Spec {}

impl Spec {
    pub fn left_to_right(&self) -> DirectionSpec {
        let own = &self.left_to_right;
        self.direction(&Differences {
            delay: own.left_to_right_delay,
            jitter: own.left_to_right_jitter,
            bit_rate: own.left_to_right_bit_rate,
            queue_packets: own.left_to_right_queue_packets,
            loss: own.left_to_right_loss,
        })
    }

    pub fn right_to_left(&self) -> DirectionSpec {
        let own = &self.right_to_left;
        self.direction(&Differences {
            delay: own.right_to_left_delay,
            jitter: own.right_to_left_jitter,
            bit_rate: own.right_to_left_bit_rate,
            queue_packets: own.right_to_left_queue_packets,
            loss: own.right_to_left_loss,
        })
    }

    /// A direction. Options of the direction have priority over options of both
    /// directions.
    fn direction(&self, own: &Differences) -> DirectionSpec {
        DirectionSpec {
            delay_us: microseconds(own.delay.unwrap_or(self.delay)),
            jitter_us: microseconds(own.jitter.unwrap_or(self.jitter)),
            rate_bps: own.bit_rate.or(self.bit_rate).map(|rate| rate.0),
            queue_packets: own
                .queue_packets
                .or(self.queue_packets)
                .map_or(DirectionSpec::default().queue_packets, Whole::count),
            loss: own.loss.unwrap_or(self.loss).0,
        }
    }
}

/// The options of one direction. They replace the options of both directions.
struct Differences {
    delay: Option<Time>,
    jitter: Option<Time>,
    bit_rate: Option<BitRate>,
    queue_packets: Option<Queue>,
    loss: Option<Share>,
}

fn microseconds(time: Time) -> f64 {
    time.0.as_secs_f64() * 1e6
}
