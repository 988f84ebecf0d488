//! The highest rate without loss: RFC 2544, section 26.1, by bisection.
//!
//! The search uses no router and no clock, only trials. So a model of a device with a known limit
//! ([`KnownDropper`]) can test the search.

use std::convert::Infallible;

use perpacket_spec::{Period, Rate, Share, SpecError, Whole};
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a trial at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TrialOutcome {
    /// Frames to send.
    pub planned: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Frames that arrived when the receiver's buffer was full. The router did not lose them.
    pub not_counted: u64,
    /// Frames out of order or twice; `None` if the receiver does not read sequence numbers.
    pub out_of_order: Option<u64>,
    /// Planned time of sending, in seconds.
    pub planned_s: f64,
    /// Actual time of sending, in seconds.
    pub duration_s: f64,
}

impl TrialOutcome {
    /// Lost frames as a fraction of the sent frames. Includes only the router's own losses.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 {
            return 0.0;
        }
        let arrived = self.received + self.not_counted;
        self.sent.saturating_sub(arrived) as f64 / self.sent as f64
    }

    /// Whether the generator achieved the rate. It did if it sent all frames in the planned
    /// time, neither faster nor slower.
    pub fn achieved_rate(&self) -> bool {
        self.sent as f64 >= self.planned as f64 * RATE_SHARE
            && self.duration_s <= self.planned_s / RATE_SHARE + LATE_S
            && self.duration_s >= self.planned_s * RATE_SHARE - LATE_S
    }
}

/// Smallest fraction of the frames that must be sent for a rate to count as achieved. The planned
/// and the actual time must also agree: the shorter of them is at least this fraction of the
/// longer, apart from a difference of [`LATE_S`].
const RATE_SHARE: f64 = 0.99;

/// Tolerated difference between the planned and the actual end of a stream, in seconds. It is the
/// same at every rate, because it allows for the delay of single frames.
const LATE_S: f64 = 0.01;

/// A device that forwards frames, real or modelled.
pub trait Trial {
    /// The reason why a trial fails.
    type Error;

    /// Offers a rate in frames a second.
    ///
    /// # Errors
    /// The trial fails.
    fn run(&mut self, rate_pps: f64) -> Result<TrialOutcome, Self::Error>;
}

/// The options of a search.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
#[command(next_help_heading = "Search")]
#[serde(rename_all = "kebab-case")]
pub struct SearchSpec {
    /// The lowest rate to try, in frames a second.
    #[arg(long, value_name = "RATE", default_value = "1000")]
    pub lowest_rate: Rate,
    /// The highest rate to try.
    #[arg(long, value_name = "RATE", default_value = "2000000")]
    pub highest_rate: Rate,
    /// End when the rates with and without loss differ by this share.
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub resolution: f64,
    /// Share of frames that may be lost; RFC 2544 allows none.
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub tolerated_loss: Share,
    /// Length of each trial; RFC 2544 has 60 s for the final ones.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub trial: Period,
    /// Trials that a rate must pass, because a rate may pass one trial by chance.
    #[arg(long, value_name = "N", default_value = "2")]
    pub confirmations: Whole<1, 1000>,
}

/// One trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    pub rate_pps: f64,
    /// Its result.
    #[serde(flatten)]
    pub outcome: TrialOutcome,
    /// Share lost.
    pub loss: f64,
    /// Whether the generator achieved the rate and the router lost no more than the tolerated share.
    pub passed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchResult {
    /// The highest rate that passed, in frames a second; `None` if no rate did.
    pub throughput_pps: Option<f64>,
    /// The lowest rate that failed; `None` if no rate did.
    pub failed_pps: Option<f64>,
    /// Whether the generator was the limit. The router may then forward more.
    pub generator_limited: bool,
    /// All trials in order.
    pub steps: Vec<Step>,
}

/// Searches for the highest rate without loss. Before each trial, `may_continue` decides whether to
/// go on.
///
/// # Errors
/// The first error of a trial.
pub fn throughput<T: Trial>(
    spec: &SearchSpec,
    trial: &mut T,
    mut may_continue: impl FnMut() -> bool,
) -> Result<SearchResult, T::Error> {
    let mut result = SearchResult {
        throughput_pps: None,
        failed_pps: None,
        generator_limited: false,
        steps: Vec::new(),
    };
    let mut rate_pps = spec.highest_rate.0;
    while may_continue() {
        match offer(spec, trial, rate_pps, &mut result.steps)? {
            RateResult::Passed => result.throughput_pps = Some(rate_pps),
            failure => {
                result.failed_pps = Some(rate_pps);
                result.generator_limited = failure == RateResult::GeneratorLimited;
            }
        }
        rate_pps = match (result.throughput_pps, result.failed_pps) {
            (Some(_), None) => break,
            // Use the geometric mean, because the rates may differ by a factor of a thousand.
            (Some(good), Some(bad)) if bad / good > 1.0 + spec.resolution => (good * bad).sqrt(),
            (Some(_), Some(_)) => break,
            (None, _) if rate_pps > spec.lowest_rate.0 => (rate_pps * spec.lowest_rate.0)
                .sqrt()
                .min(rate_pps / (1.0 + spec.resolution))
                .max(spec.lowest_rate.0),
            (None, _) => break,
        };
    }
    Ok(result)
}

