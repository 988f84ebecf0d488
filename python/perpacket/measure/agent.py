"""The search for the agent: the executable that runs servers, clients and links.

The package `perpacket-agent` installs the agent. `PERPACKET_AGENT` names another executable, such
as a local build.
"""

from __future__ import annotations

import hashlib
import os
from importlib import metadata
from pathlib import Path

from perpacket.errors import MachineLacks

PACKAGE = "perpacket-agent"
"""The name of the package and of its executable."""

VARIABLE = "PERPACKET_AGENT"
"""Environment variable that names an agent to use instead of the one installed."""


def find() -> Path:
    """The agent of this installation; raises `MachineLacks` when none can be run."""
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else _installed()
    if path is None or not os.access(path, os.X_OK) or not path.is_file():
        source = f"{VARIABLE} names no executable ({named})" if named else "it is not installed"
        raise MachineLacks(
            f"perpacket-agent: {source}",
            "install it with `pip install ./crates/agent`, or build it with "
            f"`cargo build --release -p perpacket-agent` and name it in {VARIABLE}",
        )
    return path.absolute()


def _installed() -> Path | None:
    """The executable of the installed package `perpacket-agent`; `None` without the package."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == PACKAGE), None)


def sha256(path: Path) -> str:
    """The file's digest, by which a machine with the same agent is recognized."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
