"""RIP between the router and its hosts, spoken by BIRD at each of them while a run measures.

    host 0  inner network 0, injected networks  ---  router  ---  inner network 1  host 1

Each host announces the network behind it. Host 0 also announces other networks, so that the router
has more than a few routes. The router learns all of them and announces them to the other hosts.
The run begins when the kernel's table of every host and of the router has every route by the right
neighbour. The daemons end with the run and take their routes with them.
"""

from __future__ import annotations

import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from perpacket import executables
from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.hosts.record import temporary_folder
from perpacket_lab.measure.host_files import QUICK_S, text_of
from perpacket_lab.measure.hosts.network import DEVICE
from perpacket_lab.measure.hosts.routed import (
    NETWORK_BITS,
    host_address,
    inner_address,
    inner_network,
    router_address,
)
from perpacket_lab.measure.measured_run import MonitoredProcess, started

DAEMON = "bird"
PACKAGE = "bird2"

UPDATE_S = 1
"""Period of updates. With the usual 30 s (RFC 2453, section 3.8), BIRD also waits 5 s after an
update that a change triggered, and many runs would begin 5 s later."""

CONVERGED_S = 30.0
"""Time limit for all routes to be known."""

END_S = 5.0
"""Time limit for a daemon to remove its routes and end."""

POLL_S = 0.02

COMMON = """\
log stderr { warning, error, fatal, bug };
router id %s;
protocol device { }
"""

AT_ROUTER = """\
protocol kernel { ipv4 { import none; export where source = RTS_RIP; }; }
protocol rip {
    ipv4 { import all; export where source = RTS_RIP; };
    interface "port*" { update time %d; };
}
"""

AT_HOST = """\
protocol static { ipv4; %s }
protocol kernel {
    ipv4 {
        import none;
        export filter { if source != RTS_RIP then reject; krt_prefsrc = %s; accept; };
    };
}
protocol rip {
    ipv4 { import all; export where source = RTS_STATIC; };
    interface "%s" { update time %d; };
}
"""
"""Because of the preferred source, the way back is over a learned route too."""


def lack() -> str:
    """Why there is no RIP here; empty where the daemon is installed."""
    if executables.find(DAEMON) is not None:
        return ""
    return f"RIP needs the daemon {DAEMON}, Debian's package {PACKAGE}: it is not installed"


def version(host: Host) -> str:
    """The daemon's name and version, which it prints on standard error."""
    done = host.run([executables.find(DAEMON) or DAEMON, "--version"], timeout_s=QUICK_S)
    return (done.stdout or done.stderr).strip()


def injected_network(number: int) -> str:
    """One of the networks that host 0 announces besides its own."""
    return f"10.79.{number}.0/{NETWORK_BITS}"


@dataclass(frozen=True, slots=True)
class Rip:
    """The running daemons, and the time until they had spread all routes."""

    daemons: tuple[MonitoredProcess, ...]
    expected: Mapping[Host, Mapping[str, str]]
    converged_s: float

    def check(self) -> None:
        """Raise `RunFailed` if a daemon has ended or a route is no longer there."""
        for daemon in self.daemons:
            daemon.check()
        if missing := missing_route(self.expected):
            raise RunFailed(f"RIP lost a route during the run: {missing}")


@contextmanager
def spread(testbed: Testbed, injected: int) -> Iterator[Rip]:
    """Let RIP spread the networks behind all hosts, and `injected` others of host 0.

    Raises `RunFailed` when a daemon ends, or when a route is missing after `CONVERGED_S`.
    """
    hosts = testbed.clients
    began_s = time.monotonic()
    with temporary_folder("rip") as folder, ExitStack() as stack:
        texts = {testbed.server: COMMON % router_address(0) + AT_ROUTER % UPDATE_S}
        for number, host in enumerate(hosts):
            texts[host] = COMMON % host_address(number) + of_host(number, injected)
        daemons = tuple(
            stack.enter_context(started("the daemon of RIP", host, daemon(folder, host, text)))
            for host, text in texts.items()
        )
        stack.callback(end, daemons)
        expected = expected_routes(testbed, injected)
        while missing := missing_route(expected):
            for each_daemon in daemons:
                each_daemon.check()
            if time.monotonic() > began_s + CONVERGED_S:
                raise RunFailed(f"RIP did not converge within {CONVERGED_S:g} s: {missing}")
            time.sleep(POLL_S)
        yield Rip(daemons, expected, time.monotonic() - began_s)


def end(daemons: Iterable[MonitoredProcess]) -> None:
    """End all daemons at once by the signal after which they remove their routes: bird(8)."""
    for daemon in daemons:
        daemon.process.send_signal(signal.SIGTERM)
    for daemon in daemons:
        with suppress(RunFailed):
            daemon.process.wait(END_S)


def of_host(number: int, injected: int) -> str:
    """The configuration of a host's daemon."""
    networks = [inner_network(number)]
    networks += [injected_network(other) for other in range(injected)] if number == 0 else []
    routes = " ".join(f"route {network} blackhole;" for network in networks)
    return AT_HOST % (routes, inner_address(number), DEVICE, UPDATE_S)


def daemon(folder: Path, host: Host, text: str) -> list[str]:
    """The command of a daemon in the foreground, with its own file and control socket."""
    file = folder / host.name
    file.write_text(text, encoding="utf-8")
    program = executables.find(DAEMON) or DAEMON
    return [program, "-f", "-c", str(file), "-s", f"{file}.ctl"]


def expected_routes(testbed: Testbed, injected: int) -> dict[Host, dict[str, str]]:
    """The neighbour by which the router and each host must reach each network."""
    owners = {inner_network(number): number for number in range(len(testbed.clients))}
    owners |= {injected_network(number): 0 for number in range(injected)}
    at_hosts = {
        host: {
            network: router_address(number) for network, owner in owners.items() if owner != number
        }
        for number, host in enumerate(testbed.clients)
    }
    at_router = {network: host_address(owner) for network, owner in owners.items()}
    return {testbed.server: at_router, **at_hosts}


def missing_route(expected: Mapping[Host, Mapping[str, str]]) -> str:
    """The first route that a host lacks, as text; empty if all are there."""
    for host, routes in expected.items():
        present = gateways(text_of(host, "/proc/net/route"))
        for network, neighbour in routes.items():
            if present.get(network) != neighbour:
                return f"{host.name} has no route to {network} by {neighbour}"
    return ""


def gateways(text: str) -> dict[str, str]:
    """The gateway of each network in /proc/net/route. Numbers are in the machine's byte order."""

    def address(word: str) -> str:
        return socket.inet_ntoa(struct.pack("=I", int(word, 16)))

    rows = [line.split() for line in text.splitlines()[1:]]
    return {f"{address(row[1])}/{int(row[7], 16).bit_count()}": address(row[2]) for row in rows}
