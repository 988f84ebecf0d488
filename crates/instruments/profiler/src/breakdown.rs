//! Time by module, process and function. These names depend on the machine.

use std::collections::HashMap;

use perpacket_cost::{Charge, Clue, EventKind, Layer};

use crate::collector::Collector;
use crate::folded::{self, Names};
use crate::passes::{Passes, part};
use crate::process::{GENERATED, Place, file_name};
use crate::report::{Cost, Named, Parts, ProcessTime, SymbolShare};
use crate::tally::{Code, Tally};

/// Longest list of functions or processes.
const TOP: usize = 12;

/// The name of the kernel, the module or the file to which code belongs.
fn module_name(collector: &Collector, code: &Code) -> Option<String> {
    match code {
        Code::Kernel(stack) => {
            if stack.charge.layer == Layer::Idle {
                return None;
            }
            let symbols = collector.attributor().symbols();
            let module = stack.frames.iter().flatten().next();
            let module = module.and_then(|&id| symbols.module(id));
            Some(module.map_or_else(|| "[kernel]".to_owned(), |name| format!("[{name}]")))
        }
        Code::User(Some(place)) => Some(file_name(place.file.path()).to_owned()),
        Code::User(None) => Some(GENERATED.to_owned()),
    }
}

pub(crate) fn modules(passes: &Passes<'_>, collector: &Collector) -> Named<Cost> {
    by_name(passes, |tally| {
        let mut sums = HashMap::new();
        for (&(pid, ref code), weight) in &tally.codes {
            let hidden_idle = pid == 0 && collector.attributor().symbols().is_empty();
            if let Some(name) = module_name(collector, code).filter(|_| !hidden_idle) {
                *sums.entry(name).or_insert(0.0) += weight.weight;
            }
        }
        sums
    })
}

/// The name of user code that no rule assigns to a part.
const UNCLAIMED: &str = "unclaimed";

/// The costs of the server's user code by part of the application.
pub(crate) fn parts(passes: &Passes<'_>, collector: &Collector) -> Parts {
    let mut unclaimed: HashMap<String, f64> = HashMap::new();
    let costs = by_name(passes, |tally| {
        let names = folded::names(tally, collector);
        let mut by_thread: HashMap<(u32, &Code), f64> = HashMap::new();
        let mut sums = HashMap::new();
        for ((pid, code, part), weight) in &tally.threads {
            *sums.entry(part.clone()).or_insert(0.0) += weight;
            *by_thread.entry((*pid, code)).or_default() += weight;
        }
        for ((pid, code), weight) in &tally.codes {
            let (Code::User(place), Layer::User) = (code, weight.charge.layer) else {
                continue;
            };
            let in_threads = by_thread.get(&(*pid, code)).copied().unwrap_or(0.0);
            let left = weight.weight - in_threads;
            let part = part_of(collector, &names, place.as_ref());
            if part.is_none() {
                let module = module_name(collector, code).unwrap_or_default();
                *unclaimed.entry(module).or_default() += left;
            }
            let name = part.unwrap_or(UNCLAIMED).to_owned();
            *sums.entry(name).or_insert(0.0) += left;
        }
        sums.retain(|_, weight| *weight > 0.0);
        sums
    });
    let whole: f64 = costs.0.iter().map(|(_, cost)| cost.share).sum();
    let missing = costs.get(UNCLAIMED).map_or(0.0, |cost| cost.share);
    let mut files: Vec<_> = unclaimed.into_iter().collect();
    files.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    Parts {
        costs,
        unclaimed_share: part(missing, whole),
        unclaimed_files: files.into_iter().map(|(name, _)| name).take(TOP).collect(),
    }
}

/// The part of the application to which a rule assigns user code, if there is such a rule.
fn part_of<'a>(collector: &'a Collector, names: &Names, place: Option<&Place>) -> Option<&'a str> {
    let rules = collector.attributor().rules();
    let place = place?;
    let path = place.file.path();
    let name = names.get(place).map(String::as_str);
    if path == GENERATED {
        let compiled = name.and_then(|name| rules.part(Clue::Generated(name)));
        return compiled.or_else(|| rules.part(Clue::File(path)));
    }
    // A program may contain a library whose functions are a different part of the application.
    name.and_then(|name| rules.part(Clue::Function(name)))
        .or_else(|| rules.part(Clue::File(path)))
}

