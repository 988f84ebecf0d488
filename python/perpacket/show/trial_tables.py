"""A trial as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING

from perpacket.advise.effect import ALL, GOAL, PATH, CostVerdict, Effect, Effects
from perpacket.advise.journal import Restoration
from perpacket.analysis.statistics import Interval, format_number
from perpacket.show.table import Table

if TYPE_CHECKING:
    from perpacket.advise.slope import Slope
    from perpacket.advise.trial import Outcome, Trial
    from perpacket.analysis.factorial import Allocation

SCHEMA = 1

MOST_WINDOWS = 3000
"""The most windows that the headline suggests. At one second each, they take about an hour."""

SMALLEST_LAYER = 0.005
"""Layers below this share of the cost are only in the JSON document."""


COUNTED = {PATH: "the layers of the packet's path", ALL: "all programs"}
"""The processor time that counts as the cost, in words."""


def headline(trial: Trial) -> str:
    """The verdict in a sentence."""
    effects = trial.effects
    floor = f"windows without a change differ by {percent(effects.floor)}"
    if effects.null is not None:
        floor = f"without a change, the server itself costs {null_text(effects.null)}"
    ratio = effects.cost.ratio
    if ratio is None:
        return f"{trial.change}: too few windows for an interval"
    title = effects.cost.quantity.title
    size = (
        f"{title} {change_text(ratio.value)} [{change_text(ratio.low)}, {change_text(ratio.high)}]"
    )
    if effects.verdict is not CostVerdict.NOT_DISTINGUISHABLE:
        return f"{trial.change}: {rate_text(effects)}{effects.verdict}: {size}; {floor}"
    more = ""
    if (needed := effects.blocks_for_goal) is not None:
        needed *= 4 if effects.null is None else 6
        more = f"; about {needed} windows would show a change of {percent(GOAL)}"
        if needed > MOST_WINDOWS:
            more = (
                f"; the machine is too unsteady now to show a change of {percent(GOAL)} "
                "within an hour"
            )
    rate = rate_text(effects)
    return f"{trial.change}: {rate}not distinguishable at this length: {size}; {floor}{more}"


RATE_CHANGE = 0.1
"""A change of throughput whose whole interval is beyond this share comes before the cost."""


def rate_text(effects: Effects) -> str:
    """The change of throughput, if it is large: a broken or mended path matters more than cost."""
    for effect in effects.others:
        ratio = effect.ratio
        if effect.quantity.key != "units_per_s" or ratio is None:
            continue
        if ratio.low > 1 + RATE_CHANGE or ratio.high < 1 - RATE_CHANGE:
            interval = f"[{change_text(ratio.low)}, {change_text(ratio.high)}]"
            return f"{effect.quantity.title} {change_text(ratio.value)} {interval}; "
    return ""


def null_text(null: Interval) -> str:
    """`+1.2 % [-0.4, +2.9] compared with a second server`."""
    low, high = change_text(null.low).removesuffix(" %"), change_text(null.high).removesuffix(" %")
    return f"{change_text(null.value)} [{low}, {high}] compared with a second server"


def percent(share: float) -> str:
    """`2.1 %`."""
    return f"{format_number(100 * share, 1)} %"


def change_text(ratio: float) -> str:
    """A ratio as a change: `+12.0 %`."""
    return f"{100 * (ratio - 1):+.1f} %" if math.isfinite(ratio) else "?"


def table(trial: Trial) -> Table:
    """The quantities and the layers of a trial."""
    effects = trial.effects
    rows = [row(effect) for effect in (effects.cost, *effects.others)]
    for layer in effects.layers:
        if max(layer.before, layer.changed) >= SMALLEST_LAYER * effects.cost.before:
            rows.append(row(layer, "  "))
    corrected = (
        f"; layers: us a {effects.unit}, intervals corrected for {len(effects.layers)} comparisons"
        if effects.layers
        else ""
    )
    return Table.of_texts(
        f"{trial.change}: {len(trial.windows)} windows in {effects.blocks} blocks, "
        f"paired [95 % interval]; processor time of {COUNTED[effects.counted]}{corrected}",
        ("", "unit", "before", "changed", "change", "interval", ""),
        tuple(rows),
        ("before", "changed", "change"),
    )


def row(effect: Effect, indent: str = "") -> tuple[str, ...]:
    """A row of the table."""
    ratio = effect.ratio
    interval = ""
    if ratio is not None and ratio.is_bounded:
        interval = f"[{change_text(ratio.low)}, {change_text(ratio.high)}]"
    shown = (
        effect.verdict.value
        if effect.verdict and effect.verdict is not CostVerdict.NOT_DISTINGUISHABLE
        else ""
    )
    return (
        indent + effect.quantity.title,
        effect.quantity.unit,
        amount(effect.before),
        amount(effect.changed),
        change_text(ratio.value) if ratio is not None else "",
        interval,
        shown,
    )


def amount(value: float) -> str:
    """A number with at least three digits."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def undone_lines(outcome: Outcome) -> Iterator[str]:
    """A line for each setting that the trial did not restore, or restored with a remark."""
    for setting in outcome.undone:
        detail = f" ({setting.detail})" if setting.detail else ""
        yield f"{setting.title}: {setting.outcome}{detail}"


def all_restored(outcome: Outcome) -> bool:
    """Whether every setting was restored, or kept by `--keep-if`."""
    good = (Restoration.RESTORED, Restoration.UNCHANGED, Restoration.KEPT)
    return all(setting.outcome in good for setting in outcome.undone)


