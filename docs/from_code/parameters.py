"""Data files of the Rust crates as tables."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from from_code import markdown


def table(root: Path, file: str) -> str:
    """Return a table of every parameter of a file with value, unit and source."""
    content = tomllib.loads((root / file).read_text(encoding="utf-8"))
    return markdown.table(("parameter", "value", "unit", "source"), rows(content))


def rows(content: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Return a row for each parameter of a TOML table and of its inner tables."""
    for name, value in content.items():
        if not isinstance(value, dict):
            raise ValueError(f"{above}{name}: expected a parameter with value, unit and source")
        if "value" in value:
            levels = value["value"] if isinstance(value["value"], list) else [value["value"]]
            text = ", ".join(map(option_text, levels))
            unit, source = str(value["unit"]), str(value["source"])
            yield markdown.code(above + name), markdown.code(text), unit, source
        else:
            yield from rows(value, f"{above}{name}.")


def option_text(value: object) -> str:
    """Return a value in the form that `--set` accepts."""
    return value if isinstance(value, str) else json.dumps(value)


def event_sets(root: Path) -> str:
    """Return a table of the event sets: what each samples together."""
    sets = []
    for file in sorted((root / "crates/instruments/profiler/data/events").glob("*.toml")):
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        passes = "; ".join(map(describe_pass, content["passes"]))
        sets.append((markdown.code(content["name"]), content["what"], passes))
    return markdown.table(("set", "purpose", "passes"), sets)


def describe_pass(one: Mapping[str, object]) -> str:
    """Describe what a pass samples and counts."""
    counted = one.get("count")
    beside = f" with {', '.join(map(str, counted))}" if isinstance(counted, list) else ""
    return f"{one['sample']}{beside}"
