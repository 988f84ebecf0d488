"""Converts the plugin's counts into costs per packet, with intervals over the variants.

Names are those of `perpacket profile` where they mean the same. Misses are those of modelled
caches. A packet is a frame that the driver of card A, the server's network card, sent or received.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perpacket.analysis.statistics import Interval, mean
from perpacket.errors import RunFailed
from perpacket_lab.emulate import structures
from perpacket_lab.emulate.caches import Shape
from perpacket_lab.emulate.cycles import cycle_model
from perpacket_lab.emulate.moved_lines import moved_lines
from perpacket_lab.emulate.settings import Settings
from perpacket_lab.emulate.steering import steering
from perpacket_lab.study.quantities import EMULATION_SCHEMA

ERROR_STATUS = 400
"""The first status of an HTTP response that is an error (RFC 9110, section 15)."""

DIRECTIONS = {"send": "sent", "receive": "received", "neither": ""}
"""Each direction with the packets by which its costs are divided; empty for all packets."""

REGIONS = {
    "user": "user",
    "syscall": "system_call",
    "socket": "system_call",
    "tcp": "tcp",
    "ip": "ip",
    "ethernet": "ethernet",
    "driver": "driver",
}
"""The regions of TR05-450 (Kim and Rixner, Rice University, 2005) by layer; other layers are
`other`. The names are those of `Region` in crates/base/cost, as in a profile."""

FUNCTIONS_SHOWN = 20
OTHERS = "[other functions]"

ALONE = (
    "only processor 0 is modelled: no other processor shares its caches or invalidates its lines"
)
COHERENT = (
    "processors take turns and share one clock: which lines move depends on the order of their "
    "accesses, and neither the time of a move nor waiting for it is modelled",
    "the clients' processor is another machine: it has no caches, and lines do not move to it",
)
LIMITS = (
    "misses are those of modelled caches that replace the least recently used line",
    ALONE,
    "every instruction counts as one: there is no execution out of order or on wrong paths",
)

Row = Mapping[str, Any]
Select = Callable[[Row], bool]
NameOf = Callable[[Row], str]


def every(_row: Row) -> bool:
    """Select all rows."""
    return True


def where(of: NameOf, name: str) -> Select:
    """Select the rows with a name."""
    return lambda row: of(row) == name


def layer(row: Row) -> str:
    """The layer of a row."""
    return str(row["layer"])


def kind(row: Row) -> str:
    """The kind of a row."""
    return str(row["kind"])


def region(row: Row) -> str:
    """The region of TR05-450 of a row."""
    return REGIONS.get(row["layer"], "other")


def direction(row: Row) -> str:
    """The direction of a row."""
    return str(row["direction"])


def function(row: Row) -> str:
    """The function of a row; empty for user code, which has no symbols."""
    return row.get("function") or "[user]"


def file(row: Row) -> str:
    """The program or library of a row of user code; empty for the kernel."""
    return str(row.get("file") or "")


GROUPS: dict[str, NameOf] = {"layers": layer, "kinds": kind, "regions": region}
"""The ways to divide the same counts. The keys are those of the document."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The counts of one variant."""

    counts: Mapping[str, Any]

    @property
    def rows(self) -> list[Row]:
        """The counts by layer, kind and direction, without the idle loop."""
        return [row for row in self.counts["counts"] if row["layer"] != "idle"]

    def only(self, select: Select) -> Variant:
        """The same variant with the selected rows alone."""
        return Variant({**self.counts, "counts": [row for row in self.rows if select(row)]})

    def packets(self, way: str = "") -> int:
        """Frames sent or received, or both together."""
        frames = self.counts["frames"]
        return int(frames[way]) if way else int(frames["sent"]) + int(frames["received"])

    @property
    def requests(self) -> int:
        """The requests: HTTP responses that the server began to send, or what was counted."""
        return int(self.counts.get("requests") or sum(self.counts.get("responses", {}).values()))

    def instructions(self, select: Select) -> float:
        """Instructions of the selected rows."""
        return float(sum(row["instructions"] for row in self.rows if select(row)))

    def misses(self, names: Iterable[str], place: int | None, select: Select) -> float:
        """Misses of the selected rows in the configuration `place`; None for translation caches."""
        return float(
            sum(
                row[name] if place is None else row[name][place]
                for name in names
                for row in self.rows
                if select(row)
            )
        )


