//! Old names of options, on the command line and in files. This release accepts them; the next will
//! not.

/// An option's old name, its new name, and a unit. A number without a unit had this unit under the
/// old name. The unit is empty if such a number has the same unit under the new name.
type Renamed = (&'static str, &'static str, &'static str);

/// The renamed options of each verb.
const TABLE: &[(&str, &[Renamed])] = &[
    ("bench memory", &[("point-limit-ms", "point-limit", "ms")]),
    ("bench switch", &[("point-limit-ms", "point-limit", "ms")]),
    (
        "link",
        &[
            ("delay-us", "delay", "us"),
            ("jitter-us", "jitter", "us"),
            ("rate-bps", "bit-rate", ""),
            ("left-to-right-delay-us", "left-to-right-delay", "us"),
            ("left-to-right-jitter-us", "left-to-right-jitter", "us"),
            ("left-to-right-rate-bps", "left-to-right-bit-rate", ""),
            ("right-to-left-delay-us", "right-to-left-delay", "us"),
            ("right-to-left-jitter-us", "right-to-left-jitter", "us"),
            ("right-to-left-rate-bps", "right-to-left-bit-rate", ""),
        ],
    ),
    ("load files", &[("limit-bytes", "size-limit", "")]),
    (
        "load http",
        &[("spin-us", "spin", "us"), ("timeout-s", "timeout", "")],
    ),
    ("load media", &[("ramp-s", "ramp", "")]),
    (
        "load stream",
        &[
            ("rate", "bit-rate", ""),
            ("segment-bytes", "segment-size", ""),
        ],
    ),
    (
        "media synthesize",
        &[("rate", "bit-rate", ""), ("seconds", "duration", "")],
    ),
    (
        "route self-test",
        &[
            ("capacity-pps", "capacity", ""),
            ("highest-pps", "highest-rate", ""),
            ("lowest-pps", "lowest-rate", ""),
        ],
    ),
    (
        "route throughput",
        &[
            ("frame-bytes", "frame-size", ""),
            ("highest-pps", "highest-rate", ""),
            ("lowest-pps", "lowest-rate", ""),
        ],
    ),
    (
        "serve media",
        &[
            ("ahead-ms", "ahead", "ms"),
            ("cache-mib", "cache-size", "MiB"),
            ("cores", "cpus", ""),
            ("max-lateness-ms", "max-lateness", "ms"),
            ("max-rate-bps", "max-bit-rate", ""),
            ("read-delay-ms", "read-delay", "ms"),
            ("session-timeout-s", "session-timeout", ""),
        ],
    ),
    (
        "serve web",
        &[
            ("cache-bytes", "cache-size", ""),
            ("coalesce-us", "coalesce", "us"),
            ("cores", "cpus", ""),
            ("idle-timeout-s", "idle-timeout", ""),
            ("max-body-bytes", "max-body-size", ""),
            ("max-header-bytes", "max-header-size", ""),
            ("request-timeout-s", "request-timeout", ""),
            ("revalidate-ms", "revalidate", "ms"),
        ],
    ),
];

/// The new name of a verb's option and the unit of its old name; `None` if `old` is no old name.
pub fn current(verb: &str, old: &str) -> Option<(&'static str, &'static str)> {
    let (_, options) = TABLE.iter().find(|(name, _)| *name == verb)?;
    let (_, new, unit) = options.iter().find(|(name, ..)| *name == old)?;
    Some((new, unit))
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
                "agent load http U --clients 8",
                "agent load http U --clients 8",
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
