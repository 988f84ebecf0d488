"""Replays a recording with other caches; the counts are those of an emulation with these caches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perpacket.errors import ConfigurationError
from perpacket_lab.emulate import report
from perpacket_lab.emulate.cycles import MACHINES
from perpacket_lab.emulate.settings import Memory, Settings
from perpacket_lab.simulation import load_core


def replay(file: Path, memory: Memory, cycles: str = MACHINES[0]) -> dict[str, Any]:
    """Replay a recording's window with these caches; return the same document as an emulation.

    Raises `ConfigurationError` when the file is not a complete recording, or when it lacks accesses
    that these caches need, and `OSError` when the file cannot be read.
    """
    core = load_core()
    options = [f"{name}={value}" for name, value in memory.arguments.items()]
    try:
        windows = json.loads(core.emulate_replay(str(file), options))
    except core.RecordingFailure as failure:
        message, hint = failure.args
        raise ConfigurationError(message, parameter="FILE", hint=hint) from None
    if not windows:
        raise ConfigurationError(
            f"{file}: the recording has no window", parameter="FILE", hint="record it again"
        )
    turn = windows[-1]["turn_instructions"]
    settings = Settings(memory=memory, variants=1, turn_instructions=turn, cycles=cycles)
    document = report.report(settings, windows[-1:], {"recording": str(file)})
    modelled = ("policy", "tlb_entries", "dma", "prefetch", "turn_instructions")
    return document | {"settings": {name: settings.as_dict()[name] for name in modelled}}
