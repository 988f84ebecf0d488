"""Known costs that a trial adds at a layer, in several amounts, and removes.

ip         rules of nftables that match no packet, stored in the journal
ethernet   a program in traffic control that reads the clock until a time has passed; the kernel
           removes it with the process that attached it
user       processor time in the code of `serve web --routes`, requested by its URL
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

from perpacket.advise import journal
from perpacket.advise.journal import Undone
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings.nft import Rules
from perpacket.errors import ConfigurationError
from perpacket.measure import agent, live

Switch = Callable[[int], str]
"""A function that adds an amount and returns the URL to load; empty for the load's own URL."""


@dataclass(frozen=True, slots=True)
class RulesInPath:
    """Rules at each hook of local sockets."""

    scope: NetworkScope
    amounts: tuple[int, ...] = (100, 200)
    what: str = "rules at each hook"

    def commands(self) -> Iterator[str]:
        """`nft` commands."""
        for amount in (*self.amounts, 0):
            yield Rules(self.scope).command(str(amount))

    def added(self, undone: list[Undone]) -> Iterator[Switch]:
        """Add the table; the journal stores it, so that it is removed if the trial is killed."""
        with journal.begin([(Rules(self.scope), str(self.amounts[-1]))]) as session:
            session.undone = undone

            def switch(amount: int) -> str:
                session.write_between(0, str(amount))
                return ""

            yield switch


@dataclass(frozen=True, slots=True)
class TimeInTrafficControl:
    """Nanoseconds for each packet, when it is received and when it is sent."""

    scope: NetworkScope
    amounts: tuple[int, ...] = (500, 1000)
    what: str = "ns at each pass of an interface"

    def _words(self) -> list[str]:
        words = agent.words("add-cost", interface=self.scope.interface)
        return [str(agent.find()), *words]

    def commands(self) -> Iterator[str]:
        """The agent's command, which reads amounts from standard input."""
        amounts = " ".join(str(amount) for amount in (*self.amounts, 0))
        yield self.scope.shell(f"perpacket-agent add-cost --interface {self.scope.interface}")
        yield f"with lines of its standard input: {amounts}"

    def added(self, undone: list[Undone]) -> Iterator[Switch]:
        """Start the agent, which ends when its standard input ends, also if the trial is killed."""
        self.scope.check_interface()
        process = self.scope.inside(
            lambda: subprocess.Popen(
                self._words(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin, process.stdout

        def switch(amount: int) -> str:
            try:
                into.write(f"{amount}\n")
                into.flush()
                answer = out.readline()
            except BrokenPipeError:
                answer = ""
            if not answer:
                raise live.error_of(*_end(process))
            return ""

        try:
            yield switch
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """End the agent; returns the exit status and the text of standard error."""
    try:
        _, errors = process.communicate()
    except ValueError:  # It has ended and its pipes are closed.
        errors = ""
    return process.returncode, errors


@dataclass(frozen=True, slots=True)
class WorkOfServer:
    """Microseconds of each request in the server's own code."""

    url: str
    amounts: tuple[int, ...] = (10, 20)
    what: str = "us a request"

    def commands(self) -> Iterator[str]:
        """The URLs that the load requests."""
        for amount in (0, *self.amounts):
            yield f"load {self.with_more(amount)}"

    def with_more(self, amount: int) -> str:
        """The URL that requests more time; raises `ConfigurationError` for another URL."""
        parts = urlsplit(self.url)
        times = parse_qs(parts.query).get("us", [])
        if parts.path != "/work" or len(times) != 1 or not times[0].isdigit():
            raise ConfigurationError(
                f"--slope user: --url {self.url}: expected http://HOST:PORT/work?us=N of "
                "`perpacket serve web --routes`",
                parameter="--url",
                value=self.url,
            )
        return parts._replace(query=urlencode({"us": int(times[0]) + amount})).geturl()

    def added(self, undone: list[Undone]) -> Iterator[Switch]:
        """Change only the URL of the load."""
        self.with_more(0)
        yield self.with_more


Cost = RulesInPath | TimeInTrafficControl | WorkOfServer
"""A known cost: its amounts above zero, their unit, the commands that `--dry-run` prints, and the
context `added`. The context yields a `Switch`, removes the cost at its end, and appends the state
of the settings to the list `undone`."""

LAYERS = ("ip", "ethernet", "user")
"""The layers at which a cost can be added."""


def cost_at(layer: str, scope: NetworkScope, url: str) -> Cost:
    """The cost for a layer; raises `ConfigurationError` for a layer that is not in `LAYERS`."""
    if layer == "ip":
        return RulesInPath(scope)
    if layer == "ethernet":
        return TimeInTrafficControl(scope)
    if layer == "user":
        return WorkOfServer(url)
    raise ConfigurationError(
        f"--slope {layer}: nothing can add a known cost there",
        parameter="--slope",
        value=layer,
        allowed=f"expected one of {', '.join(LAYERS)}",
    )


@contextmanager
def adding(cost: Cost, undone: list[Undone]) -> Iterator[Switch]:
    """Add a cost in amounts, and remove it at the end."""
    yield from cost.added(undone)
