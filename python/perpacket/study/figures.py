"""The figures and contests of a study's file, and the default figures of a file without any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from perpacket.errors import ConfigurationError
from perpacket.study.contest import Contest
from perpacket.study.figure import Figure
from perpacket.study.file import ContestTable, FigureTable, Kind, StudyFile
from perpacket.study.point import Level, Point
from perpacket.study.points import WORD, inserted
from perpacket.study.quantities import is_column

Words = Mapping[str, object]
"""The values of `{word}` in one figure."""


def figures_of(file: StudyFile) -> tuple[Figure, ...]:
    """The figures that the file describes, in its order."""
    found = []
    for table in file.figure:
        y = table.y if isinstance(table.y, str) else ",".join(table.y)
        for words in _every(file, table):
            found.append(
                Figure(
                    kind=table.kind,
                    title=inserted(table.title, words),
                    x=inserted(table.x, words),
                    y=inserted(y, words),
                    series=None if table.series is None else inserted(table.series, words),
                    where=_where(table.where, words),
                    x_title=inserted(table.x_title, words),
                    y_title=inserted(table.y_title, words),
                    caption=inserted(table.caption, words),
                )
            )
    return tuple(found)


def contests_of(file: StudyFile) -> tuple[Contest, ...]:
    """The contests that the file describes, in its order."""
    return tuple(
        Contest(
            title=inserted(table.title, words),
            competitor=table.competitor,
            along=inserted(table.along, words),
            quantity=inserted(table.quantity, words),
            where=_where(table.where, words),
            lower_wins=bool(_value(table.lower_wins, words)),
            along_title=inserted(table.along_title, words),
        )
        for table in file.contest
        for words in _every(file, table)
    )


def _every(file: StudyFile, table: FigureTable | ContestTable) -> Iterator[Words]:
    """The words of each combination of the entries of a table's lists; the first varies slowest."""
    for name in table.each:
        if name not in file.lists:
            raise ConfigurationError(
                f"{table.title}: each: no list {name!r}; there are {', '.join(file.lists)}"
            )
    for entries in product(*(file.lists[name] for name in table.each)):
        yield {key: value for entry in entries for key, value in entry.items()}


def _where(where: object, words: Words) -> dict[str, Level]:
    found = _value(where, words)
    assert isinstance(found, dict)
    return {name: _value(level, words) for name, level in found.items()}  # type: ignore[misc]


def _value(value: object, words: Words) -> object:
    """The value, or the entry of a text that is one `{word}`, with the entry's type."""
    if not isinstance(value, str):
        return value
    whole = WORD.fullmatch(value)
    return words[whole[1]] if whole and whole[1] in words else inserted(value, words)


LAWS = "By LAWS, which assumes a NIC that never limits and a hand-over that costs nothing."

COSTS = {
    "simulated": ("cycles_per_packet", "host cycles per packet"),
    "measured": ("cpu_ns_per_segment", "processor time per segment (ns; sent and received)"),
}
"""The cost of a layer, and the title of its axis."""

EFFECTS = (
    "Half the change from the lower to the upper level, with its interval. In a fraction of a "
    "design a bar is the sum of the effects that are confounded: the table of effects names them."
)


def usual_figures(
    kind: Kind, points: Sequence[Point], summary: Sequence[str]
) -> tuple[Figure, ...]:
    """For each factor a figure of the first quantity and one of the cost by layer.

    The other factors are at their first level. A measured study also draws what offload could
    gain.
    """
    columns = [name for name in summary if is_column(kind, name)][:1]
    cost, cost_title = COSTS[kind]
    first = points[0].factors
    found = []
    for factor in first:
        where = {name: level for name, level in first.items() if name != factor}
        fixed = ", ".join(f"{name} {level}" for name, level in where.items())
        along = f"along {factor}: {fixed}" if fixed else f"along {factor}"
        found += [
            Figure("curve", f"{name} {along}", factor, name, None, where, factor, name)
            for name in columns
        ]
        title = f"Cost by layer {along}"
        found.append(Figure("stacked-layers", title, factor, cost, None, where, factor, cost_title))
    if kind == "measured":
        found.append(Figure("laws", "What offload could gain at most", "", "share", caption=LAWS))
    return tuple(figure for figure in found if figure.has_enough(tuple(points)))


def effect_figures(summary: Sequence[str]) -> tuple[Figure, ...]:
    """The effects of a two-level design on each quantity."""
    return tuple(
        Figure("effects", f"Effects on {name}", "", name, caption=EFFECTS) for name in summary
    )