/// The reason why a rate passed or failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RateResult {
    Passed,
    /// The router lost frames.
    Lost,
    /// The generator did not achieve the rate.
    GeneratorLimited,
}

/// Offers a rate until it fails or has passed often enough.
fn offer<T: Trial>(
    spec: &SearchSpec,
    trial: &mut T,
    rate_pps: f64,
    steps: &mut Vec<Step>,
) -> Result<RateResult, T::Error> {
    for _ in 0..spec.confirmations.get() {
        let outcome = trial.run(rate_pps)?;
        let step = spec.step(rate_pps, outcome);
        steps.push(step);
        if !step.passed {
            // Check loss first, because a generator that is too slow does not cause loss.
            return Ok(if step.loss > spec.tolerated_loss.0 {
                RateResult::Lost
            } else {
                RateResult::GeneratorLimited
            });
        }
    }
    Ok(RateResult::Passed)
}

/// Measures the loss at each rate with one trial. A rate passes under the same rules as in a
/// search.
///
/// # Errors
/// The first error of a trial.
pub fn loss_curve<T: Trial>(
    spec: &SearchSpec,
    rates_pps: &[f64],
    trial: &mut T,
    mut may_continue: impl FnMut() -> bool,
) -> Result<Vec<Step>, T::Error> {
    let mut steps = Vec::with_capacity(rates_pps.len());
    for &rate_pps in rates_pps {
        if !may_continue() {
            break;
        }
        let outcome = trial.run(rate_pps)?;
        steps.push(spec.step(rate_pps, outcome));
    }
    Ok(steps)
}

impl SearchSpec {
    /// The result of a trial.
    fn step(&self, rate_pps: f64, outcome: TrialOutcome) -> Step {
        let loss = outcome.loss();
        Step {
            rate_pps,
            outcome,
            loss,
            passed: outcome.achieved_rate() && loss <= self.tolerated_loss.0,
        }
    }
}

impl perpacket_spec::Spec for SearchSpec {
    fn resolved(self) -> Result<Self, SpecError> {
        let refuse = |text: String| Err(SpecError::new(text));
        if self.lowest_rate.0 < 1.0 {
            return refuse(format!(
                "--lowest-rate {}: expected at least 1 frame a second",
                self.lowest_rate
            ));
        }
        if self.highest_rate < self.lowest_rate {
            return refuse(format!(
                "--highest-rate {}: expected at least the lowest rate, {}",
                self.highest_rate, self.lowest_rate
            ));
        }
        if !(self.resolution >= 1e-4 && self.resolution < 1.0) {
            return refuse(format!(
                "--resolution {}: expected a share from 0.0001 to 1",
                self.resolution
            ));
        }
        Ok(self)
    }
}

/// A device with a known limit. It forwards frames at a rate and has a queue.
#[derive(Clone, Copy, Debug)]
pub struct KnownDropper {
    /// Frames a second that it forwards.
    pub capacity_pps: f64,
    /// Maximum number of frames in the queue.
    pub queue_frames: f64,
    /// The highest rate of the generator before it.
    pub generator_pps: f64,
    /// Length of a trial, in seconds.
    pub duration_s: f64,
}

impl KnownDropper {
    /// The highest rate without loss in a trial of this length. At this rate, the frames beyond the
    /// capacity just fit into the queue.
    pub fn throughput_pps(&self) -> f64 {
        self.capacity_pps + self.queue_frames / self.duration_s
    }
}

impl Trial for KnownDropper {
    type Error = Infallible;

