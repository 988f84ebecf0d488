"""Testbeds of experiments: a server, its clients and the network between them.

    with hosts.best(one_way_latency_us=5000) as bed:
        server = bed.server.start([bed.server.agent(), "serve", "web", ...])
        server.wait_for_line("ready", timeout_s=60)
        bed.clients[0].run([...], timeout_s=60)

    namespaces.py   hosts in network namespaces; network.py makes the devices
    routed.py       a router and its hosts

This machine, and machines over ssh, are in `perpacket.measure.hosts`.

Functions import large packages when they are called, so that importing this package is fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpacket.errors import MachineLacks
from perpacket.measure.hosts.contract import Completed, Host, Process, Testbed
from perpacket.measure.hosts.local import Loopback
from perpacket.measure.hosts.machines import Machines
from perpacket.measure.hosts.processor_division import divide
from perpacket_lab.measure.hosts.namespaces import Namespaces
from perpacket_lab.measure.hosts.routed import Routed

__all__ = [
    "Completed",
    "Host",
    "Process",
    "Testbed",
    "best",
    "loopback",
    "machines",
    "namespaces",
    "routed",
]


def loopback(
    server_cpus: Sequence[int] | None = None,
    client_cpus: Sequence[int] | None = None,
    address: str = "127.0.0.1",
) -> Testbed:
    """The loopback of this machine, which needs no rights and reports its limits.

    `address` is the server's address. In a network namespace, use an address that other namespaces
    can reach.
    """
    return Loopback(divide(server_cpus, client_cpus), address=address)


def namespaces(
    clients: int = 1,
    one_way_latency_us: float = 0,
    rate_bps: int | None = None,
    *,
    loss: float = 0,
    queue_packets: int | None = None,
    server_cpus: Sequence[int] | None = None,
    client_cpus: Sequence[int] | None = None,
    use_netem: bool = True,
    sysctls: Mapping[str, str] | None = None,
) -> Testbed:
    """A server and clients in network namespaces, after removing the leftovers of dead runs.

    The latency and the rate are those of the server's link in each direction. The rate counts bits
    of frames with Ethernet headers. The link's queue has `queue_packets` frames. Netem implements
    the link. The agent's `link` program implements it instead if `use_netem` is false, if the
    kernel has no netem, or if there is a loss.

    `sysctls` are set in every host, such as `{"net.ipv4.tcp_timestamps": "0"}`. A
    host's congestion control must be in the machine's `net.ipv4.tcp_allowed_congestion_control`.

    Raises `MachineLacks` if namespaces or links cannot be made, `ConfigurationError` for values
    out of range.
    """
    return Namespaces(
        divide(server_cpus, client_cpus),
        clients=clients,
        one_way_latency_us=one_way_latency_us,
        rate_bps=rate_bps,
        loss=loss,
        queue_packets=queue_packets,
        use_netem=use_netem,
        sysctls=sysctls,
    )


def routed(
    hosts: int = 4,
    *,
    router_cpus: Sequence[int] | None = None,
    host_cpus: Sequence[int] | None = None,
    sysctls: Mapping[str, str] | None = None,
) -> Routed:
    """A router with an interface for each of `hosts` hosts, all in network namespaces.

    `sysctls` are set in the router too. Raises `MachineLacks` if namespaces or devices cannot
    be made, `ConfigurationError` for values out of range.
    """
    return Routed(divide(router_cpus, host_cpus), hosts=hosts, sysctls=sysctls)


def machines(server: str, clients: Sequence[str], *, ssh_options: Sequence[str] = ()) -> Testbed:
    """Other machines, each `[user@]host[:port]`, over ssh without prompts.

    Clients connect to the server by the name in `server`. `ssh_options`, such as `["-i", "key"]`,
    precede the destination of each ssh command. By default processes run on all processors.

    Raises `MachineLacks` when a machine cannot be reached.
    """
    return Machines(server, clients, ssh_options)


def best(
    clients: int = 1,
    one_way_latency_us: float = 0,
    rate_bps: int | None = None,
    *,
    server_cpus: Sequence[int] | None = None,
    client_cpus: Sequence[int] | None = None,
    sysctls: Mapping[str, str] | None = None,
) -> Testbed:
    """Network namespaces where this machine allows them, else loopback with the reason."""
    try:
        return namespaces(
            clients,
            one_way_latency_us,
            rate_bps,
            server_cpus=server_cpus,
            client_cpus=client_cpus,
            sysctls=sysctls,
        )
    except MachineLacks as error:
        reason = f"There are no network namespaces here ({error})."
        return Loopback(divide(server_cpus, client_cpus), (reason,))
