"""The studies that come with perpacket: one folder for each published document.

A folder's `__init__.py` holds the points and figures, `published.toml` the document's figures that
the simulation is compared with. Depends on `perpacket.experiment`, `perpacket.statistics` and
`perpacket.simulation`; the demo and the command line depend on it.
"""

from __future__ import annotations

from importlib import import_module

from perpacket.errors import MissingStudy
from perpacket.experiment.study import Study

MODULES = {"osdi06": "osdi06", "tr05-450-simulated": "tr05_450"}
"""Name of each study and the module that builds it; a module is imported when asked for."""


def names() -> list[str]:
    """The names of all studies."""
    return list(MODULES)


def find(name: str) -> Study:
    """The study of that name; raises `MissingStudy` naming those there are."""
    module = MODULES.get(name)
    if module is None:
        raise MissingStudy(f"no study {name!r}", hint=f"there are {', '.join(MODULES)}")
    study: Study = import_module(f"perpacket.studies.{module}").study()
    return study
