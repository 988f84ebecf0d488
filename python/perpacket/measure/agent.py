"""Where the agent is: the one executable that runs beside servers, clients and links.

The wheel carries it in `perpacket/_bin`. `PERPACKET_AGENT` names another, for those who build it.
"""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from pathlib import Path

from perpacket.errors import MachineLacks

VARIABLE = "PERPACKET_AGENT"
"""Environment variable that names an agent to use instead of the one installed."""


def find() -> Path:
    """The agent of this installation.

    Raises `MachineLacks` when there is none that can be run.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named or str(resources.files("perpacket") / "_bin" / "perpacket-agent"))
    if not os.access(path, os.X_OK) or not path.is_file():
        source = VARIABLE if named else "the installation"
        raise MachineLacks(
            f"perpacket-agent: {source} names no executable ({path})",
            "install the wheel, or build it with `cargo build --release -p perpacket-agent` and "
            f"name it in {VARIABLE}",
        )
    return path.absolute()


def sha256(path: Path) -> str:
    """The digest that tells whether a machine has this very agent."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
