"""The data in the page, as JSON that scripts of readers can extract."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from perpacket_lab.show import json as json_documents

if TYPE_CHECKING:
    import polars as pl

    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.published_comparison import Comparison

SCHEMA: Final = 1
"""Version of the layout: `study`, `observations`, `comparisons` and `timelines`."""

# With the drawings and tables, a page stays below 3 MB.
MOST_OBSERVATION_BYTES: Final = 900_000
MOST_TIMELINE_BYTES: Final = 250_000


def embedded(analysis: Analysis) -> tuple[str, list[str]]:
    """JSON for a script element, and sentences on the data that the JSON lacks."""
    left_out: list[str] = []
    content: dict[str, object] = {
        "schema": SCHEMA,
        "study": analysis.run.configuration.study,
        "observations": table_of(analysis.observations),
        "comparisons": [comparison_record(row) for row in analysis.comparisons],
        "timelines": {},
    }
    text = script_json(content)
    if len(text.encode()) > MOST_OBSERVATION_BYTES:
        content["observations"] = None
        left_out.append(
            "The data of all runs are too large for the page: see `observations/` of the run "
            "directory."
        )
    frames = {f"{point}.seed-{seed}": frame for (point, seed), frame in analysis.timelines.items()}
    step = _timeline_step(frames)
    content["timelines"] = {name: table_of(frame[::step]) for name, frame in frames.items()}
    if step > 1:
        left_out.append(f"The page has one in {step} instants of the timelines.")
    return script_json(content), left_out


def _timeline_step(frames: dict[str, pl.DataFrame]) -> int:
    """The smallest step between instants with which the timelines fit in the page."""
    whole = script_json({name: table_of(frame) for name, frame in frames.items()})
    return max(1, math.ceil(len(whole.encode()) / MOST_TIMELINE_BYTES))


def table_of(frame: pl.DataFrame) -> dict[str, object]:
    """A table as column names and rows of values; numbers that are not finite become null."""
    rows = [[_plain(value) for value in row] for row in frame.iter_rows()]
    return {"columns": frame.columns, "rows": rows}


def _plain(value: object) -> object:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def comparison_record(row: Comparison) -> dict[str, object]:
    """A published value and the run's. `value`, `min` and `max` are keys of the record itself."""
    record = json_documents.comparison(row, "simulated")
    bounds = record.pop("published")
    assert isinstance(bounds, dict)
    del record["configuration"]
    return {**record, **bounds, "statement": row.reference.statement}


def script_json(content: object) -> str:
    """JSON whose texts cannot end a script element or open a comment."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
