"""Numbers that a document states, with the quantities of a run that they are compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

JudgedBy = Literal["value", "direction", "order"]
"""Whether the published value is compared, only the direction of a change, or only the order of the
regions. The value is then beside that of the run, without a verdict."""


TOLERANCE_PERCENT: Final = 25.0
"""The tolerance of a published value, unless its row has another."""


@dataclass(frozen=True, slots=True)
class Published:
    """One number that a document states, with the points and the quantity that it is compared with.

    It has a `value`, or a `minimum`, a `maximum` or both, in `unit`. `resolution` is the step of
    the last printed digit. `point` is the name of the study's point, and `against` that of the
    baseline of a gain or ratio.
    """

    figure: str
    """Identifier of the number, as `osdi06/51-PN-rate`."""
    where: str
    """The section, table or figure of the document, such as `Figure 5`."""
    statement: str
    point: str
    quantity: str
    """Name of the quantity, as `request_rate`: see `perpacket_lab.study.quantities`."""
    unit: str
    value: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    resolution: float = 0.0
    against: str | None = None
    calibration: bool = False
    """Whether the simulator may be calibrated on this number.

    Agreement then shows a fit and predicts nothing.
    """
    note: str = ""
    judged: JudgedBy = "value"
    conclusion: str = ""
    """The conclusion of the document that the number supports, if the study tests one."""
    widest: float = math.inf
    """An interval wider than this, in `unit`, agrees with no value."""
    tolerance: float = TOLERANCE_PERCENT
    """The largest distance (% of the value) at which the value holds."""
    among: tuple[str, ...] = ()
    """The points of which `point` is one. The value is an extreme that the document's points
    reached, so it is compared with the highest of these, or the lowest if the value is negative."""

    @property
    def text(self) -> str:
        """The published number in words and digits: `26,663`, `at most 10`, `6 to 10`."""
        if self.value is not None:
            return number_text(self.value)
        if self.minimum is not None and self.maximum is not None:
            return f"{number_text(self.minimum)} to {number_text(self.maximum)}"
        if self.minimum is not None:
            return f"at least {number_text(self.minimum)}"
        if self.maximum is not None:
            return f"at most {number_text(self.maximum)}"
        return "not stated"


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """A table or figure of a document, with what a study shows of it."""

    name: str
    """A name such as `Figure 5`. The published numbers with this name in `where` belong to it."""
    title: str
    """What the table or figure shows, in other words than the document's."""
    charts: tuple[str, ...] = ()
    """The titles of the study's charts that show the same."""
    reason: str = ""
    """The reason why the study shows nothing of it, or only a part."""


def number_text(number: float) -> str:
    """A published number with the decimals that the document prints."""
    return f"{number:,.0f}" if number == int(number) else f"{number:,}"
