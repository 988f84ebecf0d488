"""Profiles of several machines at once, over ssh. A machine that fails does not end the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

from perpacket.errors import ConfigurationError, PerpacketError
from perpacket.measure import agent
from perpacket.measure.hosts.machines import Connection, RemoteMachine
from perpacket.measure.hosts.process import LocalProcess, documents
from perpacket.measure.hosts.record import Record, remove_leftovers
from perpacket.profile_document import ProfileDocument


@dataclass(frozen=True, slots=True)
class Clock:
    """The time by which a machine's clock is ahead of this machine's, to within `error_s`."""

    ahead_s: float
    error_s: float


@dataclass(frozen=True, slots=True)
class State:
    """A machine's last profile."""

    target: str
    window: ProfileDocument | None
    clock: Clock | None
    error: str = ""
    """The reason why the machine sends no more profiles; empty if it still does."""

    def as_dict(self) -> dict[str, object]:
        """The state as a JSON object, with the whole profile."""
        return {
            "target": self.target,
            "window": None if self.window is None else self.window.document,
            "clock": None if self.clock is None else asdict(self.clock),
            "error": self.error,
        }


class Watched:
    """A machine on which the agent runs `profile`."""

    def __init__(self, target: str) -> None:
        """A machine without a connection."""
        self.target = target
        self.connection: Connection | None = None
        self._process: LocalProcess | None = None
        self._window: ProfileDocument | None = None
        self._clock: Clock | None = None
        self._text = ""
        self._error = ""

    def open(self, number: int, record: Record, options: agent.Options, ssh: Sequence[str]) -> None:
        """Connect and start the agent. A failure is stored as the machine's error."""
        try:
            socket = record.sockets / str(number)
            self.connection = Connection(self.target, socket, ssh, record.run)
            machine = RemoteMachine(f"host{number}", self.connection, record.run)
            self._clock = clock_of(self.connection)
            words = agent.run("profile", {**options, "format": "json", "quiet": True})
            self._process = machine.open([machine.agent(), *words], None)
        except PerpacketError as error:
            self._error = f"{error}; {error.hint}" if error.hint else str(error)

    @property
    def is_over(self) -> bool:
        """Whether the machine sends no more profiles."""
        return self._process is None or self._process.poll() is not None

    def state(self) -> State:
        """The machine's last profile until now."""
        is_over = self.is_over
        if self._process is not None:
            self._text += self._process.drained()
            if reports := documents(self._text):
                self._window = ProfileDocument.parse(reports[-1], self.target)
                self._text = self._text.rpartition("\n")[2]
            if is_over and self._process.poll() != 0 and not self._error:
                words = self._process.stderr.strip().partition("\n")[0].removeprefix("error: ")
                self._error = words or "the connection is lost"
        return State(self.target, self._window, self._clock, self._error)

    def close(self) -> None:
        """Stop the agent there and close the connection."""
        if self._process is not None and self._process.poll() is None:
            self._process.stop()
        if self.connection is not None:
            self.connection.close()


class Watch:
    """The agent's profiles of several machines, `[user@]host[:port]`; a context."""

    def __init__(
        self, targets: Sequence[str], options: agent.Options, ssh_options: Sequence[str] = ()
    ) -> None:
        """Start profiles on all machines, with these options of `profile`.

        Raises `ConfigurationError` for a machine that is named twice.
        """
        if len(set(targets)) < len(targets) or not targets:
            raise ConfigurationError(
                f"--hosts {','.join(targets)}: expected different machines", parameter="--hosts"
            )
        remove_leftovers()
        self._record = Record()
        self.hosts = [Watched(target) for target in targets]
        try:
            self._record.write()
            self._record.sockets.mkdir(mode=0o700)
            with ThreadPoolExecutor(len(self.hosts)) as pool:
                opened = [
                    pool.submit(host.open, number, self._record, options, ssh_options)
                    for number, host in enumerate(self.hosts)
                ]
                for opening in opened:
                    opening.result()
        except BaseException:
            self.close()
            raise

    def states(self) -> list[State]:
        """The last profile of each machine."""
        return [host.state() for host in self.hosts]

    @property
    def is_over(self) -> bool:
        """Whether no machine sends more profiles."""
        return all(host.is_over for host in self.hosts)

    def close(self) -> None:
        """Stop all agents and close all connections."""
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            for closing in [pool.submit(host.close) for host in self.hosts]:
                closing.result()
        self._record.take_down()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything."""
        self.close()


def clock_of(connection: Connection) -> Clock | None:
    """A machine's clock, read between two readings of this machine's.

    None if the machine's `date` is not usable.
    """
    before_s = time.time()
    printed = connection.run("date", "+%s.%N").stdout
    after_s = time.time()
    try:
        return Clock(float(printed) - (before_s + after_s) / 2, (after_s - before_s) / 2)
    except ValueError:
        return None
