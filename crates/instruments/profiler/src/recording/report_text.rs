//! The tables of `perf report` and of `perf top`: a line for each function, and below it the tree of
//! its callers or of what it calls, if the recording has call chains.

use super::text_stacks::{Frame, TextStack};

/// The number of samples that a table without one is taken for. Its shares have two decimals.
const SAMPLES: f64 = 1e4;

/// Shares of children that exceed their parent's by this factor are relative to it
/// (`--call-graph fractal`).
const RELATIVE: f64 = 1.02;

/// Chains that have more than this part of all samples have some of them twice.
const MOST_OF_ALL: f64 = 1.05;

/// What perf prints before a function: of the kernel, of a program, or of a guest.
const MARKS: [&str; 5] = ["[k]", "[.]", "[g]", "[u]", "[H]"];

/// A line of the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    command: String,
    function: String,
    is_kernel: bool,
    /// The share of samples in the function itself, in percent.
    own: f64,
    /// The share with what it calls, if the table has both.
    with_children: Option<f64>,
    tree: Vec<Node>,
}

/// Functions of a tree that follow each other without a branch, and the branches after them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    names: Vec<String>,
    percent: Option<f64>,
    branches: Vec<Node>,
    /// The column of the names.
    column: usize,
}

/// Whether a line is one of the table.
pub(super) fn is_entry(line: &str) -> bool {
    entry(line).is_some()
}

/// A line such as `12.5%  nginx  [kernel.kallsyms]  [k] tcp_ack`, with one or two shares.
fn entry(line: &str) -> Option<Entry> {
    let mark = MARKS.iter().find_map(|mark| {
        let at = line.find(&format!(" {mark} "))?;
        Some((at, *mark))
    })?;
    let (before, after) = line.split_at(mark.0);
    let mut words = before.split_whitespace().peekable();
    let first = percent(words.next()?)?;
    let second = words.peek().copied().and_then(percent);
    if second.is_some() {
        words.next();
    }
    let mut columns: Vec<&str> = words.collect();
    columns.pop()?; // the file of the function
    columns.retain(|word| word.parse::<f64>().is_err()); // the number of samples
    let function = after[mark.1.len() + 2..].trim();
    let function = function.split("  ").next().unwrap_or(function).trim();
    let command = columns.join(" ");
    Some(Entry {
        command: if command.is_empty() {
            "unknown".to_owned()
        } else {
            command
        },
        function: named(function),
        is_kernel: mark.1 == "[k]",
        own: second.unwrap_or(first),
        with_children: second.map(|_| first),
        tree: Vec::new(),
    })
}

fn percent(word: &str) -> Option<f64> {
    word.strip_suffix('%')?.parse().ok()
}

/// A line of a tree: the column of its marker or name, the share of a branch, and the name.
struct Branch<'a> {
    at: usize,
    column: usize,
    percent: Option<f64>,
    is_new: bool,
    name: &'a str,
}

fn branch(line: &str) -> Option<Branch<'_>> {
    let at = line.find(|letter| letter != ' ' && letter != '|')?;
    let rest = &line[at..];
    let dashes = rest.len() - rest.trim_start_matches('-').len();
    let after = &rest[dashes..];
    let share = after.split_once("%--").and_then(|(number, name)| {
        let number = number.parse().ok()?;
        Some((number, name))
    });
    let (percent, name) = match share {
        Some((number, name)) if dashes > 0 => (Some(number), name),
        _ => (None, after),
    };
    let name = name.trim_end();
    let column = line.trim_end().len() - name.len();
    (!name.is_empty()).then_some(Branch {
        at,
        column,
        percent,
        is_new: dashes > 1,
        name,
    })
}

/// The stacks of the first event of a table.
pub(super) fn stacks(text: &str) -> Vec<TextStack> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut samples = None;
    for line in text.lines() {
        if let Some(found) = line.strip_prefix("# Samples:") {
            if !entries.is_empty() {
                break;
            }
            samples = found.split_whitespace().next().and_then(number);
        } else if let Some(found) = entry(line) {
            entries.push(found);
        } else if let (Some(last), Some(found)) = (entries.last_mut(), branch(line))
            && !line.starts_with('#')
        {
            grow(&mut last.tree, &found);
        }
    }
    let each = samples.unwrap_or(SAMPLES) / 100.0;
    let has_trees = entries.iter().any(|entry| !entry.tree.is_empty());
    let mut found = Vec::new();
    for entry in &entries {
        let is_inclusive = entry.with_children.is_some();
        if is_inclusive && has_trees {
            if !entries.iter().any(|other| calls(other, entry)) {
                whole_chains(entry, each, &mut found);
            }
        } else {
            own_chains(entry, each, &mut found);
        }
    }
    let all: f64 = found.iter().map(|stack| stack.count).sum();
    if all > MOST_OF_ALL * 100.0 * each {
        // The table does not show for every function which others call it.
        found = entries
            .iter()
            .map(|entry| stack(entry, vec![entry.function.clone()], entry.own * each))
            .collect();
    }
    found.retain(|stack| stack.count >= 0.5);
    found
}

