"""One configuration of a study, with the levels of its factors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perpacket.errors import StudyError

Level = str | int | float
"""A value of a factor. All levels of a factor have one type, so that they are one column."""

POINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")
"""Allowed names of points, which are parts of file names."""

MOST_NAMED = 6
"""A message names at most this many points, and counts the others."""


@dataclass(frozen=True, slots=True)
class Point:
    """One configuration of a study with the levels of its factors.

    `name` is unique in the study. `overrides` are (parameter, value) pairs on top of the
    configuration. `against` is the name of the baseline; gains over it are paired by seed.
    """

    name: str
    configuration: str
    factors: Mapping[str, Level] = field(default_factory=dict)
    overrides: tuple[tuple[str, str], ...] = ()
    against: str | None = None
    timeline: bool = False
    """Whether to store the timeline of the first seed, in `raw/`."""


def check_points(study: str, points: tuple[Point, ...]) -> None:
    """Raise `StudyError` unless names are unique and usable and every `against` exists."""
    names = [point.name for point in points]
    if not points:
        raise StudyError(f"study {study} has no points: expected at least one")
    for point in points:
        if not POINT_NAME.fullmatch(point.name):
            raise StudyError(
                f"study {study}, point {point.name!r}: expected letters, digits and . _ = + -"
            )
        if names.count(point.name) > 1:
            raise StudyError(f"study {study} has two points {point.name!r}: names must differ")
        if point.against is not None and point.against not in names:
            raise StudyError(
                f"study {study}, point {point.name}: its baseline {point.against!r} is not a point"
            )
        if set(point.factors) != set(points[0].factors):
            raise StudyError(
                f"study {study}, point {point.name}: its factors differ from the first point's"
            )


def first_names(names: Sequence[str], most: int = MOST_NAMED, separator: str = ", ") -> str:
    """The first names, and how many more there are."""
    text = separator.join(names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text
