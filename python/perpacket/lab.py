"""The way from the operator's floor to the lab, which may not be installed.

The lab depends on the operator's floor, never the reverse. Where a verb or a function of this floor
uses a part of the lab, it loads that part here, by name.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from perpacket.errors import MachineLacks

PACKAGE = "perpacket_lab"

INSTALL = "pip install 'perpacket[lab]'"
"""The command that installs the lab."""


def is_installed() -> bool:
    """Whether the lab can be imported."""
    return find_spec(PACKAGE) is not None


def require(purpose: str) -> None:
    """Raise `MachineLacks` if the lab is missing; `purpose` is what needs it."""
    if not is_installed():
        raise MachineLacks(
            f"{purpose}: needs perpacket's lab, which is not installed", hint=f"`{INSTALL}`"
        )


def load(module: str, purpose: str) -> ModuleType:
    """A module of the lab, such as `cli.verbs`; raises `MachineLacks` without the lab."""
    require(purpose)
    return import_module(f"{PACKAGE}.{module}")
