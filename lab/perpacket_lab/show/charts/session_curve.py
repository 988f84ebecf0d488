"""The shares of a trace's packets and bytes, by the share of its sessions (OSDI 2006, figure 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from perpacket_lab.analysis.terms import MEASURED
from perpacket_lab.show.charts import drawing
from perpacket_lab.show.charts.curve import SCHEMA, curve

STEP: Final = 5
"""The chart shows every fifth of the hundred points."""


def svg(
    name: str, points: Sequence[Mapping[str, float]], published: Mapping[int, float] | None = None
) -> str:
    """The curve of `traces.info(..., curve=True)["session_curve"]` as an SVG file.

    `published` are shares of the packets (%) by the share of the sessions (%, a multiple of 5).
    """
    marks = published or {}
    rows = [
        {
            "x": 100 * point["sessions"],
            "y": 100 * point[share],
            "series": share,
            "published": marks.get(round(100 * point["sessions"])) if share == "packets" else None,
            "calibrated": False,
        }
        for share in ("packets", "bytes")
        for point in points[::STEP]
    ]
    frame = pl.DataFrame(rows, schema=SCHEMA)
    half = next((point for point in points if point["sessions"] >= 0.5), None)
    description = (
        "the trace has no session"
        if half is None
        else f"The half of the sessions with the fewest packets has {half['packets']:.1%} of the "
        f"packets and {half['bytes']:.1%} of the bytes."
    )
    drawn = curve(
        frame,
        x_title="sessions with the fewest packets, %",
        y_title="their share, %",
        terms=MEASURED,
    )
    return drawing.standalone(drawn, title=f"Sessions of {name}", description=description)
