"""The user code of other programs, apart from the server's cost and from the kernel's.

A profile counts user code that is not the server's in the layer `other`, together with kernel work
of no layer. Its category `other_programs` has the part of the programs. `separate` takes this part
out of the layer, and makes it a layer and a part of its own, which no sum over layers of the server
includes. The kernel's work for other programs has no category, so it stays where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME: Final = "other_programs"
"""The category of the profile, and the layer that `separate` makes."""

SHARE: Final = f"layers.{NAME}.share"
"""The share of other programs in the busy time, from 0 to 1."""

PART: Final = "other programs"
"""The part of an application that is not the application."""

MIXED: Final = "layers.other."

BOUNDS: Final = ("low", "high")
"""The bounds of a share in one profile, which cannot be divided."""


def separate(row: dict[str, object]) -> None:
    """Move the time of other programs out of layer `other` and out of the kernel's part."""
    others, mixed = (row.get(f"{name}.share") for name in (f"categories.{NAME}", "layers.other"))
    if not isinstance(others, float) or not isinstance(mixed, float):
        return
    row[SHARE] = others
    if "router_user" in row:
        return  # A router has no server: the layer `user` has all user code.
    left = max(0.0, 1 - others / mixed) if mixed else 1.0
    for key, value in row.items():
        is_time = key.startswith(MIXED) and key.removeprefix(MIXED) not in BOUNDS
        if is_time and isinstance(value, float):
            row[key] = value * left
    part, kernel = row.get(f"parts.{PART}.share"), row.get("parts.kernel.share")
    if isinstance(part, float) and isinstance(kernel, float) and part < others:
        row[f"parts.{PART}.share"] = others
        row["parts.kernel.share"] = max(0.0, kernel - (others - part))


def share_of_processors(row: Mapping[str, object]) -> float | None:
    """The share (%) of the server's processors, busy or idle, that other programs used."""
    others, idle = row.get(SHARE), row.get("server_idle")
    if not isinstance(others, float) or not isinstance(idle, float):
        return None
    return 100 * others * (1 - idle)
