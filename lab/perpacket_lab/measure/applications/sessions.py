"""The sessions of an application: the agent's clients request pages and check every answer."""

from __future__ import annotations

import json
import subprocess
from typing import TypedDict

from perpacket.errors import RunFailed
from perpacket.measure import agent
from perpacket_lab.measure.applications.file import Definition

TIME_LIMIT = "60s"
"""Time limit of an answer. An interpreter compiles the application for its first page."""


class Page(TypedDict):
    """The answers to the requests of one page."""

    page: str
    requests: int
    wrong: int


class Checked(TypedDict):
    """The part of the agent's report that a check needs."""

    pages: list[Page]
    error_examples: dict[str, list[str]]


def trust(definition: Definition) -> list[str]:
    """Options that accept the certificate of the preparation, which no authority has signed."""
    return ["--insecure"] if definition.application.tls else []


def check(
    definition: Definition, url: str, seed: int, each: int, most: int, limit: str = TIME_LIMIT
) -> tuple[Checked, int]:
    """Let one client request pages until each has `each` requests or all together have `most`.

    Returns the answers and the agent's exit status: 0 if at most one in a thousand is wrong.
    Raises `RunFailed` with the agent's message if no session ran.
    """
    command = [
        *(str(agent.find()), "load", "http", url, "--application", str(definition.sessions)),
        *("--clients", "1", "--threads", "1", "--each", str(each), "--requests", str(most)),
        *("--seed", str(seed), "--timeout", limit, "--format", "json", "--quiet"),
        *trust(definition),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        message, _, hint = done.stderr.strip().removeprefix("error: ").partition("\n")
        raise RunFailed(message, hint.strip().removeprefix("hint: "))
    checked: Checked = json.loads(done.stdout)
    return checked, done.returncode
