"""A profile is parsed once, where it enters; what is wrong with it is named there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perpacket import server_cost
from perpacket.errors import ConfigurationError
from perpacket.profile_document import ProfileDocument, read_profile

DOCUMENT = {
    "window_s": 2,
    "packets": {"sent": 30, "received": 10, "a_later_key": 1},
    "requests": None,
    "layers": {"tcp": {"cpu_s": 1.5, "share": 0.75, "llc_misses_per_packet": 2.5}},
    "a_later_key": {"kept": True},
}


def test_a_profile_keeps_its_document_and_the_keys_that_it_does_not_know() -> None:
    profile = ProfileDocument.parse(DOCUMENT)
    assert profile.document == DOCUMENT
    assert (profile.window_s, profile.packets.both, profile.requests) == (2.0, 40, None)
    assert profile.layers["tcp"].model_dump(exclude_unset=True) == DOCUMENT["layers"]["tcp"]  # type: ignore[index]
    assert profile.layers["tcp"].per_packet("cycles") == 0.0


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"window_s": "2 s"}, "window_s: .* not '2 s'"),
        ({"layers": {"tcp": {"share": "half"}}}, r"layers\.tcp\.share: .* not 'half'"),
        ({"layers": [1]}, r"layers: .* not \[1\]"),
    ],
)
def test_a_damaged_profile_is_an_error_that_names_the_file_and_the_key(
    tmp_path: Path, document: dict[str, object], problem: str
) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigurationError, match=f"^profile.json: {problem}") as caught:
        read_profile(file, "profile.json")
    assert "perpacket profile --format json" in caught.value.hint
    assert server_cost.of_documents([document]) is None


def test_the_cost_of_windows_is_their_sum_and_needs_the_time_of_every_layer() -> None:
    whole = server_cost.of_documents([DOCUMENT, DOCUMENT])
    assert whole is not None
    assert (whole.server_s, whole.window_s) == (3.0, 4.0)
    assert server_cost.of_documents([DOCUMENT, {"layers": {"tcp": {"cpu_s": 1.0}}}]) is None
    assert server_cost.of_documents([{"window_s": 1.0, "layers": {"tcp": {"share": 1.0}}}]) is None
