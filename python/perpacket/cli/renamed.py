"""Old names of options. This release accepts them; the next release removes this file.

The agent has such a file for its own verbs: crates/agent/src/renamed.rs.
"""

from __future__ import annotations

from collections.abc import Sequence

RENAMED = {
    ("simulate", "--rate-mbps"): ("--bit-rate", "Mb/s"),
    ("simulate", "--latency-ms"): ("--latency", "ms"),
    ("simulate", "--l2-kb"): ("--l2-size", "KiB"),
    ("model", "--host-us"): ("--host", "us"),
    ("model", "--saved-us"): ("--saved", "us"),
    ("model", "--nic-host-us"): ("--nic-host", "us"),
    ("model", "--nic-extra-us"): ("--nic-extra", "us"),
    ("model", "--io-mbytes-per-s"): ("--io-bandwidth", "MB"),
    ("trace", "--window-s"): ("--window", ""),
    ("trace", "--sessions-per-s"): ("--sessions-rate", ""),
    ("trace", "--gap-mean-s"): ("--gap-mean", ""),
}
"""By verb and old name: the new name, and the unit that the old name implied."""


def replace(arguments: Sequence[str]) -> list[str]:
    """The arguments with old names replaced, and units added to their values."""
    verb = arguments[0] if arguments else ""
    replaced: list[str] = []
    value_unit = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if (verb, name) in RENAMED:
            new, unit = RENAMED[verb, name]
            value_unit = "" if equals else unit
            replaced.append(f"{new}={with_unit(value, unit)}" if equals else new)
        else:
            replaced.append(with_unit(argument, value_unit))
            value_unit = ""
    return replaced


def with_unit(value: str, unit: str) -> str:
    """A value with its own unit, or else with the unit that the option's old name implied."""
    return f"{value}{unit}" if value[-1:].isdigit() else value
