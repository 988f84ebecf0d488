//! Connections on the NIC, its limit and its queue over time.

use serde::Serialize;

use crate::time::Span;
use crate::world::{Event, World};

/// Columns of equal length, one row a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Simulated seconds since the start of the run, warm-up included.
    pub time_s: Vec<f64>,
    /// Connections on the NIC (Cnum).
    pub connections_on_nic: Vec<u32>,
    /// Most connections it accepts (Soft_limit); the hard limit without load control.
    pub soft_limit: Vec<u32>,
    /// Received packets that wait for the NIC's TCP (Qlen).
    pub queue_packets: Vec<u32>,
    /// State of load control; `off` without it.
    pub state: Vec<&'static str>,
    #[serde(skip)]
    interval: Span,
}

impl Timeline {
    /// Takes a sample every `interval`.
    #[must_use]
    pub fn every(interval: Span) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }
}

impl World {
    /// Takes a sample and schedules the next.
    pub fn sample(&mut self) {
        let hard_limit = self.settings.nic.connections;
        let Some(timeline) = &mut self.timeline else {
            return;
        };
        let control = self.nic.load_control();
        timeline.time_s.push(self.now.as_seconds());
        timeline.connections_on_nic.push(self.nic.connections());
        timeline
            .soft_limit
            .push(control.map_or(hard_limit, |control| control.soft_limit()));
        timeline.queue_packets.push(self.nic.queues.length() as u32);
        timeline
            .state
            .push(control.map_or("off", |control| control.state().name()));
        let interval = timeline.interval;
        // A world in which nothing else will happen has stopped.
        if !self.events.is_empty() {
            self.after(interval, Event::Sample);
        }
    }
}
