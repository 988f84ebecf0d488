//! Connections on the NIC, its limit and its queue over time.

use serde::Serialize;

use crate::context::{Context, Event};
use crate::nic::Nic;
use crate::time::Span;

/// Columns of equal length, one row a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Simulated seconds since the start of the run, warm-up included.
    pub time_s: Vec<f64>,
    /// Connections on the NIC (Cnum).
    pub connections_on_nic: Vec<u32>,
    /// Maximum number of connections that the NIC accepts (Soft_limit). Without load control, the
    /// hard limit.
    pub soft_limit: Vec<u32>,
    /// Received packets that wait for the NIC's TCP (Qlen).
    pub queue_packets: Vec<u32>,
    /// State of load control; `off` without it.
    pub state: Vec<&'static str>,
    #[serde(skip)]
    interval: Span,
}

impl Timeline {
    /// A timeline with a sample every `interval`.
    pub fn every(interval: Span) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    /// Adds a sample and schedules the next.
    pub(crate) fn sample(&mut self, nic: &Nic, context: &mut Context) {
        let (soft_limit, state) = nic.soft_limit_and_state();
        self.time_s.push(context.now.as_seconds());
        self.connections_on_nic.push(nic.connections());
        self.soft_limit.push(soft_limit);
        self.queue_packets.push(nic.queue_packets());
        self.state.push(state);
        // Without other events the system has stopped. The next sample alone must not prolong the
        // run.
        if !context.events.is_empty() {
            context.after(self.interval, Event::Sample);
        }
    }
}
