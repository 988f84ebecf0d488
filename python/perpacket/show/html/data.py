"""The data that travel inside the page, as JSON that a script of the reader's own can take out."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from perpacket.analysis.published import Comparison
    from perpacket.run.directory import RunDirectory

SCHEMA: Final = 1
"""Version of the layout: `study`, `observations`, `comparisons` and `timelines`."""

# With the drawings and tables this keeps a page below 3 MB.
MOST_OBSERVATION_BYTES: Final = 900_000
MOST_TIMELINE_BYTES: Final = 250_000


def embedded(
    run_directory: RunDirectory,
    observations: pl.DataFrame,
    comparisons: Sequence[Comparison],
) -> tuple[str, list[str]]:
    """JSON fit to stand inside a script element, and what was left out of it, in sentences."""
    left_out: list[str] = []
    content: dict[str, object] = {
        "schema": SCHEMA,
        "study": run_directory.configuration.study,
        "observations": table_of(observations),
        "comparisons": [comparison_record(row) for row in comparisons],
        "timelines": {},
    }
    text = script_json(content)
    if len(text.encode()) > MOST_OBSERVATION_BYTES:
        content["observations"] = None
        left_out.append(
            "The runs are too many to travel inside this page: they are in `observations/` of the "
            "run directory."
        )
    frames = {
        f"{point}.seed-{seed}": run_directory.timeline(point, seed)
        for point, seed in run_directory.timelines()
    }
    step = _timeline_step(frames)
    content["timelines"] = {name: table_of(frame[::step]) for name, frame in frames.items()}
    if step > 1:
        left_out.append(f"Of the states over time, every {step}th instant travels in this page.")
    return script_json(content), left_out


def _timeline_step(frames: dict[str, pl.DataFrame]) -> int:
    """The smallest step between the instants to keep that makes the timelines fit."""
    whole = script_json({name: table_of(frame) for name, frame in frames.items()})
    return max(1, math.ceil(len(whole.encode()) / MOST_TIMELINE_BYTES))


def table_of(frame: pl.DataFrame) -> dict[str, object]:
    """A table by columns' names and rows of values; what is no finite number becomes null."""
    rows = [[_plain(value) for value in row] for row in frame.iter_rows()]
    return {"columns": frame.columns, "rows": rows}


def _plain(value: object) -> object:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def comparison_record(row: Comparison) -> dict[str, object]:
    """One row published / simulated with its numbers unrounded."""
    published = row.published
    return {
        "figure": published.figure,
        "where": published.where,
        "statement": published.statement,
        "point": published.point,
        "against": published.against,
        "quantity": published.quantity,
        "unit": published.unit,
        "value": published.value,
        "min": published.minimum,
        "max": published.maximum,
        "calibration": published.calibration,
        "simulated": row.simulated.as_dict() if row.simulated is not None else None,
        "verdict": str(row.verdict),
        "difference": row.difference,
        "difference_unit": row.difference_unit,
        "warnings": list(row.warnings),
    }


def script_json(content: object) -> str:
    """JSON in which no text can end a script element or open a comment."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
