"""The profiles of several machines as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from perpacket.profile_document import Cost, ProfileDocument
from perpacket.show.table import Table

SMALLEST_SHARE = 0.01
"""Layers below this share of every machine's cost have no column."""


GONE = "no profile"


class HostState(Protocol):
    """A machine's last profile, or the reason why it has none."""

    @property
    def target(self) -> str:
        """The machine."""
        ...

    @property
    def window(self) -> ProfileDocument | None:
        """The profile."""
        ...

    @property
    def error(self) -> str:
        """The reason why there is no new profile."""
        ...


def table(states: Sequence[HostState]) -> Table:
    """A row for each machine, and the total of those that respond; costs in ns per packet."""
    windows = [state.window for state in states if state.window and not state.error]
    names = layers(windows)
    headings = ("host", "packets/s", "busy", "total", *names)
    rows = [row(state, names) for state in states]
    if len(windows) > 1:
        rows.append(("all", *cells(windows, names)))
    title = "ns of processor time a packet, by layer"
    return Table.of_texts(title, headings, tuple(rows), headings[1:])


def row(state: HostState, names: Sequence[str]) -> tuple[str, ...]:
    """The cells of a machine; they are empty after it has failed."""
    if state.error:
        return (f"{state.target}: {GONE}", *("-",) * (3 + len(names)))
    windows = [state.window] if state.window else []
    return (state.target, *cells(windows, names))


def cells(windows: Sequence[ProfileDocument], names: Sequence[str]) -> tuple[str, ...]:
    """The cells of some machines: the sums of their rates, and the costs over all packets."""
    every = math.fsum(window.packets.both for window in windows)
    if not windows:
        return ("-",) * (3 + len(names))
    rate = math.fsum(window.packets.both / (window.window_s or 1.0) for window in windows)
    time_s = math.fsum(window.window_s * len(window.cpus) for window in windows)
    busy_s = math.fsum(window.total.cpu_s or 0.0 for window in windows)

    def cost(part: Callable[[ProfileDocument], Cost]) -> str:
        used = math.fsum(part(window).cpu_s or 0.0 for window in windows)
        return f"{1e9 * used / every:,.0f}" if every else "-"

    return (
        f"{rate:,.0f}",
        f"{100 * busy_s / time_s:.0f} %" if time_s else "-",
        cost(lambda window: window.total),
        *(cost(partial(layer, name)) for name in names),
    )


def layer(name: str, window: ProfileDocument) -> Cost:
    """The cost of a layer; without numbers if the profile does not have it."""
    return window.layers.get(name, Cost())


def layers(windows: Sequence[ProfileDocument]) -> list[str]:
    """The layers with a visible share on some machine, in the order of the profile."""
    rows = [row for window in windows for row in window.layers.items()]
    return list(dict.fromkeys(name for name, cost in rows if (cost.share or 0) >= SMALLEST_SHARE))
