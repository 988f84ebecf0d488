"""While another verb runs, finds the change most worth trying. Errors here do not stop the verb."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from perpacket.advise import growth, observation, profile
from perpacket.advise.advice import Report, advise
from perpacket.advise.expression import NotReadable
from perpacket.advise.profile import Profile
from perpacket.errors import PerpacketError

Found = Report | None
"""The advice; None if there was an error."""


class BackgroundProfile:
    """A separate profile in a thread, while another verb shows its windows."""

    def __init__(self, duration_s: float, pid: int | None, requests: str = "") -> None:
        """Start the profile."""
        self._found: Found = None
        self._thread = threading.Thread(target=self._run, args=(duration_s, pid, requests))
        self._thread.daemon = True
        self._thread.start()

    def _run(self, duration_s: float, pid: int | None, requests: str) -> None:
        self._found = quietly(lambda: observation.observe(duration_s, pid, "", requests))

    def report(self, wait_s: float = 1.0) -> Found:
        """The advice; None if the profile is not complete after `wait_s`."""
        self._thread.join(wait_s)
        return self._found


class CountersAroundProfile:
    """The counters before and after a profile by another program, which stores the call chains."""

    def __init__(self, pid: int | None) -> None:
        """Read the counters before the profile."""
        self.pid = pid
        self.before = observation.read_counters(pid)
        self.started_s = time.monotonic()

    def report(self, stacks: Path) -> Found:
        """Advice from the call chains, and from the counters since this object was made."""
        return quietly(lambda: self._observe(stacks))

    def _observe(self, stacks: Path) -> observation.Observation:
        after = observation.read_counters(self.pid)
        grown = growth.between(self.before, after)
        lines = stacks.read_text(encoding="utf-8", errors="replace").splitlines()
        chains = tuple(profile.folded(lines))
        document = {
            "window_s": time.monotonic() - self.started_s,
            "samples": sum(chain.samples for chain in chains),
            "interfaces": {} if grown is None else grown.devices,
        }
        measured = Profile(document, chains)
        return observation.of_profile(measured, self.pid, "", self.before, after)


def quietly(observe: Callable[[], observation.Observation]) -> Found:
    """Advice on an observation; None if it fails."""
    try:
        return advise(observe())
    except (PerpacketError, NotReadable, OSError, ValueError):
        return None
