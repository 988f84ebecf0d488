"""The address at which a server listens, as a URL for a load."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from perpacket.advise.links import Link
from perpacket.advise.servers import SERVE_WEB, Server, flat

LISTEN = "0A"
"""TCP_LISTEN of include/net/tcp_states.h, as /proc/net/tcp prints it."""

Address = IPv4Address | IPv6Address


def url(server: Server, workers: Sequence[int], link: Link | None, own_namespace: bool) -> str:
    """The URL of the server's lowest port; empty if it does not listen or cannot be read.

    If the server listens on every address and is in this process's namespace, the URL has the
    loopback address. If it is in another namespace, the URL has the address of its interface.
    """
    found = sorted(listening(workers), key=lambda one: (one[1], one[0].version))
    if not found:
        return ""
    address, port = found[0]
    host = f"[{address}]" if address.version == 6 else str(address)
    if address.is_unspecified:
        host = "127.0.0.1" if own_namespace else link.address if link is not None else ""
    elif address.is_loopback and not own_namespace:
        host = ""
    scheme = "https" if uses_tls(server, port) else "http"
    return f"{scheme}://{host}:{port}/" if host else ""


def uses_tls(server: Server, port: int) -> bool:
    """Whether the server expects TLS at a port."""
    if server.kind == SERVE_WEB:
        return server.options.get("ssl") == "on"
    return any(
        one.name == "listen" and "ssl" in one.arguments and one.arguments[0].endswith(str(port))
        for one in flat(server.configuration)
    )


def listening(pids: Sequence[int], proc: Path = Path("/proc")) -> Iterator[tuple[Address, int]]:
    """The addresses and ports at which processes listen (proc_pid_net(5))."""
    own = {name for pid in pids for name in sockets(pid, proc)}
    for name in ("tcp", "tcp6") if pids else ():
        with contextlib.suppress(OSError):
            for line in (proc / str(pids[0]) / "net" / name).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == LISTEN and words[9] in own:
                    host, _, port = words[1].partition(":")
                    yield address_of(host), int(port, 16)


def sockets(pid: int, proc: Path = Path("/proc")) -> Iterator[str]:
    """The inodes of a process's sockets; none if another user owns the process."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(proc / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def address_of(text: str) -> Address:
    """An address as the kernel prints it: words of four bytes in the machine's order."""
    parts = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    order = "<" if sys.byteorder == "little" else ">"
    return ip_address(struct.pack(f"{order}{len(parts)}I", *parts))
