"""The cost of every packet of a server, layer by layer, and changes that reduce it.

An example:

    import perpacket
    profile = perpacket.profile(duration_s=5)
    print(profile.table())
    print(perpacket.advise().table())

`profile`, `advise`, `trial` and `compare` need only the agent. `simulate`, `emulate` and
`run_study` need the lab: `pip install 'perpacket[lab]'`. Every result has `table()`, `plot()`,
`to_polars()` and `to_json()`, and notebooks display it. `perpacket.instruments` has a function for
each instrument of the agent.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpacket.advise.trial import Plan as TrialPlan
    from perpacket.api import advise, compare, profile, trial
    from perpacket.results import (
        AdviceResult,
        MeasuredProfile,
        ProfileDifference,
        Result,
        TrialResult,
        read_profile,
    )
    from perpacket_lab.api import emulate, open_run, run_study, simulate
    from perpacket_lab.emulate.settings import Settings as EmulationSettings
    from perpacket_lab.show.notebook.emulated import EmulatedRun
    from perpacket_lab.show.notebook.simulated import SimulatedRun
    from perpacket_lab.show.notebook.study_results import RunDifference, StudyRun
    from perpacket_lab.simulation import Simulation

    __version__: str

__all__ = [
    "AdviceResult",
    "EmulatedRun",
    "EmulationSettings",
    "MeasuredProfile",
    "ProfileDifference",
    "Result",
    "RunDifference",
    "SimulatedRun",
    "Simulation",
    "StudyRun",
    "TrialPlan",
    "TrialResult",
    "__version__",
    "advise",
    "compare",
    "emulate",
    "open_run",
    "profile",
    "read_profile",
    "run_study",
    "simulate",
    "trial",
]

_OF_THIS_FLOOR = {
    "AdviceResult": "results",
    "MeasuredProfile": "results",
    "ProfileDifference": "results",
    "Result": "results",
    "TrialPlan": "advise.trial:Plan",
    "TrialResult": "results",
    "advise": "api",
    "compare": "api",
    "profile": "api",
    "read_profile": "results",
    "trial": "api",
}
"""The module of each public name; after a colon, its name there."""

_OF_THE_LAB = {
    "EmulatedRun": "show.notebook.emulated",
    "EmulationSettings": "emulate.settings:Settings",
    "RunDifference": "show.notebook.study_results",
    "SimulatedRun": "show.notebook.simulated",
    "Simulation": "simulation",
    "StudyRun": "show.notebook.study_results",
    "emulate": "api",
    "open_run": "api",
    "run_study": "api",
    "simulate": "api",
}
"""The module of the lab that has each public name."""


def __getattr__(name: str) -> object:
    """Load public names and the version at their first use, so that help is fast."""
    from importlib import import_module

    if name in _OF_THIS_FLOOR:
        module, _, own = _OF_THIS_FLOOR[name].partition(":")
        value: object = getattr(import_module(f"perpacket.{module}"), own or name)
    elif name in _OF_THE_LAB:
        module, _, own = _OF_THE_LAB[name].partition(":")
        lab = import_module("perpacket.lab")
        value = getattr(lab.load(module, f"perpacket.{name}"), own or name)
    elif name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("perpacket")
        except PackageNotFoundError:
            return "0+uninstalled"
    else:
        raise AttributeError(f"module 'perpacket' has no attribute {name!r}")
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


class _Front(ModuleType):
    """The package; `perpacket.advise` is the function, also when that package is imported."""

    @property
    def advise(self) -> object:
        """The function of this name."""
        return __getattr__("advise")

    @advise.setter
    def advise(self, package: ModuleType) -> None:
        """Ignore the package, which its import would store here."""


sys.modules[__name__].__class__ = _Front
