"""The functions of `perpacket.instruments`, and the schema from which they are made."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path

import pytest

from perpacket import instruments
from perpacket.errors import ConfigurationError
from perpacket.measure import agent


def test_the_stored_schema_is_that_of_the_agent() -> None:
    done = subprocess.run([agent.find(), "schema"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == instruments.schemas(), "`make schema` writes it"


def test_a_new_option_of_an_instrument_is_a_keyword_of_its_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = json.loads(instruments.SCHEMA.read_text())
    schemas["load http"]["properties"]["session-pause"] = {
        "description": "Pause between two sessions",
        "default": "5ms",
    }
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schemas))
    monkeypatch.setattr(instruments, "SCHEMA", file)
    instruments.schemas.cache_clear()
    try:
        load_http = instruments.load_http
        assert inspect.signature(load_http).parameters["session_pause"].default == "5ms"
        assert "session_pause: Pause between two sessions" in (load_http.__doc__ or "")
    finally:
        instruments.schemas.cache_clear()


def test_a_function_sends_its_keywords_and_returns_the_observation() -> None:
    result = instruments.route_self_test(capacity="100k", trial="1s")
    assert result["known_pps"] == 100_000


def test_a_wrong_name_or_value_is_an_error() -> None:
    with pytest.raises(TypeError, match="conections"):
        instruments.load_http(url="http://h/", conections=8)
    with pytest.raises(ConfigurationError, match="expected a whole number from 1 to 1000000"):
        instruments.load_http(url="http://h/", connections=0)


def test_an_unknown_option_in_a_document_is_refused_with_a_similar_one() -> None:
    words = agent.words("load http", url="http://h/", conections=8)
    done = subprocess.run([agent.find(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "conections: no such option" in done.stderr
    assert "did you mean `connections`?" in done.stderr


def test_the_agent_reads_what_users_type() -> None:
    assert agent.parsed(["load", "http", "http://h/", "--rate=5", "-q"]) == (
        "load http",
        {"url": "http://h/", "rate": "5", "quiet": True},
    )
    assert agent.parsed(["profile", "--", "ls", "--all"]) == (
        "profile",
        {"command": ["ls", "--all"]},
    )
    assert agent.parsed(["profile", "--help"]) is None
    assert agent.parsed(["profile", "--nonsense"]) is None
