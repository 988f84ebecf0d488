"""The real web applications that can run here: whether they are installed and prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perpacket.machine.capability import Capability, Check, Group
from perpacket_lab.measure.applications import application_file, packages, preparation


def capabilities(missing: Callable[[Sequence[str]], list[str]] | None = None) -> list[Capability]:
    """A capability for each application; `missing` returns packages that are not installed."""
    return [
        capability_of(application_file.load(name), missing or packages.missing)
        for name in application_file.names()
    ]


def capability_of(
    definition: application_file.Definition, missing: Callable[[Sequence[str]], list[str]]
) -> Capability:
    """An application as a capability of the machine."""
    check = Check(
        definition.name,
        Group.PROGRAMS,
        "this application cannot be a server under test",
        f"`perpacket application prepare {definition.name}`, as root",
    )
    if lacking := missing(definition.debian):
        return check.result(False, f"missing packages: {' '.join(lacking)}")
    is_prepared = preparation.place_of(definition).is_dir()
    return check.result(True, "prepared" if is_prepared else "packages installed, not prepared")