/// The name of a function. Addresses without a name have leading zeros in lines, and none in trees.
fn named(name: &str) -> String {
    match name.strip_prefix("0x") {
        Some(digits) => format!("0x{}", digits.trim_start_matches('0')),
        None => name.to_owned(),
    }
}

/// A number such as `96K`.
fn number(word: &str) -> Option<f64> {
    let scale = match word.chars().last()? {
        'K' => 1e3,
        'M' => 1e6,
        _ => 1.0,
    };
    let digits = word.trim_end_matches(['K', 'M']);
    digits.parse::<f64>().ok().map(|value| value * scale)
}

/// Adds a line to a tree.
fn grow(tree: &mut Vec<Node>, found: &Branch<'_>) {
    if let Some(last) = tree.last_mut() {
        // Inside of the last node, unless the line begins left of its names.
        let inside = if found.is_new {
            found.at >= last.column
        } else {
            found.column >= last.column
        };
        if inside {
            if !found.is_new && found.column == last.column && last.branches.is_empty() {
                last.names.push(named(found.name));
            } else {
                grow(&mut last.branches, found);
            }
            return;
        }
    }
    tree.push(Node {
        names: vec![named(found.name)],
        percent: found.percent,
        branches: Vec::new(),
        column: found.column,
    });
}

/// Whether a function's tree contains another entry's function below its first name.
fn calls(outer: &Entry, inner: &Entry) -> bool {
    fn has(nodes: &[Node], name: &str, skips: usize) -> bool {
        nodes.iter().enumerate().any(|(place, node)| {
            let skipped = if place == 0 { skips } else { 0 };
            node.names.iter().skip(skipped).any(|one| one == name) || has(&node.branches, name, 0)
        })
    }
    let is_other = outer.function != inner.function || outer.command != inner.command;
    is_other && outer.command == inner.command && has(&outer.tree, &inner.function, 1)
}

/// The chains of an entry that has no callers in the table, from it to the leaves.
fn whole_chains(entry: &Entry, each: f64, found: &mut Vec<TextStack>) {
    let all = entry.with_children.unwrap_or(entry.own);
    let mut chains = Vec::new();
    walk(&entry.tree, all, &mut Vec::new(), &mut chains);
    if chains.is_empty() {
        chains.push((vec![entry.function.clone()], all));
    }
    for (chain, share) in chains {
        found.push(stack(entry, chain, share * each));
    }
}

/// The chains that end in an entry's function, from its callers; or the function alone.
fn own_chains(entry: &Entry, each: f64, found: &mut Vec<TextStack>) {
    let mut chains = Vec::new();
    walk(&entry.tree, entry.own, &mut Vec::new(), &mut chains);
    if chains.is_empty() {
        chains.push((vec![entry.function.clone()], entry.own));
    }
    for (mut chain, share) in chains {
        if chain.first() == Some(&entry.function) {
            chain.reverse();
        } else if chain.last() != Some(&entry.function) {
            chain.push(entry.function.clone());
        }
        found.push(stack(entry, chain, share * each));
    }
}

fn walk(nodes: &[Node], all: f64, chain: &mut Vec<String>, chains: &mut Vec<(Vec<String>, f64)>) {
    let sum: f64 = nodes.iter().filter_map(|node| node.percent).sum();
    let scale = if sum > all * RELATIVE {
        all / 100.0
    } else {
        1.0
    };
    let mut rest = all;
    for node in nodes {
        let share = node.percent.map_or(all, |share| share * scale).min(all);
        rest -= share;
        let depth = chain.len();
        chain.extend(node.names.iter().cloned());
        if node.branches.is_empty() {
            chains.push((chain.clone(), share));
        } else {
            walk(&node.branches, share, chain, chains);
        }
        chain.truncate(depth);
    }
    if !chain.is_empty() && rest > 0.0 {
        chains.push((chain.clone(), rest));
    }
}