@dataclass(frozen=True, slots=True)
class Event:
    """An event: the name in the report, the plugin's names of the parts, the configuration."""

    key: str
    parts: tuple[str, ...]
    place: int | None
    label: str = ""
    """The cache's shape; empty for the only first level, so that its misses are a number."""


def report(settings: Settings, counts: Sequence[Mapping[str, Any]], facts: Row) -> dict[str, Any]:
    """The document of one emulation; `facts` are about the machine and its snapshot.

    Raises `RunFailed` when a variant counted no frames.
    """
    variants = [Variant(one) for one in counts]
    for variant in variants:
        if not variant.counts.get("frames") or not variant.packets():
            raise RunFailed("the emulator's plugin counted no frames: the card was not recognized")
    document = {
        "schema": EMULATION_SCHEMA,
        "backend": "emulated",
        **facts,
        "settings": settings.as_dict(),
        "variants": len(variants),
        "turn_instructions": settings.turn_instructions,
        "packets": {way: total(variants, way) for way in ("sent", "received")},
        "requests": sum(one.requests for one in variants),
        "responses": responses(variants),
        "guest_window_s": [one["guest"]["values"][0] / 1e9 for one in counts],
        "returns": [one["returns"] for one in counts],
        "caches": {
            "l1": [str(shape) for shape in settings.memory.l1],
            "l2": [label(settings, place) for place in range(configurations(settings))],
        },
        "cycle_model": cycle_model(settings.cycles).as_dict(),
        "data_accesses_per_packet": data_accesses(variants),
        "total": cost(settings, variants, every),
    }
    for group, of in GROUPS.items():
        names = ordered(of(row) for variant in variants for row in variant.rows)
        document[group] = {name: cost(settings, variants, where(of, name)) for name in names}
    document["directions"] = {
        way: cost(settings, variants, where(direction, way), packets)
        for way, packets in DIRECTIONS.items()
    }
    document["layer_kinds"] = layer_kinds(variants)
    if settings.by == "function":
        document["functions"] = functions(settings, variants)
        document["files"] = {
            name: cost(settings, variants, where(file, name))
            for name in ordered(file(row) for one in variants for row in one.rows)
            if name
        }
    if settings.by == "structure":
        document["structures"] = structures.by_structure(settings, variants)
        document["declared_lines"] = structures.declared_lines(variants)
    if all("sharing" in one.counts for one in variants):
        document["sharing"] = moved_lines(
            variants,
            document["caches"]["l2"],
            document["layers"],
            estimate,
            with_structures=settings.by == "structure",
        )
    if settings.hardware.processors:
        packets = [one.packets() for one in variants]
        document["steering"] = steering(counts, packets, estimate)
    document["by_variant"] = [by_variant(variant) for variant in variants]
    document["limits"] = limits(settings, variants)
    return document


def responses(variants: Sequence[Variant]) -> dict[str, Any]:
    """HTTP responses of all variants: their number, the errors among them, and each status."""
    statuses: Counter[str] = Counter()
    for variant in variants:
        statuses.update(variant.counts.get("responses", {}))
    failed = sum(number for status, number in statuses.items() if int(status) >= ERROR_STATUS)
    return {
        "count": statuses.total(),
        "errors": failed,
        "statuses": dict(sorted(statuses.items())),
    }


def data_accesses(variants: Sequence[Variant]) -> dict[str, Any]:
    """Loads and stores per packet, those of the idle loop included."""
    counts = [one.counts["data_accesses"] for one in variants]
    return estimate(counts, [max(1, one.packets()) for one in variants])


def by_variant(variant: Variant) -> dict[str, Any]:
    """The counts of one variant: instructions by layer and kind, and by function if counted."""
    sums: dict[str, Counter[str]] = {"layer_kinds": Counter(), "functions": Counter()}
    for row in variant.rows:
        sums["layer_kinds"][f"{row['layer']} {row['kind']}"] += row["instructions"]
        if row.get("function"):
            sums["functions"][f"{row['layer']} {function(row)}"] += row["instructions"]
    return {
        "packets": {way: variant.packets(way) for way in ("sent", "received")},
        "requests": variant.requests,
        "window_s": variant.counts["guest"]["values"][0] / 1e9,
        "instructions": {name: dict(sorted(own.items())) for name, own in sums.items()},
    }


