"""The agent's instruments as functions, made from the schema that the agent prints.

    from perpacket import instruments

    report = instruments.load_http(url="http://127.0.0.1:8080/", connections=8, duration="5s")

A function has the options of its verb as keywords, with their help, and returns the JSON that the
verb prints. The agent refuses wrong values. `schema.json` has the schema.
"""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

SCHEMA = Path(__file__).parent / "schema.json"
"""The schema of every verb."""

Instrument = Callable[..., dict[str, Any]]
"""A function that runs a verb and returns its observation."""


@cache
def schemas() -> dict[str, Mapping[str, Any]]:
    """The schema of each verb, by its words such as `load http`."""
    return cast(dict[str, Mapping[str, Any]], json.loads(SCHEMA.read_text(encoding="utf-8")))


def instrument(verb: str) -> Instrument:
    """The function of a verb. Raises `KeyError` if there is no such verb."""
    schema = schemas()[verb]
    options: Mapping[str, Mapping[str, Any]] = schema["properties"]

    def run(**given: object) -> dict[str, Any]:
        from perpacket.measure import agent, live

        signature.bind(**given)
        words = agent.words(verb, **given, format="json", quiet=True)
        command = [str(agent.find()), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise live.error_of(done.returncode, done.stderr)
        observation: dict[str, Any] = json.loads(done.stdout)
        return observation

    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature(
        [
            inspect.Parameter(_name(key), kind, default=option.get("default"))
            for key, option in options.items()
        ]
    )
    lines = [f"{_name(key)}: {option['description']}" for key, option in options.items()]
    run.__doc__ = "\n\n".join([schema["description"], "\n".join(lines)])
    run.__name__ = _name(verb.replace(" ", "-"))
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def _name(key: str) -> str:
    """An option's or verb's name in Python."""
    name = key.replace("-", "_")
    return f"{name}_" if name == "from" else name


def __getattr__(name: str) -> Instrument:
    for verb in schemas():
        if _name(verb.replace(" ", "-")) == name:
            return instrument(verb)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