/// In a chain the rules decide where the kernel begins; a function alone has perf's mark.
fn stack(entry: &Entry, chain: Vec<String>, count: f64) -> TextStack {
    let kernel = match (entry.is_kernel, chain.len()) {
        (true, 2..) => None,
        (is_kernel, _) => Some(is_kernel),
    };
    let frame = |name| Frame {
        name,
        module: None,
        kernel,
    };
    TextStack {
        command: entry.command.clone(),
        frames: chain.into_iter().map(frame).collect(),
        count: count.round(),
        ..TextStack::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let line = |stack: &TextStack| {
            let names: Vec<&str> = stack
                .frames
                .iter()
                .map(|frame| frame.name.as_str())
                .collect();
            format!("{};{} {}", stack.command, names.join(";"), stack.count)
        };
        stacks(text).iter().map(line).collect()
    }

    #[test]
    fn a_flat_table_has_a_function_a_line() {
        let text = "\
# Samples: 2K of event 'cycles'
# Overhead  Command   Shared Object      Symbol
    21.50%  swapper   [kernel.kallsyms]  [k] ipt_do_table
     1.00%  tmux: server  libc.so.6      [.] __memmove_avx  -      -
";
        assert_eq!(
            shown(text),
            ["swapper;ipt_do_table 430", "tmux: server;__memmove_avx 20"]
        );
        let frames = &stacks(text)[0].frames;
        assert_eq!(frames[0].kernel, Some(true));
        let top = "   PerfTop: 31 irqs/sec drop: 0/0 [4000Hz cpu-clock]\n    60.00%  [kernel]   [k] ip_rcv\n";
        assert_eq!(shown(top), ["unknown;ip_rcv 6000"]);
    }

    #[test]
    fn a_tree_of_callers_has_the_leaf_first() {
        let text = "\
# Samples: 1K of event 'cycles'
    20.00%  swapper  [kernel.kallsyms]  [k] native_queued_spin_lock_slowpath
            |
            ---native_queued_spin_lock_slowpath
               |
               |--15.00%--_raw_spin_lock
               |          __dev_queue_xmit
               |          |
               |           --12.00%--ip_forward
               |
                --5.00%--_raw_spin_lock_irqsave
                          ep_poll_callback

     3.00%  nginx    nginx              [.] main
";
        let lock = "native_queued_spin_lock_slowpath";
        assert_eq!(
            shown(text),
            [
                format!("swapper;ip_forward;__dev_queue_xmit;_raw_spin_lock;{lock} 120"),
                format!("swapper;__dev_queue_xmit;_raw_spin_lock;{lock} 30"),
                format!("swapper;ep_poll_callback;_raw_spin_lock_irqsave;{lock} 50"),
                "nginx;main 30".to_owned(),
            ]
        );
        assert_eq!(stacks(text)[0].frames[0].kernel, None);
    }

    #[test]
    fn a_table_with_children_counts_each_chain_once() {
        let text = "\
    80.00%     0.00%  nginx  [kernel.kallsyms]  [k] do_syscall_64
            |
            ---do_syscall_64
               |
               |--50.00%--__x64_sys_sendto
               |          tcp_sendmsg
               |
                --20.00%--syscall_trace_enter
                          __seccomp_filter

    50.00%    50.00%  nginx  [kernel.kallsyms]  [k] tcp_sendmsg
            |
            ---tcp_sendmsg
    20.00%    20.00%  nginx  [kernel.kallsyms]  [k] __seccomp_filter
";
        assert_eq!(
            shown(text),
            [
                "nginx;do_syscall_64;__x64_sys_sendto;tcp_sendmsg 5000",
                "nginx;do_syscall_64;syscall_trace_enter;__seccomp_filter 2000",
                "nginx;do_syscall_64 1000",
            ]
        );
    }

    #[test]
    fn a_function_without_a_name_is_found_in_the_trees_of_its_callers() {
        let text = "\
    40.00%     0.00%  a  libc.so.6  [.] start
            |
            ---start
               0x55cc5791c183
    40.00%    40.00%  a  a  [.] 0x000055cc5791c183
            |
            ---0x55cc5791c183
";
        assert_eq!(shown(text), ["a;start;0x55cc5791c183 4000"]);
    }

    #[test]
    fn a_table_whose_trees_lack_callers_has_the_functions_alone() {
        let text = "\
    90.00%    10.00%  a  a  [.] main
            |
            ---main
    80.00%    80.00%  a  a  [.] work
            |
            ---work
";
        assert_eq!(shown(text), ["a;main 1000", "a;work 8000"]);
    }

    #[test]
    fn shares_of_a_parent_are_relative() {
        let text = "\
    40.00%  a  [kernel.kallsyms]  [k] leaf
            |
            ---leaf
               |--75.00%--one
                --25.00%--two
";
        assert_eq!(shown(text), ["a;one;leaf 3000", "a;two;leaf 1000"]);
    }
}
