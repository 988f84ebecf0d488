//! What a connection does next.

/// A response of any size will do.
pub(crate) const ANY_SIZE: u32 = u32::MAX;

/// How an object is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    /// GET of a file.
    #[default]
    Get,
    /// HEAD of a file.
    Head,
    /// GET of a file unless it is as old as the client's copy.
    Conditional,
    /// POST without a body.
    Post,
    /// SPECweb99's dynamic GET.
    DynamicGet,
    /// SPECweb99's dynamic GET with a rotating advertisement.
    Advertisement,
    /// SPECweb99's dynamic POST.
    DynamicPost,
    /// SPECweb99's GET through CGI.
    Cgi,
}

/// Number of operations.
pub(crate) const OPERATIONS: usize = 8;

/// Their names in reports.
pub(crate) const OPERATION_NAMES: [&str; OPERATIONS] = [
    "get",
    "head",
    "conditional_get",
    "post",
    "dynamic_get",
    "dynamic_get_advertisement",
    "dynamic_post",
    "cgi_get",
];

/// One request of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Number of the object.
    pub object: u32,
    /// Bytes its body has to have, or [`ANY_SIZE`].
    pub expected_bytes: u32,
    /// How it is asked for.
    pub operation: Operation,
    /// A status that is expected besides 2xx and 3xx; 0 for none.
    pub status: u16,
    /// Replayed: when it starts, from the log's beginning. Else: how long to wait before it.
    pub due_ns: u64,
}

impl Default for Step {
    fn default() -> Self {
        Self {
            object: 0,
            expected_bytes: ANY_SIZE,
            operation: Operation::Get,
            status: 0,
            due_ns: 0,
        }
    }
}

/// A session's steps, `rounds` times over, and where a connection stands in them.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The steps.
    pub steps: Vec<Step>,
    at: usize,
    rounds: u64,
}

impl Script {
    /// Begins anew with the steps that were put in.
    pub(crate) fn start(&mut self, rounds: u64) {
        self.at = 0;
        self.rounds = rounds;
    }

    /// The step at hand, unless the session is over.
    #[inline]
    pub(crate) fn step(&self) -> Option<Step> {
        match self.rounds {
            0 => None,
            _ => self.steps.get(self.at).copied(),
        }
    }

    /// Whether nothing follows the step at hand.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        self.rounds <= 1 && self.at + 1 >= self.steps.len()
    }

    /// Goes on to the next step; false when the session is over.
    #[inline]
    pub(crate) fn advance(&mut self) -> bool {
        self.at += 1;
        if self.at >= self.steps.len() {
            self.at = 0;
            self.rounds = self.rounds.saturating_sub(1);
        }
        self.rounds > 0
    }

    /// Ends the session.
    pub(crate) fn clear(&mut self) {
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_ends_after_its_rounds() {
        let mut script = Script::default();
        assert!(script.step().is_none());
        script.steps = vec![Step::default(); 2];
        script.start(2);
        let mut seen = 0;
        while let Some(_step) = script.step() {
            seen += 1;
            assert_eq!(script.is_last(), seen == 4);
            script.advance();
        }
        assert_eq!(seen, 4);
    }
}