def cost(
    settings: Settings, variants: Sequence[Variant], select: Select, way: str = ""
) -> dict[str, Any]:
    """Instructions and misses of the selected rows per packet; `way` selects the packets."""
    everything = [one.instructions(every) for one in variants]
    # Select once: with functions of the server there are thousands of rows.
    variants, select = [one.only(select) for one in variants], every
    own = [one.instructions(select) for one in variants]
    packets = [max(1, one.packets(way)) for one in variants]
    share = mean(
        [part / whole if whole else 0.0 for part, whole in zip(own, everything, strict=True)]
    )
    found: dict[str, Any] = {"share": share.value, **bounds(share.within(0, 1))}
    add_number(found, "instructions_per_packet", estimate(own, packets))
    if not way and all(one.requests for one in variants):
        below = [one.requests for one in variants]
        add_number(found, "instructions_per_request", estimate(own, below))
    add_misses(found, variants, events(settings), select, packets)
    found["modelled_cycles_per_packet"] = modelled_cycles(settings, variants, select, packets)
    return found


def modelled_cycles(
    settings: Settings, variants: Sequence[Variant], select: Select, packets: Sequence[int]
) -> dict[str, Any]:
    """The cycles of the selected rows per packet by the model, for each second level."""
    model = cycle_model(settings.cycles)
    return {
        label(settings, place): estimate(
            [
                model.cycles(
                    one.instructions(select),
                    one.misses(("l1i_misses", "l1d_misses"), place, select),
                    one.misses(("l2i_misses", "l2d_misses"), place, select),
                )
                for one in variants
            ],
            packets,
        )
        for place in range(configurations(settings))
    }


def add_number(found: dict[str, Any], key: str, value: Mapping[str, Any]) -> None:
    """Add a mean to a cost, as a number like that of a profile, and its interval to `intervals`."""
    found[key] = value["value"]
    interval = {name: part for name, part in value.items() if name != "value"}
    found.setdefault("intervals", {})[key] = interval


def add_misses(
    found: dict[str, Any],
    variants: Sequence[Variant],
    shown: Iterable[Event],
    select: Select,
    packets: Sequence[int],
) -> None:
    """Add the misses of the selected rows per packet to a cost; those of caches by their shape."""
    for event in shown:
        values = [one.misses(event.parts, event.place, select) for one in variants]
        value = estimate(values, packets)
        if event.label:
            found.setdefault(event.key, {})[event.label] = value
        else:
            add_number(found, event.key, value)


def estimate(values: Sequence[float], packets: Sequence[int]) -> dict[str, float | int | None]:
    """The mean over variants of a count per packet, with its interval."""
    ratios = [value / count for value, count in zip(values, packets, strict=True)]
    interval = mean(ratios).within(0, math.inf)
    return {"value": interval.value, **bounds(interval), "n": interval.n}


def bounds(interval: Interval) -> dict[str, float | None]:
    """The bounds for JSON."""
    low, high = (interval.low, interval.high) if interval.is_bounded else (None, None)
    return {"low": low, "high": high}


def configurations(settings: Settings) -> int:
    """The number of pairs of a first and a second level; the second levels vary fastest."""
    return len(settings.memory.l1) * len(settings.memory.l2)


def label(settings: Settings, place: int) -> str:
    """The shape of a configuration's second level; with its first level if there are several."""
    first, second = divmod(place, len(settings.memory.l2))
    shape: Shape = settings.memory.l2[second]
    return f"{settings.memory.l1[first]} {shape}" if len(settings.memory.l1) > 1 else str(shape)


def events(settings: Settings) -> list[Event]:
    """The events of a document."""
    found = []
    several = len(settings.memory.l1) > 1
    for key, part in (("l1i_misses_per_packet", "l1i"), ("l1d_misses_per_packet", "l1d")):
        for first, shape in enumerate(settings.memory.l1):
            place = first * len(settings.memory.l2)
            name = str(shape) if several else ""
            found.append(Event(key, (f"{part}_misses",), place, name))
    for key, parts in (
        ("l2_misses_per_packet", ("l2i_misses", "l2d_misses")),
        ("l2i_misses_per_packet", ("l2i_misses",)),
        ("l2d_misses_per_packet", ("l2d_misses",)),
    ):
        for place in range(configurations(settings)):
            found.append(Event(key, parts, place, label(settings, place)))
    if settings.memory.tlb_entries:
        for part in ("itlb", "dtlb"):
            found.append(Event(f"{part}_misses_per_packet", (f"{part}_misses",), None))
    return found


