"""Which real web applications can run here: their packages, and whether they are prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perpacket.machine.capability import Capability, Group, Question
from perpacket.measure.applications import file, packages, preparation


def capabilities(missing: Callable[[Sequence[str]], list[str]] | None = None) -> list[Capability]:
    """Each application of the library; `missing` returns the packages that are not installed."""
    return [answer(file.load(name), missing or packages.missing) for name in file.names()]


def answer(
    definition: file.Definition, missing: Callable[[Sequence[str]], list[str]]
) -> Capability:
    """An application as a capability of the machine."""
    question = Question(
        definition.name,
        Group.PROGRAMS,
        "this application cannot be a server under test",
        f"`perpacket application prepare {definition.name}`, as root",
    )
    if lacking := missing(definition.debian):
        return question.answer(False, f"missing packages: {' '.join(lacking)}")
    is_prepared = preparation.place_of(definition).is_dir()
    return question.answer(True, "prepared" if is_prepared else "packages installed, not prepared")
