//! Offers one rate: sends frames, waits for the last ones and counts them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::RouterError;
use crate::generator::Generator;
use crate::receiver::{Received, Receiver};
use crate::search::{Trial, TrialOutcome};

/// Longest wait for frames in flight. RFC 2544, section 23, specifies two seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A trial ends after this time without frames. On one machine, frames wait in queues for
/// milliseconds at most. Two seconds would be most of a short trial.
const IDLE_LIMIT: Duration = Duration::from_millis(200);

/// Interval at which the receiver is read. The receiver's buffer has room for many more frames.
const READ_INTERVAL: Duration = Duration::from_millis(1);

/// Trials with a generator and a receiver.
pub struct TrafficTrial<'a> {
    /// Sends the frames.
    pub generator: &'a mut Generator,
    /// Counts them.
    pub receiver: &'a mut Receiver,
    /// Length of each trial.
    pub duration: Duration,
    /// Ends a trial early if true.
    pub stop: &'a AtomicBool,
}

impl Trial for TrafficTrial<'_> {
    type Error = RouterError;

    fn run(&mut self, rate_pps: f64) -> Result<TrialOutcome, RouterError> {
        let frames = (rate_pps * self.duration.as_secs_f64()).ceil().max(1.0) as u64;
        let before = self.receiver.read()?;
        let sending = AtomicBool::new(true);
        let (generator, receiver, stop) = (&mut *self.generator, &mut *self.receiver, self.stop);
        let (sent, after) = thread::scope(|scope| {
            let sending = &sending;
            let counting = scope.spawn(move || drain(receiver, sending));
            let sent = generator.send(frames, rate_pps, || !stop.load(Ordering::Relaxed));
            sending.store(false, Ordering::Release);
            let after = counting
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, RouterError>((sent?, after?))
        })?;
        Ok(TrialOutcome {
            planned: frames,
            sent: sent.frames,
            received: after.frames - before.frames,
            not_counted: after.overflowed - before.overflowed,
            out_of_order: match (before.out_of_order, after.out_of_order) {
                (Some(before), Some(after)) => Some(after - before),
                _ => None,
            },
            planned_s: frames as f64 / rate_pps,
            duration_s: sent.duration_s,
        })
    }
}

/// Reads until the generator has stopped and no frame has arrived for a while.
fn drain(receiver: &mut Receiver, sending: &AtomicBool) -> Result<Received, RouterError> {
    let mut latest = receiver.read()?;
    let mut ended: Option<Instant> = None;
    let mut changed = Instant::now();
    loop {
        thread::sleep(READ_INTERVAL);
        let now = receiver.read()?;
        if now != latest {
            latest = now;
            changed = Instant::now();
        }
        if sending.load(Ordering::Acquire) {
            continue;
        }
        let ended = ended.get_or_insert_with(Instant::now);
        if ended.elapsed() > LONGEST_WAIT
            || ended.elapsed() > IDLE_LIMIT && changed.elapsed() > IDLE_LIMIT
        {
            return Ok(latest);
        }
    }
}
