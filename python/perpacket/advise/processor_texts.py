"""Parsers of texts about processors: mpstat, sar, top, vmstat, pidstat, /proc/softirqs, cpupower.

Each function is pure: text in, facts out. Text that has another form gives no facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perpacket.measure import cpu_lists

ALL = "all"
"""The name of all processors together, where a text has no row for each."""

TOP = re.compile(r"%?Cpu(\d+|\(s\))\s*:((?:\s*[\d.]+[ %]+[a-z]{2},?)+)", re.IGNORECASE)
"""The line of a processor in top, or of all: `%Cpu0  :  0.3 us,  1.0 sy, ...`."""

KSOFTIRQD = re.compile(r"ksoftirqd/(\d+)")

FULL = 0.8
"""The share of a processor from which its ksoftirqd shows that softirqs use most of it."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a processor's time."""

    busy: float
    softirq: float
    stolen: float


def names(cpus: Sequence[str]) -> str:
    """The names of processors as one: `cpu7`, or `cpu0,2-3`."""
    return f"cpu{cpu_lists.ranges([int(cpu.removeprefix('cpu')) for cpu in cpus])}"


def busiest(counts: Mapping[str, float]) -> list[str]:
    """The few processors that have most of a count: each at least half as much as the first.

    If these are more than half of all processors, only the first.
    """
    most = max(counts.values(), default=0)
    found = [cpu for cpu, count in counts.items() if 2 * count >= most]
    return found if 2 * len(found) <= len(counts) else found[:1]


def processors(text: str) -> dict[str, Shares]:
    """The shares of each processor by its name, or those of all together.

    The averages at the end of mpstat and sar replace the earlier rows.
    """
    text = re.sub(r"(?<=\d),(?=\d\d?\b)", ".", text)  # the decimal comma of some languages
    rows = {**dict(_rows(text)), **dict(_of_top(text)), **_of_vmstat(text)}
    for name, share in programs(text).items():
        matched = KSOFTIRQD.fullmatch(name)
        if matched and share >= FULL and f"cpu{matched[1]}" not in rows:
            rows[f"cpu{matched[1]}"] = Shares(share, share, 0.0)
    own = {name: row for name, row in rows.items() if name != ALL}
    return own or rows


def _rows(text: str) -> Iterator[tuple[str, Shares]]:
    """The rows of mpstat and of `sar -u`."""
    columns: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if "%idle" in words and "CPU" in words:
            columns = words[words.index("CPU") :]
        elif columns and len(words) >= len(columns):
            values = dict(zip(columns, words[-len(columns) :], strict=True))
            name = values.pop("CPU")
            try:
                shares = {key: float(value) / 100 for key, value in values.items()}
            except ValueError:
                continue
            if name.isdigit() or name == ALL:
                idle = shares["%idle"] + shares.get("%iowait", 0.0)
                busy, softirq = 1 - idle, shares.get("%soft", 0.0)
                found = Shares(busy, softirq, shares.get("%steal", 0.0))
                yield (ALL if name == ALL else f"cpu{name}"), found


def _of_top(text: str) -> Iterator[tuple[str, Shares]]:
    for name, fields in TOP.findall(text):
        parts = {
            key: float(value) / 100
            for value, key in re.findall(r"(\d+(?:\.\d+)?)[ %]+([a-z]{2})", fields)
        }
        if "id" in parts:
            busy = 1 - parts["id"] - parts.get("wa", 0.0)
            found = Shares(busy, parts.get("si", 0.0), parts.get("st", 0.0))
            yield (f"cpu{name}" if name.isdigit() else ALL), found


def _of_vmstat(text: str) -> dict[str, Shares]:
    """The last row of vmstat, which is of all processors."""
    columns: list[str] = []
    found: dict[str, Shares] = {}
    for line in text.splitlines():
        words = line.split()
        if {"us", "sy", "id", "cs", "in"} <= set(words):
            columns = words
        elif columns and len(words) == len(columns) and all(word.isdigit() for word in words):
            row = {key: int(word) / 100 for key, word in zip(columns, words, strict=True)}
            busy = 1 - row["id"] - row.get("wa", 0.0)
            found = {ALL: Shares(busy, 0.0, row.get("st", 0.0))}
    return found


def programs(text: str) -> dict[str, float]:
    """The processors that programs use, in top, ps and pidstat; those of one name add up."""
    place, name = 0, 0
    found: dict[str, float] = {}
    for line in text.splitlines():
        words = line.split()
        upper = [word.upper() for word in words]
        if "%CPU" in upper and ("COMMAND" in upper or "CMD" in upper):
            place = upper.index("%CPU")
            name = upper.index("COMMAND" if "COMMAND" in upper else "CMD")
        elif name and len(words) > name and re.fullmatch(r"\d+(\.\d+)?", words[place]):
            command = words[name].strip("[]")
            if not KSOFTIRQD.search(command):
                command = command.rsplit("/", 1)[-1]
            found[command] = found.get(command, 0.0) + float(words[place]) / 100
    return found


def received_softirqs(text: str) -> dict[str, int]:
    """The softirqs of receiving by processor; /proc/softirqs."""
    header = re.search(r"^\s*((?:CPU\d+\s*)+)$", text, re.MULTILINE)
    row = re.search(r"^\s*NET_RX:\s*((?:\d+\s*)+)$", text, re.MULTILINE)
    if header is None or row is None:
        return {}
    names = [name.lower() for name in header[1].split()]
    return dict(zip(names, map(int, row[1].split()), strict=False))


@dataclass(frozen=True, slots=True)
class IdleState:
    """A state in which a processor sleeps; Documentation/admin-guide/pm/cpuidle.rst."""

    latency_us: float
    """How long the processor needs to run again."""
    time_us: float
    """How long it was in the state."""


def idle_states(text: str) -> dict[str, IdleState]:
    """The states of `cpupower idle-info`, by name."""
    rows = re.findall(
        r"^(\w+):\n(?:Flags/Description:.*\n)?Latency: (\d+)\n(?:Residency: \d+\n)?Usage: \d+\n"
        r"Duration: (\d+)",
        text,
        re.MULTILINE,
    )
    return {name: IdleState(float(latency), float(time)) for name, latency, time in rows}


def deepest(states: Mapping[str, IdleState]) -> tuple[str, IdleState] | None:
    """The deepest state in which a processor was for a tenth of its sleep or more."""
    total = sum(state.time_us for state in states.values())
    used = {name: state for name, state in states.items() if total and state.time_us >= 0.1 * total}
    return max(used.items(), key=lambda item: item[1].latency_us) if used else None
