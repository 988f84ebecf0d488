"""What every packet costs a server, layer by layer, and what would make it cheaper.

The library in a few lines:

    from perpacket import simulate
    result = simulate("W-1024-P-N-FCFS-400", seed=1)
    result["requests_per_s"]

`perpacket.simulation` runs one configuration, `perpacket.studies` holds the studies of published
documents, `perpacket.experiment` runs them, `perpacket.statistics` makes intervals of their runs,
`perpacket.traces` reads access logs. The command line (`perpacket.cli`) is a wrapper on these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpacket.simulation import Simulation, simulate

    __version__: str

__all__ = ["Simulation", "__version__", "simulate"]


def __getattr__(name: str) -> object:
    """Load the compiled core and the version when first asked for: help must stay fast."""
    if name in ("Simulation", "simulate"):
        from perpacket import simulation

        return getattr(simulation, name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("perpacket")
        except PackageNotFoundError:
            return "0+uninstalled"
    raise AttributeError(f"module 'perpacket' has no attribute {name!r}")
