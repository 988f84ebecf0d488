"""The options of a kernel that change the cost of packets, by `kernel_options.toml`.

Two builds of Linux can differ by these options and not by their code.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources

KernelOptions = Mapping[str, Mapping[str, str]]
"""The values of options by group, in the order of the file, without those that are not set."""

LINE = re.compile(r"^CONFIG_(\w+)=(.*)$", re.MULTILINE)


def of_config(text: str) -> KernelOptions:
    """The options that a configuration sets; empty without a configuration."""
    values = {name: value.strip('"') for name, value in LINE.findall(text)}
    found = {}
    for group, pattern in patterns().items():
        own = {name: value for name, value in sorted(values.items()) if pattern.fullmatch(name)}
        if own:
            found[group] = own
    return found


def patterns() -> dict[str, re.Pattern[str]]:
    """The options of each group, as one regular expression."""
    file = resources.files(__package__) / "kernel_options.toml"
    groups = tomllib.loads(file.read_text(encoding="utf-8"))["group"]
    return {group["name"]: re.compile("|".join(group["options"])) for group in groups}