    fn run(&mut self, rate_pps: f64) -> Result<TrialOutcome, Infallible> {
        let planned = rate_pps * self.duration_s;
        let sent = planned.min(self.generator_pps * self.duration_s);
        let carried = self.capacity_pps * self.duration_s + self.queue_frames;
        Ok(TrialOutcome {
            planned: planned as u64,
            sent: sent as u64,
            received: sent.min(carried) as u64,
            not_counted: 0,
            out_of_order: None,
            planned_s: self.duration_s,
            duration_s: self.duration_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(options: &str) -> SearchSpec {
        perpacket_spec::parse(options).unwrap()
    }

    fn dropper(capacity_pps: f64) -> KnownDropper {
        KnownDropper {
            capacity_pps,
            queue_frames: 0.0,
            generator_pps: f64::INFINITY,
            duration_s: 10.0,
        }
    }

    fn search(trial: &mut KnownDropper) -> SearchResult {
        let Ok(result) = throughput(&spec(""), trial, || true);
        result
    }

    proptest! {
        #[test]
        fn the_search_finds_a_known_limit_within_its_resolution(capacity_pps in 1000.0..1.99e6) {
            let result = search(&mut dropper(capacity_pps));
            let rate_pps = result.throughput_pps.unwrap();
            prop_assert!(rate_pps <= capacity_pps * 1.0001);
            prop_assert!(rate_pps >= capacity_pps / 1.0201, "{} of {}", rate_pps, capacity_pps);
            prop_assert!(!result.generator_limited);
        }
    }

    #[test]
    fn a_queue_raises_the_limit_by_the_frames_that_it_has_room_for() {
        let mut trial = KnownDropper {
            queue_frames: 50_000.0,
            ..dropper(100_000.0)
        };
        assert_eq!(trial.throughput_pps(), 105_000.0);
        let rate_pps = search(&mut trial).throughput_pps.unwrap();
        assert!(
            (105_000.0 / 1.0201..=105_000.1).contains(&rate_pps),
            "{rate_pps}"
        );
    }

    #[test]
    fn a_search_ends_at_the_highest_rate_if_that_has_no_loss() {
        let result = search(&mut dropper(1e9));
        assert_eq!(result.throughput_pps, Some(2e6));
        assert_eq!(result.failed_pps, None);
    }

    #[test]
    fn loss_at_every_rate_gives_no_throughput() {
        let result = search(&mut dropper(10.0));
        assert_eq!(result.throughput_pps, None);
        assert_eq!(result.failed_pps, Some(1000.0));
    }

    #[test]
    fn a_generator_that_is_slower_than_the_device_is_reported() {
        let mut trial = KnownDropper {
            generator_pps: 300_000.0,
            ..dropper(1e9)
        };
        let result = search(&mut trial);
        assert!(result.generator_limited);
        // The generator counts as achieving a rate if it sends 99 % of the frames.
        assert!((290_000.0..305_000.0).contains(&result.throughput_pps.unwrap()));
    }

    #[test]
    fn a_slow_generator_is_not_the_limit_if_its_frames_are_lost() {
        let mut trial = KnownDropper {
            generator_pps: 500.0,
            ..dropper(0.0)
        };
        let result = search(&mut trial);
        assert_eq!(result.throughput_pps, None);
        assert!(
            result
                .steps
                .iter()
                .all(|step| !step.outcome.achieved_rate())
        );
        assert!(!result.generator_limited);
    }

    /// A trial of 100 frames in a second.
    fn outcome(received: u64, not_counted: u64, duration_s: f64) -> TrialOutcome {
        TrialOutcome {
            planned: 100,
            sent: 100,
            received,
            not_counted,
            out_of_order: None,
            planned_s: 1.0,
            duration_s,
        }
    }

    #[test]
    fn a_generator_that_is_too_fast_or_too_slow_does_not_achieve_the_rate() {
        for (duration_s, achieved) in [(1.005, true), (0.1, false), (1.1, false)] {
            assert_eq!(outcome(100, 0, duration_s).achieved_rate(), achieved);
        }
    }

    #[test]
    fn frames_that_the_receiver_had_no_room_for_are_not_loss() {
        assert_eq!(outcome(90, 10, 1.0).loss(), 0.0);
    }

    #[test]
    fn the_loss_of_a_known_dropper_is_what_exceeds_its_limit() {
        let spec = spec("");
        let rates_pps = [50_000.0, 200_000.0];
        let Ok(steps) = loss_curve(&spec, &rates_pps, &mut dropper(100_000.0), || true);
        let losses: Vec<_> = steps.iter().map(|step| step.loss).collect();
        assert_eq!(losses, [0.0, 0.5]);
    }

    #[test]
    fn a_rate_with_tolerated_loss_passes_in_a_curve_as_in_a_search() {
        for (tolerated_loss, expected) in [(0.0, [true, false, false]), (0.1, [true, true, false])]
        {
            let spec = spec(&format!("--tolerated-loss {tolerated_loss}"));
            let rates_pps = [100_000.0, 110_000.0, 120_000.0];
            let Ok(steps) = loss_curve(&spec, &rates_pps, &mut dropper(100_000.0), || true);
            let passed: Vec<_> = steps.iter().map(|step| step.passed).collect();
            assert_eq!(passed, expected);
        }
    }
}