def ordered(names: Iterable[str]) -> list[str]:
    """Each name once: layers and regions in their order in the stack, others alphabetically."""
    stack = ["user", "syscall", "system_call", "socket", "tcp", "udp", "ip", "ethernet", "driver"]
    stack += ["interrupt", "scheduler", "idle"]

    def place(name: str) -> tuple[bool, int, str]:
        return name == "other", stack.index(name) if name in stack else len(stack), name

    return sorted(set(names), key=place)


def layer_kinds(variants: Sequence[Variant]) -> dict[str, dict[str, float]]:
    """Shares of the instructions by layer and kind, without zeros."""
    everything = sum(one.instructions(every) for one in variants)
    found: dict[str, dict[str, float]] = {}
    rows = [row for one in variants for row in one.rows]
    for layer in ordered(row["layer"] for row in rows):
        for kind in ordered(row["kind"] for row in rows if row["layer"] == layer):
            own = sum(
                row["instructions"] for row in rows if (row["layer"], row["kind"]) == (layer, kind)
            )
            if own:
                found.setdefault(layer, {})[kind] = own / everything
    return found


def functions(settings: Settings, variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """The functions with most misses, and their costs. The last entry is the sum of all others.

    Functions are in the order of the sum of their misses in all second-level caches. Functions with
    equal sums are in the order of their instructions.
    """
    totals: dict[str, tuple[float, float]] = {}
    layers: dict[str, str] = {}
    for variant in variants:
        for row in variant.rows:
            name = function(row)
            layers.setdefault(name, row["layer"])
            misses, instructions = totals.get(name, (0.0, 0.0))
            misses += sum(row["l2i_misses"]) + sum(row["l2d_misses"])
            totals[name] = (misses, instructions + row["instructions"])
    ranked = sorted(totals, key=lambda name: (*(-total for total in totals[name]), name))
    most, others = ranked[:FUNCTIONS_SHOWN], set(ranked[FUNCTIONS_SHOWN:])
    found: list[dict[str, Any]] = [
        {
            "function": name,
            "layer": layers[name],
            **cost(settings, variants, where(function, name)),
        }
        for name in most
    ]
    if others:
        rest = cost(settings, variants, lambda row: function(row) in others)
        found.append({"function": OTHERS, "layer": "all", **rest})
    return found


def total(variants: Sequence[Variant], way: str) -> int:
    """Frames of all variants."""
    return sum(one.packets(way) for one in variants)


def limits_of_caches(are_coherent: bool) -> list[str]:
    """Sentences on the limits of modelled caches, of one or of several processors."""
    if not are_coherent:
        return list(LIMITS)
    return [*(limit for limit in LIMITS if limit != ALONE), *COHERENT]


def limits(settings: Settings, variants: Sequence[Variant]) -> list[str]:
    """Sentences on the limits of the numbers."""
    found = limits_of_caches(any("sharing" in one.counts for one in variants))
    found.append(
        "cycles are not measured: a model computes them from the counts, with the latencies of "
        f"{cycle_model(settings.cycles)}"
    )
    found.append(
        f"the processors take turns of {settings.turn_instructions:,} instructions: results can "
        "depend on this number, so compare them with the results for other numbers"
    )
    if len(variants) == 1:
        found.append("one variant has no interval: use --replications 5")
    else:
        found.append(
            f"intervals are over {len(variants)} variants of the same scenario, each with another "
            "start of the window and memory layout"
        )
    if settings.memory.policy == "inclusive" and len(settings.memory.l2) > 1:
        found.append(
            "an inclusive second level removes lines from the first, so first-level misses differ "
            f"between second levels: those shown are for {settings.memory.l2[0]}"
        )
    if settings.scenario.offloads:
        found.append("with offloads, one packet that the driver sends can be several frames")
    if settings.memory.dma == "none":
        found.append("the card's reads and writes of memory do not touch the caches")
    lost = sum(one.counts["returns"]["unmatched"] for one in variants)
    returns = lost + sum(one.counts["returns"]["matched"] for one in variants)
    if returns and lost / returns > 0.001:
        found.append(
            f"{100 * lost / returns:.2f} % of returns have no known call: their layer may be wrong"
        )
    return found
