"""Advice as lines of text and as a JSON document."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from perpacket.advise.limit_kinds import What

if TYPE_CHECKING:
    from perpacket.advise.advice import Advice, NotApplicable, Report
    from perpacket.advise.bounds import Bound
    from perpacket.advise.catalogue import Publication
    from perpacket.advise.limit_kinds import Limit
    from perpacket.analysis.statistics import Interval

SCHEMA = 1
"""Version of the JSON document."""

INDENT = "     "


def lines(report: Report, columns: int) -> Iterator[str]:
    """The changes that apply, then those that do not, wrapped at a width."""
    if report.limit is not None:
        yield from textwrap.wrap(limit_line(report.limit), columns, break_on_hyphens=False)
    for text in (headline(report), *sources(report), *kinds(report)):
        yield from textwrap.wrap(text, columns, break_on_hyphens=False)
    yield ""
    readable = [change for change in report.not_applicable if not change.is_unread]
    unread = [change for change in report.not_applicable if change.is_unread]
    if report.advice:
        elsewhere = report.limit is not None and report.limit.is_elsewhere
        yield (
            "These save processor time only, the largest first:"
            if elsewhere
            else "Worth trying, the most promising first:"
        )
    elif readable:
        rest = f"; {len(unread)} could not be judged" if unread else ""
        yield f"No change of the catalogue that was judged is worth trying here{rest}."
    else:
        yield "No change was judged."
    for place, advice in enumerate(report.advice, 1):
        yield ""
        yield from entry(place, advice, columns)
    named = [change for change in unread if change.source] if report.files else []
    others = [change for change in unread if change not in named]
    for title, rows, written in (
        ("Do not apply:", readable, reasons),
        ("Missing facts, and the changes that each would decide:", named, missing),
        ("Not judged, because something could not be read:", others, reasons),
    ):
        if rows:
            yield ""
            yield title
            yield from written(rows, columns)


MEANINGS = {
    "crypto": "encryption uses {share} of processor time, which no setting of the network "
    "removes: it costs a time for each byte",
    "dma": "mapping memory for devices (DMA, IOMMU) uses {share} of processor time",
    "probe": "BPF programs and probes use {share} of processor time",
}
"""A sentence for each kind of work with a row of its own."""


def kinds(report: Report) -> Iterator[str]:
    """What encryption, DMA and probes cost, if it is much."""
    for kind, share in report.kinds.items():
        text = MEANINGS[kind].format(share=f"{100 * share:.0f} %")
        yield f"Of this, {text}."


def sources(report: Report) -> Iterator[str]:
    """The files of another machine, with what was recognized in each."""
    if report.files:
        read = "; ".join(f"{name}: {found}" for name, found in report.files)
        yield f"Read: {read}."
    if report.unknown:
        yield f"Not recognized: {', '.join(report.unknown)}."


def missing(rows: Sequence[NotApplicable], columns: int) -> Iterator[str]:
    """The lines of each command or file that nobody sent, with the changes that it would decide."""
    by_source: dict[str, list[str]] = {}
    for row in rows:
        by_source.setdefault(row.source, []).append(label(row))
    for source, names in sorted(by_source.items(), key=lambda item: -len(item[1])):
        yield from textwrap.wrap(
            f"{source}: {', '.join(names)}",
            columns,
            initial_indent="  ",
            subsequent_indent=INDENT,
            break_on_hyphens=False,
        )


def limit_line(limit: Limit) -> str:
    """What limits the traffic, and whether cheaper packets raise the limit."""
    if limit.is_elsewhere:
        return f"No change of the network helps. The limit: {limit.text}."
    if limit.what is not What.NOTHING:
        return f"The limit: {limit.text}."
    return f"The limit: {limit.text}. Cheaper packets save processor time, and do not raise it."


def reasons(rows: Sequence[NotApplicable], columns: int) -> Iterator[str]:
    """The lines of each reason, with the changes that have it."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(label(row))
    for reason, names in by_reason.items():
        yield from textwrap.wrap(
            f"{', '.join(names)}: {reason}",
            columns,
            initial_indent="  ",
            subsequent_indent=INDENT,
            break_on_hyphens=False,
        )


def headline(report: Report) -> str:
    """A line such as `5.0 s of nginx on eth0: 1,204 samples, 62 % of them on the packet's path`."""
    if not report.samples:
        return "There is no profile: only counters and settings were judged. Nothing was changed."
    server = f" of {report.server}" if report.server else ""
    length = f"{report.window_s:.1f} s" if report.window_s else "Stacks without times"
    places = ", ".join(report.interfaces) or "no interface with packets"
    return (
        f"{length}{server} on {places}: {report.samples:,} samples, "
        f"{100 * report.path_share:.0f} % of them on the packet's path. Shares are of these. "
        "Nothing was changed."
    )


