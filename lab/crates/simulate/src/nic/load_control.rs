//! Load control: how many connections the NIC may run (OSDI 2006, section 3.2, figure 3).
//!
//! It is evaluated when a packet arrives, a connection is handed off or one ends, and at no other
//! time.

use perpacket_cost::named;

named! {
    /// The state of the controller.
    #[derive(Default)]
    pub enum State {
        #[default]
        Monitor = "monitor",
        Decrease = "decrease",
        Increase = "increase",
    }
}

/// The controller.
#[derive(Clone, Copy, Debug)]
pub struct LoadControl {
    hard_limit: u32,
    hiwat: u32,
    lowat: u32,
    step: u32,
    soft_limit: u32,
    state: State,
}

impl LoadControl {
    /// Starts in `Monitor` with the soft limit at the hard limit.
    pub const fn new(hard_limit: u32, hiwat: u32, lowat: u32, step: u32) -> Self {
        Self {
            hard_limit,
            hiwat,
            lowat,
            step,
            soft_limit: hard_limit,
            state: State::Monitor,
        }
    }

    /// Maximum number of connections that the NIC accepts now.
    pub const fn soft_limit(&self) -> u32 {
        self.soft_limit
    }

    pub const fn state(&self) -> State {
        self.state
    }

    /// Evaluates the controller once, when `queue` NIC packets wait and the NIC runs `connections`.
    /// Returns the soft limit if it has changed, so that the driver needs the new one.
    pub fn evaluate(&mut self, queue: u32, connections: u32) -> Option<u32> {
        let before = self.soft_limit;
        match self.state {
            State::Monitor | State::Increase if queue > self.hiwat => self.lower(connections),
            State::Monitor if queue < self.lowat => {
                self.soft_limit = self
                    .soft_limit
                    .saturating_add(self.step)
                    .min(self.hard_limit);
                self.state = State::Increase;
            }
            State::Decrease if connections < self.soft_limit => self.state = State::Monitor,
            State::Increase if connections >= self.soft_limit => self.state = State::Monitor,
            _ => {}
        }
        (self.soft_limit != before).then_some(self.soft_limit)
    }

    fn lower(&mut self, connections: u32) {
        let lower = self.soft_limit.min(connections).saturating_sub(self.step);
        // With a limit of 0, `Cnum < Soft_limit` would never be true, and `Decrease` would not end.
        self.soft_limit = lower.max(1);
        self.state = State::Decrease;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HARD: u32 = 4096;

    fn control() -> LoadControl {
        LoadControl::new(HARD, 1024, 256, 32)
    }

    #[test]
    fn the_soft_limit_starts_at_the_hard_limit() {
        assert_eq!(control().soft_limit(), HARD);
        assert_eq!(control().state(), State::Monitor);
    }

    /// Each step: the packets in the queue, the connections, the limit if it changes, the next state.
    #[test]
    fn each_transition_of_the_figure_has_its_condition() {
        let steps = [
            // At the watermark nothing happens; above it, 1: Monitor to Decrease.
            (1024, 2048, None, State::Monitor),
            (1025, 2048, Some(2016), State::Decrease),
            // It waits at any length of the queue. 2: enough connections have ended.
            (2000, 2016, None, State::Decrease),
            (2000, 2015, None, State::Monitor),
            // 3: Monitor to Increase below the low watermark.
            (256, 2015, None, State::Monitor),
            (255, 2015, Some(2048), State::Increase),
            // 4: the limit is reached.
            (0, 2047, None, State::Increase),
            (0, 2048, None, State::Monitor),
            (0, 2048, Some(2080), State::Increase),
            // 5: Increase to Decrease above the high watermark.
            (1025, 1000, Some(968), State::Decrease),
        ];
        let mut control = control();
        for (queue, connections, limit, state) in steps {
            let evaluated = control.evaluate(queue, connections);
            assert_eq!(
                (evaluated, control.state()),
                (limit, state),
                "{queue} {connections}"
            );
        }
    }

    #[test]
    fn a_decrease_always_ends_after_all_connections_have_ended() {
        let mut control = control();
        assert_eq!(control.evaluate(1025, 20), Some(1));
        control.evaluate(0, 0);
        assert_eq!(control.state(), State::Monitor);
    }

    proptest! {
        #[test]
        fn the_soft_limit_never_exceeds_the_hard_limit(
            inputs in prop::collection::vec((0u32..4000, 0u32..5000), 1..200)
        ) {
            let mut control = control();
            for (queue, connections) in inputs {
                control.evaluate(queue, connections);
                prop_assert!(control.soft_limit() <= HARD);
            }
        }
    }
}
