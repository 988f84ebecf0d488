"""The division of processors between the server and its clients.

If they share a processor, a measurement of the server includes its clients.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from perpacket.errors import ConfigurationError, MachineLacks

SHARED = (
    "Server and clients share a processor: what the clients do delays the server, and the "
    "server cannot be driven to its limit alone."
)


@dataclass(frozen=True)
class Division:
    """The processors of the server and of the clients."""

    server: tuple[int, ...]
    clients: tuple[int, ...]

    @property
    def limits(self) -> tuple[str, ...]:
        """Limits of a measurement with this division."""
        return (SHARED,) if set(self.server) & set(self.clients) else ()


def divide(server: Sequence[int] | None = None, clients: Sequence[int] | None = None) -> Division:
    """The given division, or by default half of the usable processors for each side.

    Raises `ConfigurationError` for processors that this process may not use.
    """
    usable = sorted(os.sched_getaffinity(0))
    for name, given in (("server_cpus", server), ("client_cpus", clients)):
        wrong = sorted(set(given or ()) - set(usable))
        if wrong or (given is not None and not given):
            raise ConfigurationError(
                f"{name}: {', '.join(map(str, wrong)) or 'none given'}",
                name,
                str(given),
                f"processors this process may use are {', '.join(map(str, usable))}",
            )
    half = (len(usable) + 1) // 2
    if len(usable) == 1:
        first, rest = usable, usable
    else:
        first, rest = usable[:half], usable[half:]
    if server is None:
        server = [cpu for cpu in usable if cpu not in clients] if clients else first
    if clients is None:
        clients = [cpu for cpu in usable if cpu not in server] or rest
    return Division(tuple(server or usable), tuple(clients))


def with_server(count: int) -> Division:
    """The first `count` processors for the server; the clients have those of `divide`.

    Raises `MachineLacks` if this process may use fewer than `count`.
    """
    usable = sorted(os.sched_getaffinity(0))
    if count > len(usable):
        raise MachineLacks(f"a server on {count} processors: this machine has {len(usable)}")
    return Division(tuple(usable[:count]), divide().clients)
