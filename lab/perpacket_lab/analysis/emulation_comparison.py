"""Two emulations compared: the ratios of their costs, and the functions that changed.

Each variant of an emulation is a window of `perpacket.analysis.profile_comparison`. If both
emulations ran on the same stored guest, the variants of equal number are pairs, because they have
the same phase, layout and load.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perpacket.analysis import profile_comparison
from perpacket.analysis.claim import Claim, Pair, ratio_claim
from perpacket.analysis.profile_comparison import TOTAL, JudgedRule, ProfileComparison, Unit
from perpacket.analysis.ratios import RatioRule
from perpacket.analysis.statistics import paired_ratio, unpaired_ratio
from perpacket.errors import ConfigurationError
from perpacket.profile_document import ProfileDocument
from perpacket.server_cost import OFF_PATH
from perpacket_lab.study.quantities import EMULATION_SCHEMA

HINT = "`perpacket emulate --save FILE` writes such a file"
MEASURE = "instructions_per_"
"""The prefix of a rule's quantity that names the unit, as in `instructions_per_request.tcp`."""

LEAST_VARIANTS = 3
"""With fewer variants there is no interval."""

NO_LAYER = "no_layer"
"""The kernel's work of no layer."""

IGNORED = ("server", "seed", "changes")
"""Settings in which compared emulations may differ."""

Document = Mapping[str, Any]

NOT_SET = "n"
"""The value of an option of a kernel that its configuration does not set."""


@dataclass(frozen=True, slots=True)
class OptionPair:
    """An option of the kernels' configurations that differs."""

    group: str
    option: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class EmulationComparison:
    """The ratios B/A of two emulations."""

    by_unit: Mapping[Unit, ProfileComparison]
    """The comparison by request, if both have requests, and by packet."""
    functions: tuple[Claim[Pair], ...]
    """The functions in the order of their differences, in the first unit."""
    options: tuple[OptionPair, ...]
    """The options of the kernels that differ."""
    judged: tuple[JudgedRule, ...]
    notes: tuple[str, ...]

    @property
    def unit(self) -> Unit:
        """The unit of rules that name none, and of functions."""
        return next(iter(self.by_unit))


