//! Call chains that other tools print as text: `perf script` and `perf report`, folded stacks (Gregg,
//! FlameGraph), and the stacks of bcc and bpftrace.

use super::report_text;

/// A function of a call chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub name: String,
    /// The kernel module, if the text names it.
    pub module: Option<String>,
    /// Whether the function is the kernel's, if the text shows it.
    pub kernel: Option<bool>,
}

/// Samples with one call chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TextStack {
    pub command: String,
    pub pid: Option<u32>,
    /// The functions, outermost first.
    pub frames: Vec<Frame>,
    pub count: f64,
    /// The event, its amount, the time and the processor, if the text has them.
    pub event: Option<String>,
    pub period: Option<u64>,
    pub time_s: Option<f64>,
    pub cpu: u32,
}

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The output of `perf script`.
    Script,
    /// The table of `perf report` or of `perf top`.
    Report,
    /// A line for each stack, from the command to the leaf, with a count.
    Folded,
    /// The output of `profile` of bcc.
    Bcc,
    /// A map of bpftrace with stacks as keys.
    Bpftrace,
}

/// What a reader of a text expects, for errors.
pub(super) const EXPECTED: &str = "expected a file of perf record, the text of `perf script` or `perf report`, \
                                   folded stacks (`a;b;c 12`), or the stacks of bcc's profile or of bpftrace";

impl Form {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Script => "the text of perf script",
            Self::Report => "the table of perf report or perf top",
            Self::Folded => "folded stacks",
            Self::Bcc => "the stacks of bcc",
            Self::Bpftrace => "the stacks of bpftrace",
        }
    }

    /// The form of a text, by its first lines that only one form has.
    fn of(text: &str) -> Option<Self> {
        if text.lines().any(report_text::is_entry) {
            return Some(Self::Report);
        }
        text.lines().find_map(|line| {
            if line.starts_with('@') && line.contains('[') {
                Some(Self::Bpftrace)
            } else if header(line).is_some() {
                Some(Self::Script)
            } else if folded(line).is_some() {
                Some(Self::Folded)
            } else {
                bcc_end(line).map(|_| Self::Bcc)
            }
        })
    }
}

/// The form and the stacks of a text.
///
/// # Errors
/// The text has no known form, or one of its lines has another form than the rest.
pub(super) fn parse(text: &str) -> Result<(Form, Vec<TextStack>), String> {
    let form = Form::of(text).ok_or_else(|| format!("no recording and no stacks; {EXPECTED}"))?;
    let stacks = match form {
        Form::Script => script(text),
        Form::Report => report_text::stacks(text),
        Form::Folded => folded_lines(text)?,
        Form::Bcc => bcc(text),
        Form::Bpftrace => bpftrace(text),
    };
    Ok((form, stacks))
}

/// The first line of a sample of `perf script`: `command pid [cpu] time: period event:`, of which
/// the processor, the time and the period may be missing.
fn header(line: &str) -> Option<(TextStack, &str)> {
    if line.starts_with('\t') || line.starts_with('#') || line.contains(';') {
        return None;
    }
    let mut stack = TextStack {
        count: 1.0,
        ..TextStack::default()
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_id = |word: &str| word.split('/').all(|part| part.parse::<u32>().is_ok());
    let at = (1..words.len()).find(|&at| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        is_id(words[at]) && (next.starts_with('[') || next.ends_with(':') || is_number(next))
    })?;
    stack.command = words[..at].join(" ");
    stack.pid = words[at].split('/').next()?.parse().ok();
    let mut event = None;
    for word in &words[at + 1..] {
        let bare = word.trim_end_matches(':');
        if let Some(cpu) = word
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            stack.cpu = cpu.parse().ok()?;
        } else if word.ends_with(':') && bare.contains('.') && is_number(bare) {
            stack.time_s = bare.parse().ok();
        } else if is_number(word) {
            stack.period = word.parse().ok();
        } else if word.ends_with(':') {
            event = Some(*word);
            break;
        } else {
            return None;
        }
    }
    let event = event?;
    stack.event = Some(event.trim_end_matches(':').to_owned());
    let rest = line.split_once(event)?.1.trim();
    Some((stack, rest))
}

