"""The capabilities that tests need: a missing one skips a test, or fails it if it is required.

`PERPACKET_REQUIRE=perf,netns` lists capabilities that the machine must have: a test fails if it
needs one of them and the machine lacks it. `PERPACKET_SKIPS=FILE` collects a line for each skipped
test. A skip for any other reason is a failure (`conftest.py`). The crate `requirements` does the
same for the Rust tests.
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
        "machines",  # QEMU, a kernel and an agent for an emulated machine of `tests/machines`
        "netns",  # network namespaces, and iproute2's `ip` for those that call it
        "peers",  # other servers and clients, for comparison
        "perf",  # whole processors can be profiled
        "processors",  # this process may use processors 0 and 1
        "qemu",  # QEMU, the plugin, and a kernel for the emulated machine
        "root",  # the tests run as root
        "sshd",  # OpenSSH's server can be started
        "traces",  # the published logs
    }
)
"""The names that `PERPACKET_REQUIRE` accepts for the Python tests."""

DISTURBED = "disturbed"
"""The reason of a skip when something disturbed the machine during a measurement. It cannot be
required, because no machine is always quiet."""


def skip(capability: str, reason: object) -> NoReturn:
    """Skip the running test, because a capability is missing.

    `conftest.py` fails every test that skips for a required capability, by this function or by a
    mark.
    """
    assert capability in CAPABILITIES | {DISTURBED}, f"{capability}: name it in {__name__}"
    pytest.skip(f"{capability}: {reason}")


def record_skip(test: str, reason: str) -> None:
    """Add a skipped test to the file in `PERPACKET_SKIPS`, if there is one."""
    if path := os.environ.get("PERPACKET_SKIPS"):
        capability, _, rest = reason.partition(": ")
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{capability}: {test}: {' '.join(rest.split())}\n")


def mistake_of(reason: str) -> str:
    """Why a test must not skip for this reason; empty if it may."""
    capability, _, detail = reason.partition(": ")
    if capability not in CAPABILITIES | {DISTURBED}:
        return f"skipped without a missing capability: {reason}"
    if capability in os.environ.get("PERPACKET_REQUIRE", "").split(","):
        return f"{capability} is required here (PERPACKET_REQUIRE), but: {detail}"
    return ""
