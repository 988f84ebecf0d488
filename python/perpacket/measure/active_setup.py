"""The setup that a measured runner's runs share, for as long as it exists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from perpacket.errors import RunFailed

SetupT = TypeVar("SetupT")


class ActiveSetup(Generic[SetupT]):
    """The setup of a runner: `use` sets it, calling the object returns it."""

    def __init__(self) -> None:
        """There is no setup yet."""
        self._setup: SetupT | None = None

    def __call__(self) -> SetupT:
        """The setup; raises `RunFailed` outside of `use`."""
        if self._setup is None:
            raise RunFailed("a measured run began without a testbed: this is a fault of perpacket")
        return self._setup

    @contextmanager
    def use(self, setup: SetupT) -> Iterator[None]:
        """Return `setup` to runs inside the context."""
        self._setup = setup
        try:
            yield
        finally:
            self._setup = None