fn is_number(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A frame of `perf script`: `address function+offset (file)`.
fn script_frame(line: &str) -> Option<Frame> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ').unwrap_or((line, ""));
    let number = u64::from_str_radix(address, 16).ok()?;
    let (name, file) = match rest.rfind(" (") {
        Some(at) => (&rest[..at], rest[at + 2..].trim_end_matches(')')),
        None => (rest, ""),
    };
    let module = file
        .strip_prefix('[')
        .and_then(|file| file.strip_suffix(']'))
        .filter(|name| !name.starts_with("kernel"))
        .filter(|name| !["vdso", "vsyscall", "unknown", "heap", "stack", "inlined"].contains(name))
        .filter(|name| !name.starts_with("guest"))
        .or_else(|| {
            let name = file
                .rsplit('/')
                .next()
                .filter(|name| name.contains(".ko"))?;
            name.split('.').next()
        });
    let is_kernel = module.is_some()
        || file.starts_with("[kernel")
        || file
            .rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("vmlinux"))
        || (file.is_empty() && number >= 0xffff_0000_0000_0000);
    Some(Frame {
        name: bare_name(name),
        module: module.map(|name| name.replace('-', "_")),
        kernel: Some(is_kernel),
    })
}

/// A function's name without its offset.
fn bare_name(name: &str) -> String {
    let name = name.trim();
    // As Python prints the bytes of a name in some versions of bcc.
    let quoted = name
        .strip_prefix("b'")
        .and_then(|name| name.strip_suffix('\''));
    let name = quoted.unwrap_or(name);
    let end = name.rfind("+0x").or_else(|| {
        let at = name.rfind('+')?;
        name[at + 1..]
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(at)
    });
    let name = &name[..end.unwrap_or(name.len())];
    if name.is_empty() { "[unknown]" } else { name }.to_owned()
}

fn script(text: &str) -> Vec<TextStack> {
    let mut stacks: Vec<TextStack> = Vec::new();
    for line in text.lines() {
        if let Some((mut stack, rest)) = header(line) {
            stack
                .frames
                .extend(script_frame(rest).filter(|_| !rest.is_empty()));
            stacks.push(stack);
        } else if let (Some(stack), Some(frame)) = (stacks.last_mut(), script_frame(line)) {
            stack.frames.push(frame);
        }
    }
    for stack in &mut stacks {
        stack.frames.reverse();
    }
    stacks
}

/// A folded line. `_[k]` and `_[i]` mark functions of the kernel and inlined ones.
fn folded(line: &str) -> Option<TextStack> {
    let (chain, count) = line.trim_end().rsplit_once(' ')?;
    let count: f64 = count.parse().ok().filter(|count: &f64| *count >= 0.0)?;
    let mut names = chain.split(';');
    let command = names.next().filter(|name| !name.is_empty())?;
    let frames: Vec<Frame> = names
        .filter(|name| !matches!(*name, "-" | "--" | ""))
        .map(|name| {
            let (name, kernel) = match name.rsplit_once("_[") {
                Some((name, "k]")) => (name, Some(true)),
                Some((name, "i]" | "j]")) => (name, None),
                _ => (name, None),
            };
            Frame {
                name: bare_name(name),
                module: None,
                kernel,
            }
        })
        .collect();
    (!frames.is_empty() || !chain.contains(' ')).then(|| TextStack {
        command: command.to_owned(),
        frames,
        count,
        ..TextStack::default()
    })
}

fn folded_lines(text: &str) -> Result<Vec<TextStack>, String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let before = line.trim_end().rsplit_once(' ').map(|(chain, _)| chain);
            let has_two = before
                .and_then(|chain| chain.rsplit_once(' '))
                .is_some_and(|(chain, word)| chain.contains(';') && word.parse::<f64>().is_ok());
            if has_two {
                return Err(format!(
                    "line {}: expected one count: difffolded writes two, of two profiles",
                    number + 1
                ));
            }
            folded(line).ok_or_else(|| {
                format!("line {}: expected `a;b;c NUMBER`, not `{line}`", number + 1)
            })
        })
        .collect()
}

