"""The terms of simulated, measured and emulated runs.

Replications are seeds in a simulation, blocks in a measurement and variants in an emulation. Only a
simulation is calibrated, and only a measurement returns other numbers for the same seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perpacket_lab.study.study import Study


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one kind of run."""

    adjective: str
    noun: str
    replication: str
    own_legend: str
    """The legend of values of the run."""
    published_legend: str
    """The legend of published values."""
    agreeing: str
    """Label of the count of published values that agree."""
    interval: str
    """A sentence on what an interval contains."""
    repetition: str
    """A sentence on the numbers of a second run of the same study."""
    no_value: str
    """The verdict where a run has no value."""
    is_calibrated: bool = False
    """Whether some published values were used to calibrate. If none were, published changes are
    compared by their direction."""

    @property
    def replications(self) -> str:
        """The plural of `replication`."""
        return f"{self.replication}s"

    @property
    def title(self) -> str:
        """The heading of the column with values of the run."""
        return self.adjective.capitalize()


SIMULATED: Final = Terms(
    adjective="simulated",
    noun="simulation",
    replication="seed",
    own_legend="simulated, with interval",
    published_legend="paper, not used to calibrate",
    agreeing="published values not used to calibrate agree",
    interval="An interval is the spread over seeds. It does not contain the error of the model. "
    "The published values that were not used to calibrate show that error.",
    repetition="The same seeds return the same numbers on every machine, with any number of "
    "workers.",
    no_value="not simulated",
    is_calibrated=True,
)
MEASURED: Final = Terms(
    adjective="measured",
    noun="measurement",
    replication="block",
    own_legend="measured, with interval",
    published_legend="paper",
    agreeing="published shares, changes and orders agree",
    interval="An interval is the spread over blocks on this machine. It does not contain the "
    "differences between machines, kernels or testbeds.",
    repetition="The same seeds return the same order of runs and the same requests. The numbers "
    "depend on the machine and differ within the intervals.",
    no_value="not measured",
)
EMULATED: Final = Terms(
    adjective="emulated",
    noun="emulation",
    replication="variant",
    own_legend="emulated, with interval",
    published_legend="paper",
    agreeing="published shares, changes and orders agree",
    interval="An interval is the spread over variants of phase, layout and seed. It does not "
    "contain the differences between the modelled caches and those of a processor.",
    repetition="The same seeds and the same prepared machine return the same numbers, under any "
    "load and with any number of workers.",
    no_value="not emulated",
)


def terms_of(study: Study) -> Terms:
    """The terms of a study's runs."""
    if study.is_emulated:
        return EMULATED
    return MEASURED if study.is_measured else SIMULATED
