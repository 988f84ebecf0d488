"""The sessions of an application: the agent's clients request pages and check every answer."""

from __future__ import annotations

import json
import subprocess
from typing import TypedDict

from perpacket.errors import RunFailed
from perpacket.measure import agent
from perpacket_lab.measure.applications.application_file import Definition

TIME_LIMIT = "60s"
"""Time limit of an answer. An interpreter compiles the application for its first page."""


class SessionPage(TypedDict):
    """The answers to the requests of one page."""

    page: str
    requests: int
    wrong: int


class Checked(TypedDict):
    """The part of the agent's report that a check needs."""

    pages: list[SessionPage]
    error_examples: dict[str, list[str]]


def is_untrusted(definition: Definition) -> bool:
    """Whether no authority has signed the certificate: that of the preparation."""
    return bool(definition.application.tls)


def check(
    definition: Definition, url: str, seed: int, each: int, most: int, limit: str = TIME_LIMIT
) -> tuple[Checked, int]:
    """Let one client request pages until each has `each` requests or all together have `most`.

    Returns the answers and the agent's exit status: 0 if at most one in a thousand is wrong.
    Raises `RunFailed` with the agent's message if no session ran.
    """
    words = agent.words(
        "load http",
        url=url,
        application=str(definition.sessions),
        clients=1,
        threads=1,
        each=each,
        requests=most,
        seed=seed,
        timeout=limit,
        insecure=is_untrusted(definition),
        format="json",
        quiet=True,
    )
    command = [str(agent.find()), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        message, _, hint = done.stderr.strip().removeprefix("error: ").partition("\n")
        raise RunFailed(message, hint.strip().removeprefix("hint: "))
    checked: Checked = json.loads(done.stdout)
    return checked, done.returncode
