"""Profiles of this machine, one window after another.

The agent profiles and prints one JSON document per line. This module starts the agent, reads the
documents and stops the agent. `perpacket top` draws the documents.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from perpacket.errors import ConfigurationError, MachineLacks, PerpacketError, RunFailed
from perpacket.measure import agent

Window = dict[str, object]
"""One profile, as `perpacket profile --format json` prints it."""

GRACE_S = 5
"""Time limit for the agent to end after SIGINT."""

KINDS: dict[int, type[PerpacketError]] = {2: ConfigurationError, 3: MachineLacks}
"""The error for each exit status of the agent; any other is a failed run."""


@contextmanager
def windows(options: agent.Options, every_s: float = 1.0) -> Iterator[Iterator[Window]]:
    """Profile in windows of `every_s` seconds; `options` are those of `perpacket profile`.

    Yields an iterator of windows, which ends when the agent ends. Leaving the context stops the
    agent. Raises `ConfigurationError`, `MachineLacks` or `RunFailed` with the agent's message.
    """
    words = agent.run("profile", {**options, "every": every_s, "format": "json", "quiet": True})
    process = subprocess.Popen(
        [str(agent.find()), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,  # Ctrl-C must reach only this process, which sends SIGINT to the agent
    )
    try:
        yield _read(process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def once(options: agent.Options) -> Window:
    """One profile; `options` are those of `perpacket profile`. Raises errors as `windows` does."""
    words = agent.run("profile", {**options, "format": "json", "quiet": True})
    command = [str(agent.find()), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise error_of(done.returncode, done.stderr)
    window: Window = json.loads(done.stdout)
    return window


def error_of(status: int, text: str) -> PerpacketError:
    """The agent's error, by its exit status."""
    message, _, hint = text.partition("\n\nhint: ")
    kind = KINDS.get(status, RunFailed)
    what = message.strip().removeprefix("error: ") or f"the agent ended with status {status}"
    return kind(what, hint=hint.strip())


def _read(process: subprocess.Popen[str]) -> Iterator[Window]:
    """The windows; raises the agent's error when it ends with one."""
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if line.strip():
            window: Window = json.loads(line)
            yield window
    status = process.wait()
    errors = process.stderr.read()
    if status not in (0, 130):
        raise error_of(status, errors)
    if errors:
        sys.stderr.write(errors)
