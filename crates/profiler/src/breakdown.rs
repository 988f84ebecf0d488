//! Time by module, process and function. Their names come from the machine.

use std::collections::HashMap;

use perpacket_cost::{Charge, EventKind, Layer};

use crate::passes::{Passes, SECOND_NS, part};
use crate::process::{GENERATED, file_name};
use crate::report::{Cost, Named, ProcessTime, SymbolShare};
use crate::tally::{Code, Collector, Tally};

/// Longest list of functions or processes.
const TOP: usize = 12;

/// The name of the kernel, the module or the file that code belongs to.
fn module_name(collector: &Collector, code: Code) -> Option<String> {
    match code {
        Code::Kernel(number) => {
            let stack = collector.stack(number);
            if stack.charge.layer == Layer::Idle {
                return None;
            }
            let symbols = collector.attributor().symbols();
            let module = stack.frames.iter().flatten().next();
            let module = module.and_then(|&id| symbols.module(id));
            Some(module.map_or_else(|| "[kernel]".to_owned(), |name| format!("[{name}]")))
        }
        Code::User(Some((object, _))) => {
            Some(file_name(collector.processes().object(object)).to_owned())
        }
        Code::User(None) => Some(GENERATED.to_owned()),
    }
}

pub(crate) fn modules(passes: &Passes<'_>, collector: &Collector) -> Named<Cost> {
    let by_name: Vec<HashMap<String, f64>> = passes
        .all
        .iter()
        .map(|pass| {
            let mut sums = HashMap::new();
            for (&(pid, code), weight) in &pass.tally.codes {
                let hidden_idle = pid == 0 && collector.attributor().symbols().is_empty();
                if let Some(name) = module_name(collector, code).filter(|_| !hidden_idle) {
                    *sums.entry(name).or_insert(0.0) += weight.weight;
                }
            }
            sums
        })
        .collect();
    let main_index = passes
        .all
        .iter()
        .position(|pass| std::ptr::eq(pass, passes.main));
    let main = &by_name[main_index.unwrap_or(0)];
    let mut names: Vec<_> = main.iter().collect();
    names.sort_by(|one, other| other.1.total_cmp(one.1).then(one.0.cmp(other.0)));
    let whole = passes.main.tally.busy();
    let costs = names.into_iter().map(|(name, &weight)| {
        let amount = |tally: &Tally| {
            let index = passes
                .all
                .iter()
                .position(|pass| std::ptr::eq(&pass.tally, tally));
            let sums = index.and_then(|index| by_name.get(index));
            sums.and_then(|sums| sums.get(name)).copied().unwrap_or(0.0)
        };
        let cost = Cost {
            share: part(weight, whole),
            ..passes.amounts(&amount)
        };
        (name.clone(), cost)
    });
    Named(costs.collect())
}

pub(crate) fn processes(passes: &Passes<'_>, collector: &Collector) -> Vec<ProcessTime> {
    let Some(pass) = passes.of(EventKind::CpuNs) else {
        return Vec::new();
    };
    let mut times: HashMap<u32, (f64, f64)> = HashMap::new();
    for (&(pid, code), weight) in pass.tally.codes.iter().filter(|((pid, _), _)| *pid != 0) {
        let time = times.entry(pid).or_default();
        match code {
            Code::User(_) => time.0 += weight.weight,
            Code::Kernel(_) => time.1 += weight.weight,
        }
    }
    let mut rows: Vec<_> = times
        .into_iter()
        .map(|(pid, (user_ns, kernel_ns))| ProcessTime {
            pid,
            command: collector
                .processes()
                .get(pid)
                .map_or_else(String::new, |process| process.command.clone()),
            user_cpu_s: user_ns / SECOND_NS,
            kernel_cpu_s: kernel_ns / SECOND_NS,
        })
        .collect();
    let time = |row: &ProcessTime| row.user_cpu_s + row.kernel_cpu_s;
    rows.sort_by(|one, other| {
        time(other)
            .total_cmp(&time(one))
            .then(one.pid.cmp(&other.pid))
    });
    rows.truncate(TOP);
    rows
}

/// The leaves of the stacks whose charge `chosen` accepts, by share of busy kernel time.
pub(crate) fn top_leaves(
    tally: &Tally,
    collector: &Collector,
    chosen: impl Fn(&Charge) -> bool,
) -> Vec<SymbolShare> {
    let symbols = collector.attributor().symbols();
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for (&(pid, code), weight) in &tally.codes {
        let Code::Kernel(number) = code else { continue };
        let stack = collector.stack(number);
        let is_idle = stack.charge.layer == Layer::Idle || (pid == 0 && symbols.is_empty());
        if is_idle || !chosen(&stack.charge) {
            continue;
        }
        let leaf = stack.frames.first().copied().flatten();
        let name = leaf.map_or("[unresolved]", |id| symbols.name(id));
        *sums.entry(name).or_default() += weight.weight;
    }
    let mut rows: Vec<_> = sums
        .into_iter()
        .map(|(symbol, weight)| SymbolShare {
            symbol: symbol.to_owned(),
            share: part(weight, tally.kernel),
        })
        .collect();
    rows.sort_by(|one, other| {
        other
            .share
            .total_cmp(&one.share)
            .then(one.symbol.cmp(&other.symbol))
    });
    rows.truncate(TOP);
    rows
}
