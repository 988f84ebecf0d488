"""Whether a killed trial left settings changed, as one of a machine's capabilities."""

from __future__ import annotations

from perpacket.advise import journal
from perpacket.errors import MachineLacks, RunFailed
from perpacket.machine.capability import Capability, Check, Group

NOTHING_CHANGED = Check(
    "no_open_journal",
    Group.NETWORK,
    "settings of a killed trial are still changed, and the next trial is refused",
    "perpacket trial --undo",
)


def capability() -> Capability:
    """Whether a trial that was killed together with its guardian left a journal."""
    try:
        left = journal.leftover()
    except (MachineLacks, RunFailed) as error:
        return NOTHING_CHANGED.result(False, str(error))
    if left is None:
        return NOTHING_CHANGED.result(True, "no trial left a setting changed")
    titles = ", ".join(step.title for step in left.steps)
    return NOTHING_CHANGED.result(False, f"left by a killed trial: {titles}")
