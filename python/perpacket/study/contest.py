"""A comparison of competitors along a factor, as a study asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perpacket.study.point import Level


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared: a quantity of competitors (levels of one factor) along another factor."""

    title: str
    competitor: str
    along: str
    quantity: str
    """Name of a quantity of the study."""
    where: Mapping[str, Level] = field(default_factory=dict)
    """Levels of other factors that the points compared have."""
    lower_wins: bool = False
    along_title: str = ""
    """The axis in words, with its unit; the factor's name where empty."""