def label(row: Advice | NotApplicable) -> str:
    """The name of a change, with its interface."""
    return row.change.name + (f" ({row.interface})" if row.interface else "")


def entry(place: int, advice: Advice, columns: int) -> Iterator[str]:
    """The lines of a change that applies."""
    yield f"{place:>3}. {advice.change.name}={advice.value}: {advice.change.title}"
    parts = (
        f"{sentence(advice.evidence)}",
        f"{sentence(bound_text(advice))}",
        f"Risk: {advice.risk}",
        f"Published: {published(advice.change.source)}.",
    )
    for part in parts:
        yield from textwrap.wrap(
            part, columns, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
        )
    if advice.command:
        verb = "price it" if advice.change.action == "advise" else "try it"
        yield f"{INDENT}{verb}: {advice.command}"
    elif advice.change.action == "advise":
        yield f"{INDENT}perpacket never applies this change."


def published(source: Publication) -> str:
    """The published magnitude with its source."""
    return f"{source.figure or 'no magnitude'} ({source.title})"


def sentence(text: str) -> str:
    """A text with a full stop, and a capital letter unless it begins with a name."""
    first = text.split(" ", 1)[0]
    is_name = first in ("nginx", "serve", "bbr", "cubic", "reno") or re.search(r"\d", first)
    capital = text if is_name else text[:1].upper() + text[1:]
    return capital.rstrip(".") + "."


def bound_text(advice: Advice) -> str:
    """`at most 11 % [8, 14] of processor time; where the processor is the limit, ...`."""
    if advice.bound is None:
        return f"no bound: {advice.no_bound}"
    gain = 100 * advice.bound.gain.value
    basis = f": {advice.bound.basis}" if advice.bound.basis else ""
    return (
        f"at most {percent(advice.bound.share)} of processor time; where the processor is the "
        f"limit, at most {gain:.{0 if gain >= 10 else 1}f} % more work{basis}"
    )


def percent(share: Interval) -> str:
    """A share with its interval, such as `11 % [8, 14]`."""
    decimals = 0 if share.value >= 0.1 else 1
    value, low, high = (
        f"{100 * number:.{decimals}f}" for number in (share.value, share.low, share.high)
    )
    return f"{value} % [{low}, {high}]"


def next_line(report: Report) -> str:
    """A line with the change to try next; empty if none can be tried."""
    next_try = report.to_try
    if next_try is None:
        return ""
    most = (
        ""
        if next_try.bound is None
        else f", at most {percent(next_try.bound.share)} of processor time"
    )
    place = f" on {next_try.interface}" if next_try.interface else ""
    return (
        f"next: {next_try.change.name}={next_try.value}{place}{most} (`perpacket advise` for more)"
    )


def document(report: Report) -> dict[str, object]:
    """Advice as JSON."""
    return {
        "schema": SCHEMA,
        "window_s": report.window_s,
        "samples": report.samples,
        "path_share": report.path_share,
        "limit": None if report.limit is None else asdict(report.limit),
        "interfaces": list(report.interfaces),
        "server": report.server or None,
        "advice": [_advice(advice) for advice in report.advice],
        "not_applicable": [
            {
                "change": change.change.name,
                "interface": change.interface or None,
                "reason": change.reason,
                "unread": change.is_unread,
                "source": change.source or None,
            }
            for change in report.not_applicable
        ],
        "kinds": dict(report.kinds),
        "files": dict(report.files),
        "not_recognized": list(report.unknown),
        "limits": list(report.notes),
    }


def _advice(advice: Advice) -> dict[str, object]:
    return {
        "change": advice.change.name,
        "value": advice.value,
        "title": advice.change.title,
        "mechanism": advice.change.mechanism,
        "interface": advice.interface or None,
        "applied_by_trial": advice.change.action == "try",
        "evidence": advice.evidence,
        "bound": None if advice.bound is None else _bound(advice.bound),
        "no_bound": advice.no_bound or None,
        "risk": advice.risk,
        "needs_root": advice.change.needs.root,
        "command": advice.command or None,
        "source": {
            "title": advice.change.source.title,
            "figure": advice.change.source.figure or None,
        },
    }


def _bound(bound: Bound) -> dict[str, object]:
    found: dict[str, object] = {"share": bound.share.as_dict(), "gain": bound.gain.as_dict()}
    return {**found, "basis": bound.basis} if bound.basis else found
