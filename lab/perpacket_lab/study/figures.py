"""The figures and contests of a study's file, and the default figures of a file without any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from perpacket.errors import ConfigurationError
from perpacket_lab.study.contest import Contest
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.file import ContestTable, FigureTable, Kind, StudyFile
from perpacket_lab.study.point import Point
from perpacket_lab.study.points import WORD, inserted
from perpacket_lab.study.quantities import is_column

Words = Mapping[str, object]
"""The values of `{word}` in one figure."""


def figures_of(file: StudyFile) -> tuple[Figure, ...]:
    """The figures that the file describes, in its order."""
    return tuple(Figure(**values) for table in file.figure for values in _filled(file, table))


def contests_of(file: StudyFile) -> tuple[Contest, ...]:
    """The contests that the file describes, in its order."""
    return tuple(Contest(**values) for table in file.contest for values in _filled(file, table))


def _filled(file: StudyFile, table: FigureTable | ContestTable) -> Iterator[dict[str, Any]]:
    """The table's values with words inserted, for each combination of entries of its lists.

    The first list varies slowest. Raises `ConfigurationError` naming a list that does not exist.
    """
    for name in table.each:
        if name not in file.lists:
            raise ConfigurationError(
                f"{table.title}: each: no list {name!r}; there are {', '.join(file.lists)}"
            )
    for entries in product(*(file.lists[name] for name in table.each)):
        words = {key: value for entry in entries for key, value in entry.items()}
        values = {name: getattr(table, name) for name in type(table).model_fields if name != "each"}
        if isinstance(values.get("y"), list):
            values["y"] = ",".join(values["y"])
        yield {name: _value(value, words) for name, value in values.items()}


def _value(value: object, words: Words) -> object:
    """The value with words inserted. A text that is only `{word}` becomes the word's value."""
    if isinstance(value, dict):
        return {name: _value(level, words) for name, level in value.items()}
    if not isinstance(value, str):
        return value
    whole = WORD.fullmatch(value)
    if whole and whole[1] in words:
        return _value(words[whole[1]], {})
    return inserted(value, words)


LAWS = "By LAWS, which assumes a NIC that is never the limit and a handoff without cost."

COSTS = {
    "simulated": ("cycles_per_packet", "host cycles per packet"),
    "measured": ("cpu_ns_per_segment", "processor time per segment (ns; sent and received)"),
}
"""The cost of a layer, and the title of its axis."""

EFFECTS = (
    "Half the change from the lower to the upper level, with its interval. In a fractional design, "
    "a bar is the sum of confounded effects; the table of effects names them."
)


def default_figures(
    kind: Kind, points: Sequence[Point], summary: Sequence[str]
) -> tuple[Figure, ...]:
    """For each factor, a figure of the first quantity and a figure of the cost by layer.

    The other factors are at their first level. A measured study also has the upper bound of the
    gain by offload.
    """
    columns = [name for name in summary if is_column(kind, name)][:1]
    cost, cost_title = COSTS[kind]
    first = points[0].factors
    figures = []
    for factor in first:
        where = {name: level for name, level in first.items() if name != factor}
        fixed = ", ".join(f"{name} {level}" for name, level in where.items())
        along = f"along {factor}: {fixed}" if fixed else f"along {factor}"
        figures += [
            Figure("curve", f"{name} {along}", factor, name, None, where, factor, name)
            for name in columns
        ]
        title = f"Cost by layer {along}"
        figures.append(
            Figure("stacked-layers", title, factor, cost, None, where, factor, cost_title)
        )
    if kind == "measured":
        figures.append(
            Figure("laws", "Upper bound of the gain by offload", "", "share", caption=LAWS)
        )
    return tuple(figure for figure in figures if figure.has_enough(tuple(points)))


def effect_figures(summary: Sequence[str]) -> tuple[Figure, ...]:
    """The effects of a two-level design on each quantity."""
    return tuple(
        Figure("effects", f"Effects on {name}", "", name, caption=EFFECTS) for name in summary
    )