/// Costs by name, the largest first. `sums` returns the sums of one pass.
fn by_name(passes: &Passes<'_>, sums: impl FnMut(&Tally) -> HashMap<String, f64>) -> Named<Cost> {
    let by_name: Vec<HashMap<String, f64>> = passes
        .all
        .iter()
        .map(|pass| &pass.tally)
        .map(sums)
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
    for (&(pid, ref code), weight) in pass.tally.codes.iter().filter(|((pid, _), _)| *pid != 0) {
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
            user_cpu_s: passes.seconds(user_ns),
            kernel_cpu_s: passes.seconds(kernel_ns),
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

/// The leaf functions of the stacks with a charge that `chosen` accepts. Each function has its
/// share of busy kernel time.
pub(crate) fn top_leaves(
    tally: &Tally,
    collector: &Collector,
    chosen: impl Fn(&Charge) -> bool,
) -> Vec<SymbolShare> {
    let symbols = collector.attributor().symbols();
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for (&(pid, ref code), weight) in &tally.codes {
        let Code::Kernel(stack) = code else { continue };
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use perpacket_cost::{KernelSymbols, Rules};
    use rustix::thread::gettid;

    use super::*;
    use crate::attribute::Attributor;
    use crate::capture::{Record, Sample};
    use crate::collector::{Detail, Server};
    use crate::count::Activity;
    use crate::passes::PassResult;

    /// Adds a sample of this process, because a test can name only the threads of its own process.
    fn sampled(collector: &mut Collector, address: u64) {
        collector.add(&Record::Sample(Sample {
            time_ns: 0,
            cpu: 0,
            pid: std::process::id(),
            tid: gettid().as_raw_nonzero().get().cast_unsigned(),
            weight: 1,
            cgroup: None,
            user: true,
            address,
            chain: &[],
        }));
    }

    #[test]
    fn user_code_is_divided_by_thread_and_file() {
        let rules = Rules::builtin().unwrap();
        let attributor = Attributor::new(KernelSymbols::default(), rules, BTreeSet::new());
        let mut collector = Collector::new(attributor, None, Detail::Offsets);
        let pid = std::process::id();
        collector.set_server(Some(Server {
            originals: vec![pid],
        }));
        collector.begin(EventKind::CpuNs);
        for (start, path) in [
            (0x1000, "/usr/lib/libperl.so.5.36.0"),
            (0x3000, "/opt/shop/shop.so"),
            (0x5000, "//anon"),
        ] {
            // The first sample reads the maps of the process.
            sampled(&mut collector, start);
            collector.add(&Record::Mapped {
                pid,
                start,
                length: 0x1000,
                offset: 0,
                path: path.to_owned(),
            });
        }
        collector.begin(EventKind::CpuNs);
        for address in [0x1010, 0x1010, 0x1020, 0x3010, 0x5010] {
            sampled(&mut collector, address);
        }
        let thread = std::thread::Builder::new().name("GC Thread#0".to_owned());
        let mut collector = thread
            .spawn(move || {
                sampled(&mut collector, 0x1010);
                collector
            })
            .unwrap()
            .join()
            .unwrap();
        let results = [PassResult {
            tally: collector.end(&BTreeMap::new()),
            activity: Activity::default(),
            group: crate::capture::GroupCounts::default(),
        }];
        let found = parts(&Passes::new(&results).unwrap(), &collector);
        let share = |name: &str| found.costs.get(name).map_or(0.0, |cost| cost.share * 6.0);
        assert_eq!(
            ["perl", "garbage collector", "jit code", "unclaimed"].map(share),
            [3.0, 1.0, 1.0, 1.0]
        );
        assert!((found.unclaimed_share - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(found.unclaimed_files, ["shop.so"]);
    }
}
