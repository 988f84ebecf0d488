"""A recording replays with other caches. A file that cannot be replayed is an error with a hint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perpacket_lab import _core

RECORDING = Path(__file__).parents[1] / "lab" / "crates" / "emulate" / "tests" / "data" / "bulk.rec"


def test_larger_second_levels_miss_less() -> None:
    text = _core.emulate_replay(str(RECORDING), ["l1=64:2", "l2=64:16+256:16+1024:16", "tlb=64:4"])
    (window,) = json.loads(text)
    assert window["frames"] == {"sent": 20, "received": 4, "limit": 24, "reached": True}
    small, middle, large = (
        sum(row["l2i_misses"][index] + row["l2d_misses"][index] for row in window["counts"])
        for index in range(3)
    )
    assert small > middle > large > 0
    assert sum(row["instructions"] for row in window["counts"]) == window["instructions"]
    assert {"tcp", "ip", "driver", "user"} <= {row["layer"] for row in window["counts"]}


def test_errors_have_a_hint(tmp_path: Path) -> None:
    with pytest.raises(_core.RecordingFailure) as failure:
        _core.emulate_replay(str(RECORDING), ["policy=inclusive"])
    message, hint = failure.value.args
    assert message.startswith(f"{RECORDING}: inclusive caches: the recording lacks")
    assert "record again with these caches" in hint
    part = tmp_path / "part"
    part.write_bytes(RECORDING.read_bytes()[:100_000])
    with pytest.raises(_core.RecordingFailure, match="truncated at byte 100000"):
        _core.emulate_replay(str(part), [])
    with pytest.raises(_core.RecordingFailure, match="option `l2=big`: expected KIB:WAYS"):
        _core.emulate_replay(str(RECORDING), ["l2=big"])
    with pytest.raises(FileNotFoundError):
        _core.emulate_replay(str(tmp_path / "none"), [])
