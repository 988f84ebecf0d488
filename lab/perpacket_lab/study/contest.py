"""The definition of a contest: competitors compared along a factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perpacket_lab.study.point import Level


@dataclass(frozen=True, slots=True)
class Contest:
    """Competitors (the levels of one factor), compared in a quantity along another factor."""

    title: str
    competitor: str
    along: str
    quantity: str
    """Name of a quantity of the study."""
    where: Mapping[str, Level] = field(default_factory=dict)
    """The levels of other factors at the compared points."""
    lower_wins: bool = False
    along_title: str = ""
    """The axis in words, with its unit; if empty, the factor's name."""
