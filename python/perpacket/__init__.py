"""The cost of every packet of a server, layer by layer, and changes that reduce it.

An example:

    from perpacket import simulate
    result = simulate("W-1024-P-N-FCFS-400", seed=1)
    result["requests_per_s"]
    result.plot()

`simulate`, `run_study`, `open_run`, `compare_runs` and `read_profile` return results that notebooks
display, with tables (`to_polars()`) and charts (`plot()`).
`perpacket.cli` is the command line. Simulations, studies and charts need the lab:
`pip install 'perpacket[lab]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpacket_lab.library import compare_runs, open_run, run_study, simulate
    from perpacket_lab.show.notebook.profiles import read_profile
    from perpacket_lab.simulation import Simulation

    __version__: str

__all__ = [
    "Simulation",
    "__version__",
    "compare_runs",
    "open_run",
    "read_profile",
    "run_study",
    "simulate",
]

HOMES = {
    "Simulation": "simulation",
    "compare_runs": "library",
    "open_run": "library",
    "read_profile": "show.notebook.profiles",
    "run_study": "library",
    "simulate": "library",
}
"""The module of the lab that has each public name."""


def __getattr__(name: str) -> object:
    """Load public names and the version at their first use, so that help is fast."""
    if name in HOMES:
        from perpacket import lab

        return getattr(lab.load(HOMES[name], f"perpacket.{name}"), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("perpacket")
        except PackageNotFoundError:
            return "0+uninstalled"
    raise AttributeError(f"module 'perpacket' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, including the public ones that are not loaded yet."""
    return sorted({*globals(), *__all__})
