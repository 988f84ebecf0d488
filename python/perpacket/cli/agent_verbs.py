"""`perpacket serve`, `load`, `link`, `bench`, `route`, `profile`: the verbs of the agent.

The agent defines their options, help and tables, because machines under test may have no Python.
These verbs replace this process by the agent, which then owns the signals and the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

VERBS = {
    "serve": "Run a server under test in the foreground until a signal.",
    "load": "Load a server and report what it answered.",
    "media": "Generate media files to serve.",
    "link": "Join two hosts by a link with latency, bandwidth and loss.",
    "bench": "Measure what memory and context switches cost on this machine.",
    "route": "Check a router's forwarding and measure its throughput.",
    "profile": "Report what a packet costs, layer by layer.",
}
"""Each verb with its line in `perpacket --help`."""


def add_to(app: typer.Typer) -> None:
    """List the verbs in the help; `become` runs them before they are parsed."""
    for verb, summary in VERBS.items():
        app.command(verb, help=summary)(listed)


def listed() -> None:
    """Represent the verb in the help; it is never called."""


def become(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the agent, with the verb and its arguments as they are.

    They are not parsed here, not even `--`. Raises `MachineLacks` when there is no agent.
    """
    from perpacket.measure import agent

    program = str(agent.find())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, ["perpacket", *arguments])