/// The line of bcc after a stack: `-  command (pid)`.
fn bcc_end(line: &str) -> Option<(String, u32)> {
    let (command, pid) = line.trim().strip_prefix("- ")?.rsplit_once(" (")?;
    Some((
        command.trim().to_owned(),
        pid.strip_suffix(')')?.parse().ok()?,
    ))
}

fn bcc(text: &str) -> Vec<TextStack> {
    let mut stacks = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut ended = None;
    for line in text.lines() {
        let word = line.trim();
        if let Some(end) = bcc_end(line) {
            ended = Some(end);
        } else if let (Some((command, pid)), Ok(count)) = (&ended, word.parse()) {
            frames.reverse();
            stacks.push(TextStack {
                command: command.clone(),
                pid: Some(*pid),
                frames: std::mem::take(&mut frames),
                count,
                ..TextStack::default()
            });
            ended = None;
        } else if !word.is_empty() && word != "--" && line.starts_with(' ') {
            frames.push(named(word));
        }
    }
    stacks
}

fn bpftrace(text: &str) -> Vec<TextStack> {
    let mut stacks = Vec::new();
    let mut inner: Option<Vec<&str>> = None;
    for line in text.lines() {
        let line = match (line.starts_with('@'), line.find('[')) {
            (true, Some(at)) => {
                inner = Some(Vec::new());
                &line[at + 1..]
            }
            _ => line,
        };
        let Some(parts) = inner.as_mut() else {
            continue;
        };
        let (last, count) = match line.rsplit_once("]: ") {
            Some((last, count)) => (last, count.trim().parse::<f64>().ok()),
            None => (line, None),
        };
        parts.extend(
            last.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty()),
        );
        if let Some(count) = count {
            stacks.push(of_map(&inner.take().unwrap_or_default(), count));
        }
    }
    stacks
}

/// The stack of a key of a map: functions, leaf first, and perhaps a command and a process.
fn of_map(parts: &[&str], count: f64) -> TextStack {
    let is_function = |part: &&&str| part.contains('+') || part.starts_with("0x");
    let mut frames: Vec<Frame> = parts
        .iter()
        .filter(is_function)
        .map(|part| named(part))
        .collect();
    frames.reverse();
    let mut others = parts.iter().filter(|part| !is_function(part));
    let pid = others.clone().find_map(|part| part.parse().ok());
    let command = others.find(|part| part.parse::<u32>().is_err());
    TextStack {
        command: command.map_or_else(|| "unknown".to_owned(), |name| (*name).to_owned()),
        pid,
        frames,
        count,
        ..TextStack::default()
    }
}

