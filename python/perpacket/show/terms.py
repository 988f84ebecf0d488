"""How a page speaks of its runs: simulated ones and measured ones ask for other words.

Nothing of a measurement is calibrated, its replications are blocks and not seeds, and no seed gives
the same numbers again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perpacket.study.study import Study


@dataclass(frozen=True, slots=True)
class Voice:
    """The words for one kind of run."""

    adjective: str
    noun: str
    replication: str
    mark: str
    """Legend of the marks of the runs' own values."""
    held_out: str
    """Legend of the published values' marks."""
    met: str
    """What is counted at the head of the page."""
    interval: str
    """What an interval holds and what it does not."""
    again: str
    """What running it again gives."""
    nothing: str
    """The verdict where there is nothing to compare."""
    is_measured: bool = False

    @property
    def replications(self) -> str:
        """More than one replication."""
        return f"{self.replication}s"

    @property
    def title(self) -> str:
        """The heading of a column of the runs' own values."""
        return self.adjective.capitalize()


SIMULATED: Final = Voice(
    adjective="simulated",
    noun="simulation",
    replication="seed",
    mark="simulated, with interval",
    held_out="paper, not used to calibrate",
    met="published values not used to calibrate agree",
    interval="An interval is the spread over seeds. It does not hold the error of the model "
    "itself: for that, look at the published values that were not used to calibrate.",
    again="The same seeds give the same numbers on every machine, whatever the number of workers.",
    nothing="not simulated",
)
MEASURED: Final = Voice(
    adjective="measured",
    noun="measurement",
    replication="block",
    mark="measured, with interval",
    held_out="paper",
    met="published shares, changes and orders are met",
    interval="An interval is the spread over blocks on this machine. Another machine, kernel or "
    "testbed lies outside of it.",
    again="The same seeds give the same order of runs and the same requests; the numbers are the "
    "machine's, and differ within the intervals.",
    nothing="cannot be told",
    is_measured=True,
)


def voice_of(study: Study) -> Voice:
    """The words for a study's runs."""
    return MEASURED if study.is_measured else SIMULATED