def read(path: Path) -> Document:
    """A saved emulation; raises `ConfigurationError` if the file is none."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: expected an emulation: {error}", hint=HINT) from None
    if not isinstance(document, dict) or not document.get("by_variant"):
        raise ConfigurationError(f"{path}: expected an emulation", hint=HINT)
    if document.get("schema") != EMULATION_SCHEMA:
        raise ConfigurationError(
            f"{path}: expected schema {EMULATION_SCHEMA}, got {document.get('schema')}",
            hint="another version of perpacket wrote it: emulate again with this one",
        )
    return document


def compare(
    first: Document, second: Document, rules: Sequence[RatioRule] = ()
) -> EmulationComparison:
    """Compare B (`second`) with A (`first`).

    Raises `ConfigurationError` for a rule about an unknown quantity.
    """
    sides = first["by_variant"], second["by_variant"]
    paired = first.get("state") == second.get("state") and len(sides[0]) == len(sides[1])
    windows = [
        [ProfileDocument.parse(window(variant), "the emulation") for variant in side]
        for side in sides
    ]
    has_requests = all(variant["requests"] for side in sides for variant in side)
    by_unit = {
        unit: profile_comparison.compare(*windows, unit=unit, paired=paired)
        for unit in ([Unit.REQUEST] if has_requests else []) + [Unit.PACKET]
    }
    return EmulationComparison(
        by_unit,
        functions(sides, next(iter(by_unit)), paired),
        different_options(*(side.get("kernel_options", {}) for side in (first, second))),
        tuple(judge(rule, by_unit) for rule in rules),
        tuple(notes(first, second, paired)),
    )


def window(variant: Mapping[str, Any]) -> dict[str, object]:
    """A variant as a window of a profile."""
    packets = sum(variant["packets"].values())
    cells: dict[str, dict[str, float]] = defaultdict(dict)
    layers: dict[str, float] = defaultdict(float)
    kinds: dict[str, float] = defaultdict(float)
    for name, instructions in variant["instructions"]["layer_kinds"].items():
        layer, kind = name.split()
        # The total of a profile lacks this layer, which has other programs there.
        layer = NO_LAYER if layer == OFF_PATH else layer
        cells[layer][kind] = instructions
        layers[layer] += instructions
        kinds[kind] += instructions
    whole = sum(layers.values())

    def costs(rows: Mapping[str, float]) -> dict[str, dict[str, float]]:
        return {name: {"instructions_per_packet": own / packets} for name, own in rows.items()}

    return {
        "backend": "emulated",
        **{key: variant[key] for key in ("window_s", "packets", "requests")},
        **costs({TOTAL: whole}),
        "layers": costs(layers),
        "kinds": costs(kinds),
        "layer_kinds": {
            layer: {kind: own / whole for kind, own in row.items()} for layer, row in cells.items()
        },
    }


def functions(
    sides: Sequence[Sequence[Mapping[str, Any]]], unit: Unit, paired: bool
) -> tuple[Claim[Pair], ...]:
    """The functions of both sides, those with the largest differences first."""
    variants = [variant for side in sides for variant in side]
    names = {name for variant in variants for name in variant["instructions"]["functions"]}
    ratio = paired_ratio if paired else unpaired_ratio
    claims = []
    for name in names:
        values = [
            [each["instructions"]["functions"].get(name, 0) / units(each, unit) for each in side]
            for side in sides
        ]
        first, second = (sum(own) / len(own) for own in values)
        has_interval = min(map(min, values)) > 0 and min(map(len, values)) >= LEAST_VARIANTS
        interval = ratio(values[1], values[0]) if has_interval else None
        claims.append(ratio_claim("", name, interval, Pair(first, second, paired)))
    changed = [claim for claim in claims if claim.detail.first != claim.detail.second]
    return tuple(sorted(changed, key=order))


def costs_by_layer(
    functions: Sequence[Claim[Pair]],
) -> dict[str, list[tuple[str, float, float]]]:
    """The functions that changed with their costs in A and B, by layer."""
    rows: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for claim in functions:
        layer, _, name = claim.quantity.partition(" ")
        rows[layer].append((name, claim.detail.first, claim.detail.second))
    return rows


def different_options(
    first: Mapping[str, Mapping[str, str]], second: Mapping[str, Mapping[str, str]]
) -> tuple[OptionPair, ...]:
    """The options with different values; none if the options of a side are not known."""
    if not first or not second:
        return ()
    pairs = []
    for group in dict.fromkeys((*first, *second)):
        own, other = first.get(group, {}), second.get(group, {})
        for option in sorted(own.keys() | other.keys()):
            values = own.get(option, NOT_SET), other.get(option, NOT_SET)
            if values[0] != values[1]:
                pairs.append(OptionPair(group, option, *values))
    return tuple(pairs)


def order(claim: Claim[Pair]) -> tuple[float, str]:
    """The place of a function among those that changed: the largest difference is first."""
    return -abs(claim.detail.second - claim.detail.first), claim.quantity


def units(variant: Mapping[str, Any], unit: Unit) -> float:
    """The requests or the packets of a variant."""
    whole = variant["requests"] if unit is Unit.REQUEST else sum(variant["packets"].values())
    return float(whole)


def judge(rule: RatioRule, by_unit: Mapping[Unit, ProfileComparison]) -> JudgedRule:
    """A rule applied to its ratio; raises `ConfigurationError` for an unknown quantity."""
    name, unit = rule.quantity, next(iter(by_unit))
    if name.startswith(MEASURE):
        unit_name, _, part = name.removeprefix(MEASURE).partition(".")
        if unit_name not in by_unit:
            raise ConfigurationError(
                f"--fail-if {str(rule)!r}: the emulations have no {name}",
                parameter="--fail-if",
                hint=f"there are {', '.join(MEASURE + each for each in by_unit)}",
            )
        unit, name = Unit(unit_name), part or TOTAL
    compared = by_unit[unit]
    claims = (compared.total, *compared.layers, *compared.kinds)
    ratios = {claim.quantity: claim for claim in claims}
    judged = profile_comparison.judge(replace(rule, quantity=name), ratios)
    return replace(judged, rule=rule)


def notes(first: Document, second: Document, paired: bool) -> list[str]:
    """Sentences on what besides the server differs, and on the intervals."""
    sentences = []
    for key in ("kernel", "qemu"):
        if first.get(key) != second.get(key):
            sentences.append(f"{key}: {first.get(key)} in A, {second.get(key)} in B")
    settings = first["settings"], second["settings"]
    for key in sorted(settings[0].keys() | settings[1].keys()):
        values = [side.get(key) for side in settings]
        if key not in IGNORED and values[0] != values[1]:
            sentences.append(f"the setting {key} differs: {values[0]} in A, {values[1]} in B")
    if not paired:
        what = "guests" if first.get("state") != second.get("state") else "numbers of variants"
        sentences.append(f"the variants are not paired, because the {what} differ")
    if min(first["variants"], second["variants"]) < LEAST_VARIANTS:
        sentences.append(f"no intervals: emulate with --replications {LEAST_VARIANTS} or more")
    return sentences
