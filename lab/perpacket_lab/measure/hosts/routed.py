"""A router with several interfaces and a host at each, as network namespaces of this machine.

    host 0  net0 --- port0  router  port2 --- net0  host 2
    host 1  net0 --- port1          port3 --- net0  host 3

Each host has a network of its own, joined to the router by a veth pair without offloads, so that
frames are like those on a wire. Routes and neighbours are static, so that only the frames of the
experiment cross the router. Behind each host is an inner network with an address of the host. No
static route leads there: a routing protocol must announce the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure.hosts.processor_division import Division
from perpacket_lab.measure.hosts import network as wiring
from perpacket_lab.measure.hosts.namespaces import NO_STEERING, NamespaceTestbed
from perpacket_lab.measure.hosts.network import DEVICE, Namespace

MOST_HOSTS = 250
"""Each host has one /24 network of 10.77.0.0/16."""

NETWORK_BITS = 24

ROUTER_SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    # Otherwise the kernel sends only some of the errors that a router must send.
    "net.ipv4.icmp_ratemask": "0",
}

WHOLE_FRAMES = (
    "The hosts' and the router's devices are veth pairs without offloads: frames are like those "
    "on a wire, and the hosts compute the checksums; the path has no NIC driver and no wire."
)
SHARED_PROCESSORS = (
    "All end hosts share the clients' processors: with many flows these processors may be the "
    "limit before the router is."
)

STEER = """
mount -t sysfs sysfs /sys && echo "$1" >"/sys/class/net/$2/queues/rx-0/rps_cpus"
"""
"""Steers the receive work of device $2 to the processors of mask $1
(Documentation/networking/scaling.rst). Only a new mount of sysfs shows the devices of the caller's
network namespace."""

STEER_S = 10.0
"""Time limit of steering one device."""


@dataclass(frozen=True, slots=True)
class Port:
    """An interface of the router and its host's interface, as `NETNS:IFNAME`."""

    router: str
    host: str

    @property
    def device(self) -> str:
        """The interface's name at the router."""
        return self.router.rpartition(":")[2]


def router_address(number: int) -> str:
    """The router's address in the network of a host."""
    return f"10.77.{number}.1"


def host_address(number: int) -> str:
    """The address of a host."""
    return f"10.77.{number}.2"


def network_of(number: int) -> str:
    """The network of a host."""
    return f"10.77.{number}.0/{NETWORK_BITS}"


def inner_network(number: int) -> str:
    """The network behind a host."""
    return f"10.78.{number}.0/{NETWORK_BITS}"


def inner_address(number: int) -> str:
    """The address of a host in the network behind it."""
    return f"10.78.{number}.1"


class Routed(NamespaceTestbed):
    """A router, which is the server, and its hosts, which are the clients."""

    network = "veth"
    no_latency = (
        "through the router: this testbed does not delay frames",
        "use network namespaces with a link",
    )

    def __init__(
        self, division: Division, *, hosts: int = 4, sysctls: Mapping[str, str] | None = None
    ) -> None:
        """Set up the testbed; after an error remove everything and raise the error."""
        super().__init__(division)
        if not 2 <= hosts <= MOST_HOSTS:
            raise ConfigurationError(
                f"hosts: {hosts}", "hosts", str(hosts), f"expected 2 to {MOST_HOSTS}"
            )
        names = [f"host{number}" for number in range(hosts)]
        try:
            self._record_names(["router", *names])
            self._router = self._namespace("router", division.server)
            self._ends = [self._namespace(name, division.clients) for name in names]
            for name, value in ROUTER_SYSCTLS.items():
                self._router.set_sysctl(name, value)
            for namespace in (self._router, *self._ends):
                for name, value in (sysctls or {}).items():
                    namespace.set_sysctl(name, value)
            for number, namespace in enumerate(self._ends):
                self._join(number, namespace)
            self.server = self._host("router", router_address(0), division.server, self._router)
            self.clients = tuple(
                self._host(name, host_address(number), division.clients, namespace)
                for number, (name, namespace) in enumerate(zip(names, self._ends, strict=True))
            )
        except BaseException:
            self.take_down()
            raise

    def _join(self, number: int, host: Namespace) -> None:
        """Make a host's network: a pair of devices, addresses, and routes to the other hosts."""
        port = f"port{number}"
        wiring.join_by_veth(self._router, port, host, DEVICE)
        for namespace, device, address in (
            (self._router, port, router_address(number)),
            (host, DEVICE, host_address(number)),
        ):
            wiring.turn_off_offloads(namespace, device)
            wiring.bring_up(namespace, device, address, NETWORK_BITS)
        wiring.add_inner_address(host, inner_address(number))
        wiring.add_neighbours(self._router, port, host, DEVICE)
        for other in range(len(self._ends)):
            if other != number:
                wiring.add_route(host, network_of(other), router_address(number))

    @property
    def ports(self) -> tuple[Port, ...]:
        """The router's interfaces, in the order of the hosts."""
        return tuple(
            Port(f"{self._router.name}:port{number}", f"{namespace.name}:{DEVICE}")
            for number, namespace in enumerate(self._ends)
        )

    @property
    def inner_addresses(self) -> tuple[str, ...]:
        """The address of each host in the network behind it."""
        return tuple(inner_address(number) for number in range(len(self._ends)))

    def steer(self, number: int, cpus: Sequence[int] | None) -> None:
        """Move the receive work of a host and of its port to processors; `None` moves it back.

        Raises `MachineLacks` where the kernel does not allow it.
        """
        ends = ((self.server, f"port{number}"), (self.clients[number], DEVICE))
        for host, device in ends:
            mask = wiring.mask_of(host.cpus if cpus is None else cpus)
            command = ["unshare", "--mount", "sh", "-c", STEER, "perpacket", mask, device]
            done = host.run(command, timeout_s=STEER_S)
            if done.returncode:
                raise MachineLacks(
                    f"receive work cannot be moved between processors: {done.stderr.strip()}",
                    "run as root, on a kernel with receive packet steering (CONFIG_RPS)",
                )

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits of measurements here."""
        steering = () if wiring.STEERING.exists() else (NO_STEERING,)
        return (WHOLE_FRAMES, SHARED_PROCESSORS, *steering, *self._division.limits)
