"""What tests need of the machine: a missing capability skips a test, or fails it where required.

`PERPACKET_REQUIRE=perf,netns` lists capabilities that the machine must have: a test that lacks one
of them fails. `PERPACKET_SKIPS=FILE` collects a line for each skipped test. A skip for any other
reason is a failure (`conftest.py`). `crates/requirements` is the same for the Rust tests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

CAPABILITIES = frozenset(
    {
        "agent",  # the agent of this installation runs
        "browser",  # Chromium and its driver
        "cgroup",  # control groups can be made
        "netns",  # network namespaces, and iproute2's `ip` for those that call it
        "peers",  # programs of others that servers and clients are compared with
        "perf",  # whole processors can be profiled
        "processors",  # processors 0 and 1 are ours
        "root",  # the tests run as root
        "sshd",  # OpenSSH's server can be started
        "traces",  # the published logs
    }
)
"""What `PERPACKET_REQUIRE` may name for the Python tests."""

DISTURBED = "disturbed"
"""What a test skips for when the machine was disturbed while it measured. No machine can promise to
be quiet, so it cannot be required."""


def skip(capability: str, reason: object) -> NoReturn:
    """Skip the running test for lack of a capability; fail it where that is required."""
    assert capability in CAPABILITIES | {DISTURBED}, f"{capability}: name it in {__name__}"
    if capability in os.environ.get("PERPACKET_REQUIRE", "").split(","):
        pytest.fail(f"{capability} is required here (PERPACKET_REQUIRE), but: {reason}")
    pytest.skip(f"{capability}: {reason}")


def record_skip(test: str, reason: str) -> None:
    """Add a skipped test to the file that `PERPACKET_SKIPS` names, where it does."""
    if path := os.environ.get("PERPACKET_SKIPS"):
        capability, _, rest = reason.partition(": ")
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{capability}: {test}: {' '.join(rest.split())}\n")


def is_known(reason: str) -> bool:
    """Whether the reason of a skip begins with something that a machine can lack."""
    return reason.partition(": ")[0] in CAPABILITIES | {DISTURBED}
