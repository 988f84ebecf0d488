"""The terms of simulated and of measured runs.

Replications are seeds in the one and blocks in the other. Only a simulation is calibrated, and only
a simulation returns the same numbers for the same seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perpacket.study.study import Study


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one kind of run."""

    adjective: str
    noun: str
    replication: str
    own_mark: str
    """Legend of the marks of the runs' own values."""
    held_out: str
    """Legend of the published values' marks."""
    agreeing: str
    """Label of the count of published values that agree."""
    interval: str
    """What an interval contains and what it does not."""
    again: str
    """What a second run of the same study returns."""
    nothing: str
    """The verdict where a run has no value."""
    is_measured: bool = False

    @property
    def replications(self) -> str:
        """More than one replication."""
        return f"{self.replication}s"

    @property
    def title(self) -> str:
        """The heading of a column of the runs' own values."""
        return self.adjective.capitalize()


SIMULATED: Final = Terms(
    adjective="simulated",
    noun="simulation",
    replication="seed",
    own_mark="simulated, with interval",
    held_out="paper, not used to calibrate",
    agreeing="published values not used to calibrate agree",
    interval="An interval is the spread over seeds. It does not contain the error of the model "
    "itself: the published values that were not used to calibrate show that.",
    again="The same seeds return the same numbers on every machine, with any number of workers.",
    nothing="not simulated",
)
MEASURED: Final = Terms(
    adjective="measured",
    noun="measurement",
    replication="block",
    own_mark="measured, with interval",
    held_out="paper",
    agreeing="published shares, changes and orders agree",
    interval="An interval is the spread over blocks on this machine. It does not contain other "
    "machines, kernels or testbeds.",
    again="The same seeds return the same order of runs and the same requests. The numbers are the "
    "machine's and differ within the intervals.",
    nothing="not measured",
    is_measured=True,
)


def terms_of(study: Study) -> Terms:
    """The terms of a study's runs."""
    return MEASURED if study.is_measured else SIMULATED