/// A function without further facts; `[module]` after the name is its module.
fn named(word: &str) -> Frame {
    let (name, module) = match word.rsplit_once(" [") {
        Some((name, module)) => (name, Some(module.trim_end_matches(']').to_owned())),
        None => (word, None),
    };
    let is_module = |name: &String| !name.contains(['/', '.']) && name != "unknown";
    let is_kernel = module.as_deref() == Some("kernel");
    let module = module.filter(|name| is_module(name) && name != "kernel");
    Frame {
        name: bare_name(name),
        kernel: (is_kernel || module.is_some()).then_some(true),
        module,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stack: &TextStack) -> Vec<&str> {
        stack
            .frames
            .iter()
            .map(|frame| frame.name.as_str())
            .collect()
    }

    #[test]
    fn perf_script_has_commands_with_spaces_events_periods_and_modules() {
        let text = "\
# comment
tmux: server  812/815  [003]  52.000123:     250000 cpu-clock:pppH: 
\tffffffff81a0 tcp_sendmsg+0x1f ([kernel.kallsyms])
\tffffffffc012 nft_do_chain+0x10 ([nf_tables])
\t    7f00 __send+0x1 (/usr/lib/libc.so.6)

nginx 9 cycles: 
\tffffffff8110 do_idle+0x3 ([kernel.kallsyms])
ping 7 [000] 1.5:  cycles:  ffffffff8200 icmp_rcv+0x3 (/lib/modules/6/kernel/net/icmp-x.ko.xz)
";
        let (form, stacks) = parse(text).expect("it is the text of perf script");
        assert_eq!(form, Form::Script);
        assert_eq!(names(&stacks[0]), ["__send", "nft_do_chain", "tcp_sendmsg"]);
        assert_eq!(stacks[0].command, "tmux: server");
        assert_eq!((stacks[0].pid, stacks[0].cpu), (Some(812), 3));
        assert_eq!(stacks[0].event.as_deref(), Some("cpu-clock:pppH"));
        assert_eq!(
            (stacks[0].period, stacks[0].time_s),
            (Some(250_000), Some(52.000_123))
        );
        let kernel: Vec<_> = stacks[0].frames.iter().map(|frame| frame.kernel).collect();
        assert_eq!(kernel, [Some(false), Some(true), Some(true)]);
        assert_eq!(stacks[0].frames[1].module.as_deref(), Some("nf_tables"));
        assert_eq!(
            (names(&stacks[1]), stacks[1].time_s),
            (vec!["do_idle"], None)
        );
        assert_eq!(stacks[2].frames[0].module.as_deref(), Some("icmp_x"));
    }

    #[test]
    fn folded_stacks_have_marks_and_any_count() {
        let text = "nginx;main;tcp_sendmsg_[k] 12\nswapper;-;do_idle 3.5\nnginx 1\n";
        let (form, stacks) = parse(text).expect("they are folded");
        assert_eq!(form, Form::Folded);
        assert_eq!(names(&stacks[0]), ["main", "tcp_sendmsg"]);
        assert_eq!(stacks[0].frames[1].kernel, Some(true));
        assert_eq!((stacks[1].count, names(&stacks[1])), (3.5, vec!["do_idle"]));
        assert!(stacks[2].frames.is_empty());
        let wrong = parse("a;b 1\na;b\n").expect_err("a line has no count");
        assert!(wrong.contains("line 2"), "{wrong}");
        let two = parse("a;b 1 2\n").expect_err("a line has two counts");
        assert!(two.contains("difffolded"), "{two}");
    }

    #[test]
    fn bcc_prints_a_stack_from_its_leaf_then_command_and_count() {
        let text = "Sampling at 49 Hertz\n\n    b'tcp_ack'\n    tcp_v4_rcv\n    --\n    main\n    -                nginx (12)\n        7\n\n    -                cat (3)\n        1\n";
        let (form, stacks) = parse(text).expect("it is of bcc");
        assert_eq!(form, Form::Bcc);
        assert_eq!(names(&stacks[0]), ["main", "tcp_v4_rcv", "tcp_ack"]);
        assert_eq!(
            (stacks[0].command.as_str(), stacks[0].count),
            ("nginx", 7.0)
        );
        assert_eq!(
            (stacks[1].command.as_str(), stacks[1].frames.len()),
            ("cat", 0)
        );
    }

    #[test]
    fn bpftrace_prints_maps_with_stacks_as_keys() {
        let text = "Attaching 1 probe...\n@[\n    tcp_ack+1\n    tcp_v4_rcv+20\n, nginx]: 7\n@[\n    do_idle+3\n]: 2\n@calls[\n    ip_rcv+1, curl, 12]: 5\n";
        let (form, stacks) = parse(text).expect("it is of bpftrace");
        assert_eq!(form, Form::Bpftrace);
        assert_eq!(names(&stacks[0]), ["tcp_v4_rcv", "tcp_ack"]);
        assert_eq!(stacks[0].command, "nginx");
        assert_eq!(
            (stacks[1].command.as_str(), stacks[1].count),
            ("unknown", 2.0)
        );
        assert_eq!(
            (stacks[2].command.as_str(), stacks[2].pid),
            ("curl", Some(12))
        );
    }

    #[test]
    fn a_text_without_stacks_is_refused_with_the_forms_that_are_read() {
        for text in ["", "hello\n", "a b c\n1 2 3\n"] {
            let error = parse(text).expect_err("it has no stacks");
            assert!(error.contains("perf script"), "{error}");
        }
    }
}
