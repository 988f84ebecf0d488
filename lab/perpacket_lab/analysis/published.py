"""Published figures and how far a run agrees with them.

Only `judge` makes a verdict. If the run simulates the published machine, `judge` compares values. A
measurement is from another machine, twenty years later, so `judge` compares only its shares and
changes. The verdict on a change depends on its direction. The size of a change decides only whether
it is weaker or stronger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from perpacket.analysis.statistics import Interval, decimals_for, format_number
from perpacket_lab.study.published import Published


class Verdict(StrEnum):
    """The verdict on a published figure beside a run."""

    AGREES = "agrees"
    """The simulated interval overlaps the published value with its rounding."""
    DIFFERS = "differs"
    """A published value lies outside the simulated interval."""
    OUTSIDE = "outside"
    """The simulated interval lies outside published bounds."""
    NOT_SIMULATED = "not simulated"
    """The run has no observation of the figure's configuration."""
    SAME_DIRECTION = "same direction"
    """A change has the published direction, and is weaker or stronger."""
    OPPOSITE = "opposite direction"
    """A change has the opposite of the published direction."""
    UNDECIDED = "not distinguishable"
    """The interval of a change contains zero."""
    NOT_JUDGED = "not judged"
    """A value of another machine, beside that of the run; only the order of values is compared."""
    TOO_WIDE = "interval too wide"
    """The interval contains the published value, but is too wide to support it."""


MET = frozenset({Verdict.AGREES, Verdict.SAME_DIRECTION})
"""Verdicts of agreement."""

MISSED = frozenset({Verdict.DIFFERS, Verdict.OUTSIDE, Verdict.OPPOSITE})
"""Verdicts of disagreement."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row: a published figure beside its simulation.

    `simulated` has the unit of the published figure; None without a run. `difference` is simulated
    minus published. The difference of a percentage is in points (`difference_unit`). The difference
    of another figure is in per cent of the published value, or in the figure's own unit if that
    value is zero. For published bounds it is the distance beyond the bound, None inside the bounds.
    """

    published: Published
    configuration: str
    """The configuration in the simulator's shorthand."""
    simulated: Interval | None
    verdict: Verdict
    difference: float | None
    difference_unit: str
    warnings: tuple[str, ...] = ()
    title: str = ""
    """The quantity in words, as `Gain in requests`."""

    @property
    def is_judged(self) -> bool:
        """Whether the run has the quantity and a verdict on it."""
        return self.simulated is not None and self.verdict is not Verdict.NOT_JUDGED

    @property
    def simulated_text(self) -> str:
        """The simulated interval, with at most two decimals more than the published figure."""
        if self.simulated is None:
            return "-"
        step = self.published.resolution
        return (
            self.simulated.text(2 + decimals_for(step, digits=1)) if step else str(self.simulated)
        )

    @property
    def verdict_text(self) -> str:
        """`agrees`, `differs by +3.1 %`, `outside by 4.0 us` or `not simulated`."""
        if self.verdict is Verdict.SAME_DIRECTION and self.published.value is not None:
            return f"{self.verdict}, {'weaker' if self._is_weaker else 'stronger'}"
        if self.verdict not in (Verdict.DIFFERS, Verdict.OUTSIDE) or self.difference is None:
            return str(self.verdict)
        size = format_number(abs(self.difference), decimals_for(self.difference))
        sign = "+" if self.difference > 0 else "-"
        return f"{self.verdict} by {sign}{size} {self.difference_unit}"

    @property
    def _is_weaker(self) -> bool:
        """Whether a change is smaller than the published one."""
        own = abs(self.simulated.value) if self.simulated is not None else 0.0
        return own < abs(self.published.value or 0.0)


ABSOLUTE_UNITS = frozenset({"points", "tau"})
"""Units with absolute distances. A percentage of a percentage or of a rank correlation has no
meaning."""


def judge(
    published: Published,
    configuration: str,
    simulated: Interval | None,
    warnings: tuple[str, ...] = (),
    title: str = "",
) -> Comparison:
    """Compare a published figure with its interval in the run."""
    verdict, miss = _verdict(published, simulated)
    difference, unit = _difference(published, simulated, miss)
    return Comparison(
        published, configuration, simulated, verdict, difference, unit, warnings, title
    )


def _verdict(published: Published, simulated: Interval | None) -> tuple[Verdict, float | None]:
    """The verdict, and the distance beyond a published bound in the figure's unit."""
    if simulated is None:
        return Verdict.NOT_SIMULATED, None
    if published.judged != "value":
        is_change = published.judged == "direction"
        return _direction(published, simulated) if is_change else Verdict.NOT_JUDGED, None
    low, high = _ends(simulated)
    half = published.resolution / 2
    agrees = Verdict.TOO_WIDE if high - low > published.widest else Verdict.AGREES
    if published.value is not None:
        overlap = low <= published.value + half and published.value - half <= high
        return (agrees if overlap else Verdict.DIFFERS), None
    if published.minimum is not None and high < published.minimum - half:
        return Verdict.OUTSIDE, simulated.value - published.minimum
    if published.maximum is not None and low > published.maximum + half:
        return Verdict.OUTSIDE, simulated.value - published.maximum
    return agrees, None


def _direction(published: Published, simulated: Interval) -> Verdict:
    """The verdict on the direction of a change."""
    low, high = _ends(simulated)
    # Check for zero first: an interval that contains zero has no direction.
    if low <= 0 <= high:
        return Verdict.UNDECIDED
    if published.value is not None:
        half = published.resolution / 2
        if low <= published.value + half and published.value - half <= high:
            return Verdict.AGREES
    rises = published.value > 0 if published.value is not None else published.minimum is not None
    return Verdict.SAME_DIRECTION if (low > 0) == rises else Verdict.OPPOSITE


def _ends(simulated: Interval) -> tuple[float, float]:
    """The bounds of an interval; one run has no bounds, so its value counts."""
    if simulated.is_bounded:
        return simulated.low, simulated.high
    return simulated.value, simulated.value


def _difference(
    published: Published, simulated: Interval | None, miss: float | None
) -> tuple[float | None, str]:
    """The difference and its unit."""
    unit = "points" if published.unit.startswith("%") else published.unit
    if simulated is None:
        return None, unit
    if published.value is None:
        return miss, unit
    absolute = simulated.value - published.value
    if unit in ABSOLUTE_UNITS or published.value == 0:
        return absolute, unit
    return 100 * absolute / math.fabs(published.value), "%"
