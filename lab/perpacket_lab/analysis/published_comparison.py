"""Published figures and how far a run agrees with them.

If the run simulates the published machine, `compare` compares values. A measurement is from another
machine, twenty years later, so `compare` compares only its shares and changes. The verdict on a
change depends on its direction. The size of a change decides only whether it is weaker or stronger.

Two verdicts stand beside each other. The strict one asks whether the interval contains the
published value; a narrow interval then fails at a difference of 1 %. The standing asks whether the
value holds within its tolerance, and prints the difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from perpacket.analysis.claim import MET, MISSED, Claim, Relation, Verdict, judge
from perpacket.analysis.statistics import Interval, decimals_for, format_number
from perpacket_lab.study.published import Published


class Standing(StrEnum):
    """Whether a published value holds in a run, within its tolerance."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    """A change has the published direction and another size."""
    FAILS = "does not hold"
    UNTESTED = "cannot be tested here"
    """The run has no value, or an interval wider than twice the tolerance."""


ABSOLUTE_UNITS = frozenset({"points", "tau"})
"""Units with absolute distances. A percentage of a percentage or of a rank correlation has no
meaning."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The value of the run minus the published one.

    The distance of a percentage is in points. The distance of another figure is in per cent of the
    published value, or in the figure's own unit if that value is zero. For published bounds it is
    the distance beyond the bound, None inside the bounds.
    """

    size: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Comparison(Claim[Distance]):
    """A published figure beside the value of the run, in the unit of the figure.

    `subject` is the point, `quantity` the title of the quantity, as `Gain in requests`.
    """

    reference: Published
    configuration: str
    """The configuration in the simulator's shorthand."""
    warnings: tuple[str, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether the run has the quantity and a verdict on it."""
        return self.value is not None and self.verdict is not Verdict.NOT_JUDGED

    @property
    def standing(self) -> Standing:
        """Whether the published value holds within its tolerance."""
        published = self.reference
        if self.value is None or self.verdict in (Verdict.NO_VALUE, Verdict.NOT_JUDGED):
            return Standing.UNTESTED
        if published.value is None:
            if self.verdict in MET:
                return Standing.HOLDS
            return Standing.FAILS if self.verdict in MISSED else Standing.UNTESTED
        most = max(published.tolerance / 100 * abs(published.value), published.resolution / 2)
        difference = self.value.map(lambda own: own - (published.value or 0.0))
        size = judge(difference, Relation.DIFFERENCE, floor=most, widest=2 * most)
        if size in (Verdict.SAME, Verdict.NOT_DISTINGUISHABLE):
            return Standing.HOLDS
        if published.against is not None and self._has_direction:
            return Standing.IN_PART
        return Standing.FAILS if size.is_shown else Standing.UNTESTED

    @property
    def _has_direction(self) -> bool:
        """Whether the interval shows a change in the published direction."""
        shown = judge(self.value, Relation.DIFFERENCE)
        return shown is (Verdict.HIGHER if (self.reference.value or 0.0) > 0 else Verdict.LOWER)

    @property
    def difference_text(self) -> str:
        """`+3.1 %`, or the distance beyond a bound; empty within bounds or without a value."""
        if self.detail.size is None or self.verdict is Verdict.NOT_JUDGED:
            return ""
        size = format_number(abs(self.detail.size), decimals_for(self.detail.size))
        return f"{'+' if self.detail.size > 0 else '-'}{size} {self.detail.unit}"

    @property
    def text(self) -> str:
        """The simulated interval, with at most two decimals more than the published figure."""
        if self.value is None:
            return "-"
        step = self.reference.resolution
        return self.value.text(2 + decimals_for(step, digits=1)) if step else str(self.value)

    @property
    def strict_text(self) -> str:
        """The strict verdict without the difference: `agrees`, `same direction, weaker`."""
        return self.verdict_text.partition(" by ")[0]

    @property
    def verdict_text(self) -> str:
        """`agrees`, `differs by +3.1 %`, `outside by 4.0 us` or `not simulated`."""
        if self.verdict is Verdict.SAME_DIRECTION and self.reference.value is not None:
            return f"{self.verdict}, {'weaker' if self._is_weaker else 'stronger'}"
        if self.verdict not in (Verdict.DIFFERS, Verdict.OUTSIDE) or self.detail.size is None:
            return str(self.verdict)
        return f"{self.verdict} by {self.difference_text}"

    @property
    def _is_weaker(self) -> bool:
        """Whether a change is smaller than the published one."""
        own = abs(self.value.value) if self.value is not None else 0.0
        return own < abs(self.reference.value or 0.0)


def compare(
    published: Published,
    configuration: str,
    value: Interval | None,
    warnings: tuple[str, ...] = (),
    title: str = "",
) -> Comparison:
    """Compare a published figure with its interval in the run."""
    verdict, miss = _verdict(published, value)
    is_change = published.judged == "direction"
    return Comparison(
        published.point,
        title,
        published.unit,
        value,
        published,
        Relation.DIFFERENCE if is_change else Relation.ITSELF,
        verdict,
        "; ".join(warnings),
        Distance(*_difference(published, value, miss)),
        configuration,
        warnings,
    )


def _verdict(published: Published, value: Interval | None) -> tuple[Verdict, float | None]:
    """The verdict, and the distance beyond a published bound in the figure's unit."""
    if value is None:
        return Verdict.NO_VALUE, None
    if published.judged != "value":
        is_change = published.judged == "direction"
        return _direction(published, value) if is_change else Verdict.NOT_JUDGED, None
    low, high = _ends(value)
    half = published.resolution / 2
    agrees = Verdict.TOO_WIDE if high - low > published.widest else Verdict.AGREES
    if published.value is not None:
        overlap = low <= published.value + half and published.value - half <= high
        return (agrees if overlap else Verdict.DIFFERS), None
    if published.minimum is not None and high < published.minimum - half:
        return Verdict.OUTSIDE, value.value - published.minimum
    if published.maximum is not None and low > published.maximum + half:
        return Verdict.OUTSIDE, value.value - published.maximum
    return agrees, None


def _direction(published: Published, value: Interval) -> Verdict:
    """The verdict on the direction of a change."""
    # Judge the direction first: an interval that contains zero has none.
    shown = judge(value, Relation.DIFFERENCE)
    if not shown.is_shown:
        return shown
    low, high = _ends(value)
    if published.value is not None:
        half = published.resolution / 2
        if low <= published.value + half and published.value - half <= high:
            return Verdict.AGREES
    rises = published.value > 0 if published.value is not None else published.minimum is not None
    return Verdict.SAME_DIRECTION if (shown is Verdict.HIGHER) == rises else Verdict.OPPOSITE


def _ends(value: Interval) -> tuple[float, float]:
    """The bounds of an interval; one run has no bounds, so its value counts."""
    if value.is_bounded:
        return value.low, value.high
    return value.value, value.value


def _difference(
    published: Published, value: Interval | None, miss: float | None
) -> tuple[float | None, str]:
    """The difference and its unit."""
    unit = "points" if published.unit.startswith("%") else published.unit
    if value is None:
        return None, unit
    if published.value is None:
        return miss, unit
    absolute = value.value - published.value
    if unit in ABSOLUTE_UNITS or published.value == 0:
        return absolute, unit
    return 100 * absolute / math.fabs(published.value), "%"
