//! Main memory: a latency, and a channel that may be busy.

use crate::DramParameters;

#[derive(Clone, Debug)]
pub(crate) struct Dram {
    /// Stall of a read if the channel is free.
    stall_cycles: u32,
    service_cycles: u32,
    /// The time at which the channel has transferred all requested lines.
    free_at: u64,
}

impl Dram {
    /// A memory with a free channel. The stall does not include the latency of the first level,
    /// `first_latency_cycles`, because the processor's rate of instructions already includes it.
    pub(crate) fn new(parameters: &DramParameters, first_latency_cycles: u32) -> Self {
        Self {
            stall_cycles: parameters.latency_cycles - first_latency_cycles,
            service_cycles: parameters.service_cycles,
            free_at: 0,
        }
    }

    /// Reads one line at `now`. Returns the number of cycles that a processor stalls if it needs
    /// the line.
    ///
    /// The channel transfers one line at a time, in the order of requests. The transfer of a line
    /// starts at max(now, `free_at`) and occupies the channel for its service time.
    #[inline]
    pub(crate) fn read(&mut self, now: u64) -> u32 {
        if self.service_cycles == 0 {
            return self.stall_cycles;
        }
        let start = self.free_at.max(now);
        self.free_at = start.saturating_add(u64::from(self.service_cycles));
        let wait_cycles = u32::try_from(start - now).unwrap_or(u32::MAX);
        wait_cycles.saturating_add(self.stall_cycles)
    }
}