def ratios_of(allocation: Allocation) -> dict[tuple[str, ...], Interval]:
    """For each effect of a factorial trial, the ratio of the cost with it to that without it."""
    # The effect is half the change of the cost's logarithm between the levels.
    return {
        effect: interval.map(lambda half: math.exp(2 * half))
        for effect, interval in allocation.effects.items()
        if effect
    }


def factorial_table(allocation: Allocation, unit: str) -> Table:
    """The effects of a factorial trial on the processor time per unit of work."""
    rows = [
        (
            " x ".join(effect),
            change_text(ratio.value),
            f"[{change_text(ratio.low)}, {change_text(ratio.high)}]",
            "*" if allocation.significant(effect) else "",
            percent(allocation.shares[effect]),
        )
        for effect, ratio in ratios_of(allocation).items()
    ]
    rows.append(
        (
            "difference of windows with the same settings",
            "",
            "",
            "",
            percent(allocation.error_share),
        )
    )
    return Table.of_texts(
        f"processor time a {unit}: each change, and the interaction of each pair of "
        "changes [95 % interval]; *: the interval excludes zero",
        ("change", "effect", "interval", "", "of the variation"),
        tuple(rows),
        ("effect", "of the variation"),
    )


def factorial_document(allocation: Allocation, unit: str) -> dict[str, object]:
    """The effects of a factorial trial as JSON, for programs."""
    return {
        "unit": unit,
        "error_share": allocation.error_share,
        "effects": [
            {"changes": list(effect), "ratio": ratio.as_dict(), "share": allocation.shares[effect]}
            for effect, ratio in ratios_of(allocation).items()
        ],
    }


def slope_lines(slope: Slope) -> Iterator[str]:
    """The effect of one nanosecond more per packet in a layer, in lines."""
    worth = slope.rate_change_per_ns
    largest = slope.amounts[-1]
    cost_ns = slope.ns_of_amount.map(lambda ns: ns * largest)
    yield f"{largest:,} {slope.what}: {cost_ns.text(0)} ns a packet in {slope.layer}, measured."
    yield (
        f"A nanosecond more a packet in {slope.layer} changes {slope.rate_title} by "
        f"{1e2 * worth.value:+.4f} % [{1e2 * worth.low:+.4f}, {1e2 * worth.high:+.4f}]."
    )
    if slope.p99_change_per_ns is not None:
        late = slope.p99_change_per_ns
        yield (
            f"It changes the 99th percentile of the response time by {1e2 * late.value:+.4f} % "
            f"[{1e2 * late.low:+.4f}, {1e2 * late.high:+.4f}]."
        )
    removed = slope.removal
    yield (
        f"Extrapolated, not measured: without the {slope.layer_ns:,.0f} ns per packet of "
        f"{slope.layer}, {slope.rate_title} would change by {100 * removed.value:+.1f} % "
        f"[{100 * removed.low:+.1f}, {100 * removed.high:+.1f}]."
    )


def document(outcome: Outcome) -> dict[str, object]:
    """The result of a trial as JSON, for programs."""
    from perpacket.advise.trial import allocation

    return {
        "schema": SCHEMA,
        "trials": [
            {
                "change": trial.change,
                "verdict": trial.effects.verdict.value,
                "decided": trial.is_decided,
                "kept": trial.kept or None,
                **effects_document(trial.effects),
                "notes": list(trial.notes),
                "windows": [asdict(window) for window in trial.windows],
            }
            for trial in outcome.trials
        ],
        "factorial": factorial_document(*allocation(outcome)) if outcome.combinations else None,
        "combinations": [asdict(window) for window in outcome.combinations],
        "changes": list(outcome.changes),
        "slope": None if outcome.slope is None else slope_document(outcome.slope),
        "notes": list(outcome.notes),
        "settings": [asdict(setting) for setting in outcome.undone],
        "interrupted": outcome.is_interrupted,
    }


def slope_document(slope: Slope) -> dict[str, object]:
    """The effect of one nanosecond more per packet in a layer, for programs."""
    late = slope.p99_change_per_ns
    return {
        "layer": slope.layer,
        "layer_ns": slope.layer_ns,
        "amounts": list(slope.amounts),
        "amount_unit": slope.what,
        "ns_of_amount": slope.ns_of_amount.as_dict(),
        "rate_change_per_ns": slope.rate_change_per_ns.as_dict(),
        "p99_change_per_ns": None if late is None else late.as_dict(),
        "rate_change_by_removal": slope.removal.as_dict(),
    }


def effects_document(effects: Effects) -> dict[str, object]:
    """The quantities of a trial as JSON, for programs."""
    return {
        "unit": effects.unit,
        "counted": effects.counted,
        "blocks": effects.blocks,
        "floor": effects.floor,
        "null": None if effects.null is None else effects.null.as_dict(),
        "blocks_for_2_percent": effects.blocks_for_goal,
        "quantities": effect_documents((effects.cost, *effects.others)),
        "layers": effect_documents(effects.layers),
    }


def effect_documents(effects: Sequence[Effect]) -> dict[str, object]:
    """Quantities by key."""
    return {
        item.quantity.key: {
            "title": item.quantity.title,
            "unit": item.quantity.unit,
            "before": item.before,
            "changed": item.changed,
            "ratio": item.ratio.as_dict() if item.ratio is not None else None,
            "verdict": item.verdict.value if item.verdict is not None else None,
        }
        for item in effects
    }


def wrapped(text: str, columns: int) -> list[str]:
    """A sentence in lines."""
    return wrap(text, columns, subsequent_indent="  ")
