//! Old names of options, on the command line and in files. This release accepts them; the next will
//! not.

/// An option's old name and its new one.
struct Renamed {
    verb: &'static str,
    old: &'static str,
    new: &'static str,
    /// Unit of a number without one under the old name, if the new name's differs.
    unit: &'static str,
}

/// A row of the table.
const fn row(
    verb: &'static str,
    old: &'static str,
    new: &'static str,
    unit: &'static str,
) -> Renamed {
    Renamed {
        verb,
        old,
        new,
        unit,
    }
}

const TABLE: &[Renamed] = &[
    row("bench memory", "point-limit-ms", "point-limit", "ms"),
    row("bench switch", "point-limit-ms", "point-limit", "ms"),
    row("link", "delay-us", "delay", "us"),
    row("link", "jitter-us", "jitter", "us"),
    row("link", "rate-bps", "bit-rate", ""),
    row(
        "link",
        "left-to-right-delay-us",
        "left-to-right-delay",
        "us",
    ),
    row(
        "link",
        "left-to-right-jitter-us",
        "left-to-right-jitter",
        "us",
    ),
    row(
        "link",
        "left-to-right-rate-bps",
        "left-to-right-bit-rate",
        "",
    ),
    row(
        "link",
        "right-to-left-delay-us",
        "right-to-left-delay",
        "us",
    ),
    row(
        "link",
        "right-to-left-jitter-us",
        "right-to-left-jitter",
        "us",
    ),
    row(
        "link",
        "right-to-left-rate-bps",
        "right-to-left-bit-rate",
        "",
    ),
    row("load files", "limit-bytes", "size-limit", ""),
    row("load http", "clients", "shard", ""),
    row("load http", "spin-us", "spin", "us"),
    row("load http", "timeout-s", "timeout", ""),
    row("load media", "ramp-s", "ramp", ""),
    row("load stream", "rate", "bit-rate", ""),
    row("load stream", "segment-bytes", "segment-size", ""),
    row("media synthesize", "rate", "bit-rate", ""),
    row("media synthesize", "seconds", "duration", ""),
    row("route self-test", "capacity-pps", "capacity", ""),
    row("route self-test", "highest-pps", "highest-rate", ""),
    row("route self-test", "lowest-pps", "lowest-rate", ""),
    row("route throughput", "frame-bytes", "frame-size", ""),
    row("route throughput", "highest-pps", "highest-rate", ""),
    row("route throughput", "lowest-pps", "lowest-rate", ""),
    row("serve media", "ahead-ms", "ahead", "ms"),
    row("serve media", "cache-mib", "cache-size", "MiB"),
    row("serve media", "cores", "cpus", ""),
    row("serve media", "max-lateness-ms", "max-lateness", "ms"),
    row("serve media", "max-rate-bps", "max-bit-rate", ""),
    row("serve media", "read-delay-ms", "read-delay", "ms"),
    row("serve media", "session-timeout-s", "session-timeout", ""),
    row("serve web", "cache-bytes", "cache-size", ""),
    row("serve web", "coalesce-us", "coalesce", "us"),
    row("serve web", "cores", "cpus", ""),
    row("serve web", "idle-timeout-s", "idle-timeout", ""),
    row("serve web", "max-body-bytes", "max-body-size", ""),
    row("serve web", "max-header-bytes", "max-header-size", ""),
    row("serve web", "request-timeout-s", "request-timeout", ""),
    row("serve web", "revalidate-ms", "revalidate", "ms"),
];

/// The new name of a verb's option and the old name's unit, if `old` is an old name.
pub fn current(verb: &str, old: &str) -> Option<(&'static str, &'static str)> {
    TABLE
        .iter()
        .find(|row| row.verb == verb && row.old == old)
        .map(|row| (row.new, row.unit))
}

/// A value with the unit that its old name implied.
pub fn with_unit(value: &str, unit: &str) -> String {
    let has_unit = !value.ends_with(|sign: char| sign.is_ascii_digit());
    let unit = if has_unit { "" } else { unit };
    format!("{value}{unit}")
}

/// The arguments with old names replaced, up to `--`.
pub fn replace(arguments: Vec<String>) -> Vec<String> {
    let words = |count| arguments.get(1..=count).map(|words| words.join(" "));
    let verbs = [words(1), words(2)];
    let new_name = |option: &str| {
        let verbs = verbs.iter().flatten();
        verbs.filter_map(|verb| current(verb, option)).next()
    };
    let (mut replaced, mut value_unit, mut is_ours) = (Vec::new(), None, true);
    for argument in &arguments {
        is_ours &= argument != "--";
        let option = argument.strip_prefix("--").filter(|_| is_ours);
        let (name, value) = match option.map(|option| option.split_once('=')) {
            Some(Some((name, value))) => (Some(name), Some(value)),
            Some(None) => (option, None),
            None => (None, None),
        };
        replaced.push(match (name.and_then(new_name), value, value_unit.take()) {
            (Some((new, unit)), Some(value), _) => format!("--{new}={}", with_unit(value, unit)),
            (Some((new, unit)), None, _) => {
                value_unit = Some(unit);
                format!("--{new}")
            }
            (None, _, Some(unit)) => with_unit(argument, unit),
            (None, _, None) => argument.clone(),
        });
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(line: &str) -> String {
        let words = line.split(' ').map(str::to_owned);
        replace(words.collect()).join(" ")
    }

    #[test]
    fn old_names_become_new_ones_with_their_unit() {
        for (old, new) in [
            ("agent link --delay-us 5000", "agent link --delay 5000us"),
            ("agent link --delay-us=5ms", "agent link --delay=5ms"),
            (
                "agent serve media --cache-mib 8 --cores 1",
                "agent serve media --cache-size 8MiB --cpus 1",
            ),
            (
                "agent load stream --rate 8e6",
                "agent load stream --bit-rate 8e6",
            ),
            ("agent load http U --rate 8", "agent load http U --rate 8"),
            (
                "agent load http U --clients 1/2",
                "agent load http U --shard 1/2",
            ),
            (
                "agent profile -- agent link --delay-us 1",
                "agent profile -- agent link --delay-us 1",
            ),
        ] {
            assert_eq!(replaced(old), new);
        }
    }
}
