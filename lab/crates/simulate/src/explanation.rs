//! The host's cycles by operation, the NIC's instructions by kind of work, and the waits in queues.

use perpacket_cost::Layer;
use serde::Serialize;

use crate::engine::Engine;
use crate::host::footprint::Operation;
use crate::measure::Queue;
use crate::nic::work::Work;
use crate::outcome::operation_cost;

/// The costs in the measured window, by operation. Numbers are per request of the window or, for
/// the bulk sender, per packet; see `unit`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// `request` or `packet`.
    pub unit: &'static str,
    /// Requests or packets in the window.
    pub units: u64,
    /// The host's operations, most cycles first.
    pub host: Vec<OperationCost>,
    /// The NIC's work, most instructions first.
    pub nic: Vec<NicWork>,
    /// The queues that something waited in.
    pub queues: Vec<QueueWait>,
    /// Frames that were dropped, both directions.
    pub drops: f64,
    /// Segments that were sent again, by either end.
    pub retransmissions: f64,
}

/// An operation of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationCost {
    pub operation: &'static str,
    pub layer: &'static str,
    pub calls: f64,
    pub cycles: f64,
    pub instructions: f64,
    pub l1d_misses: f64,
    pub l2_misses: f64,
    pub fetch_misses: f64,
    pub tlb_misses: f64,
}

/// A kind of work of the NIC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NicWork {
    pub work: &'static str,
    pub pieces: f64,
    pub instructions: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueWait {
    /// Its name.
    pub queue: &'static str,
    /// Jobs that left the queue.
    pub jobs: f64,
    /// Mean time a job waited, microseconds.
    pub mean_us: f64,
    /// Longest time a job waited, microseconds.
    pub longest_us: f64,
    /// Mean number of jobs that waited at the same time (Little's law).
    pub mean_length: f64,
}

impl Explanation {
    pub(crate) fn new(engine: &Engine) -> Self {
        let measure = &engine.context.measure;
        let (unit, units) = if engine.host.is_web_server() {
            ("request", measure.responses)
        } else {
            ("packet", measure.packets)
        };
        let per_unit = |count: u64| count as f64 / units.max(1) as f64;
        Self {
            unit,
            units,
            host: operations(engine, per_unit),
            nic: nic_work(engine, per_unit),
            queues: queues(engine, per_unit),
            drops: per_unit(measure.drops),
            retransmissions: per_unit(measure.retransmissions),
        }
    }
}

fn operations(engine: &Engine, per_unit: impl Fn(u64) -> f64) -> Vec<OperationCost> {
    let layer = |operation| -> Layer { engine.host.cpu().layer(operation) };
    let mut operations: Vec<OperationCost> = Operation::ALL
        .iter()
        .map(|&operation| (operation, operation_cost(engine, operation)))
        .filter(|(_, cost)| cost.calls > 0)
        .map(|(operation, cost)| OperationCost {
            operation: operation.name(),
            layer: layer(operation).name(),
            calls: per_unit(cost.calls),
            cycles: per_unit(cost.cycles),
            instructions: per_unit(cost.instructions),
            l1d_misses: per_unit(cost.l1d_misses),
            l2_misses: per_unit(cost.l2_misses),
            fetch_misses: per_unit(cost.fetch_misses),
            tlb_misses: per_unit(cost.tlb_misses),
        })
        .collect();
    operations.sort_by(|left, right| right.cycles.total_cmp(&left.cycles));
    operations
}

fn nic_work(engine: &Engine, per_unit: impl Fn(u64) -> f64) -> Vec<NicWork> {
    let before = &engine.context.measure.nic_work_before;
    let mut works: Vec<NicWork> = Work::ALL
        .iter()
        .map(|&work| (work, engine.nic.work().since(before, work)))
        .filter(|(_, (pieces, _))| *pieces > 0)
        .map(|(work, (pieces, instructions))| NicWork {
            work: work.name(),
            pieces: per_unit(pieces),
            instructions: per_unit(instructions),
        })
        .collect();
    works.sort_by(|left, right| right.instructions.total_cmp(&left.instructions));
    works
}

fn queues(engine: &Engine, per_unit: impl Fn(u64) -> f64) -> Vec<QueueWait> {
    let measure = &engine.context.measure;
    let window_s = engine.context.now.since(measure.since).as_seconds();
    Queue::ALL
        .iter()
        .map(|&queue| (queue, measure.wait(queue)))
        .filter(|(_, wait)| wait.jobs > 0)
        .map(|(queue, wait)| QueueWait {
            queue: queue.name(),
            jobs: per_unit(wait.jobs),
            mean_us: wait.sum.as_seconds() * 1e6 / wait.jobs as f64,
            longest_us: wait.longest.as_seconds() * 1e6,
            mean_length: wait.sum.as_seconds() / window_s.max(1e-12),
        })
        .collect()
}
