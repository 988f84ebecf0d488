"""Hosts as network namespaces of this machine, joined by veth, netem or the agent's link."""

from __future__ import annotations

from collections.abc import Mapping

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket.measure.hosts.local import LocalHost, LocalTestbed
from perpacket.measure.hosts.process import LocalProcess, requested_report
from perpacket.measure.hosts.processor_division import Division
from perpacket_lab.measure.hosts import network as wiring
from perpacket_lab.measure.hosts.network import DEVICE, SERVER_PORT, Namespace

MOST_CLIENTS = 1000
"""The greatest number of clients, below the limits of bridge ports and addresses."""

READY_S = 20.0
"""Time limit for a link to bring its devices up."""

REPORT_S = 10.0
"""Time limit for a link to report after a signal."""

NO_STEERING = (
    "This kernel cannot steer receive work to processors by default (rps_default_mask, Linux 6.3): "
    "part of a host's receive work runs on the processor that sent."
)
SUPER_PACKETS = (
    "The hosts' veth devices pass segments of up to 64 KiB whole: segments of the stack cross the "
    "network, not wire frames, and the path has no NIC driver."
)
NO_OFFLOADS = (
    "The hosts' devices are TAP devices without offloads: kernels segment and checksum in "
    "software, and the path has no NIC driver."
)
LINK_PROCESSOR = (
    "The link between the hosts runs on the clients' processors, before the clients, and takes "
    "part of their time."
)


class VethPair:
    """The agent's link between two namespaces: a process of `perpacket link`."""

    def __init__(
        self,
        left: tuple[str, str | None],
        right: tuple[str, str | None],
        settings: Mapping[str, str | float],
        *,
        run: str,
        cpus: tuple[int, ...],
    ) -> None:
        """Start the link between two devices, each with an optional address and prefix."""
        options: agent.Options = {
            "left": left[0],
            "left-address": left[1],
            "right": right[0],
            "right-address": right[1],
            "cpus": ",".join(map(str, cpus)),
            "format": "json",
            **settings,
        }
        self._process = LocalProcess([str(agent.find()), *agent.run("link", options)], run=run)
        try:
            self._process.wait_for_line("^ready", READY_S)
        except RunFailed as error:
            status = self._process.stop()
            kind = MachineLacks if status == 3 else RunFailed
            raise kind(f"link between the hosts: {error}", error.hint) from error

    def report(self) -> dict[str, object]:
        """The link's counts until now."""
        report = requested_report(self._process, REPORT_S)
        if report is None:
            words = self._process.stderr.strip() or "it printed nothing"
            raise RunFailed("link between the hosts: it does not report", f"it printed: {words}")
        return report

    def stop(self) -> None:
        """Stop the link; its devices disappear."""
        self._process.stop()


class NamespaceTestbed(LocalTestbed):
    """A testbed that makes network namespaces and removes them."""

    def __init__(self, division: Division) -> None:
        """A testbed without namespaces."""
        super().__init__(division)
        self._all: list[Namespace] = []

    def _record_names(self, hosts: list[str]) -> None:
        """Record the namespaces before they are made."""
        self._record.namespaces = [self._record.name(host) for host in hosts]
        self._record.write()

    def _namespace(self, host: str, cpus: tuple[int, ...]) -> Namespace:
        namespace = Namespace.create(self._record, host, cpus)
        self._all.append(namespace)
        return namespace

    def _host(
        self, name: str, address: str, cpus: tuple[int, ...], namespace: Namespace
    ) -> LocalHost:
        return LocalHost(name, address, cpus, self._record.run, namespace.descriptor)

    def take_down(self) -> None:
        """Stop all processes, then the network, and remove the namespaces."""
        try:
            super().take_down()
        finally:
            for namespace in self._all:
                namespace.close()


class Namespaces(NamespaceTestbed):
    """A server and its clients, each a network namespace."""

    def __init__(
        self,
        division: Division,
        *,
        clients: int = 1,
        one_way_latency_us: float = 0,
        rate_bps: int | None = None,
        loss: float = 0,
        queue_packets: int | None = None,
        use_netem: bool = True,
        sysctls: Mapping[str, str] | None = None,
    ) -> None:
        """Set up the testbed; after an error remove everything and raise the error."""
        super().__init__(division)
        self._check(clients, one_way_latency_us)
        self._rate_bps = rate_bps
        self._loss = loss
        self._queue_packets = queue_packets
        self._use_netem = use_netem
        self._link: VethPair | None = None
        self._has_quickack = False
        self.network = "veth"
        names = ["server", *(f"client{number}" for number in range(1, clients + 1))]
        switch = ["switch"] if clients > 1 else []
        try:
            self._record_names([*names, *switch, "probe"])
            self._hosts = [
                self._namespace(name, division.clients if number else division.server)
                for number, name in enumerate(names)
            ]
            self._switch = self._namespace("switch", division.clients) if switch else None
            for name, value in (sysctls or {}).items():
                for namespace in self._hosts:
                    namespace.set_sysctl(name, value)
            self._add_hosts(names, division)
            if self._switch is not None:
                self._join_clients(self._switch)
            self._connect(one_way_latency_us)
        except BaseException:
            self.take_down()
            raise

    @staticmethod
    def _check(clients: int, one_way_latency_us: float) -> None:
        if not 1 <= clients <= MOST_CLIENTS:
            raise ConfigurationError(
                f"clients: {clients}", "clients", str(clients), f"expected 1 to {MOST_CLIENTS}"
            )
        if one_way_latency_us < 0:
            raise ConfigurationError(
                f"one_way_latency_us: {one_way_latency_us:g}",
                "one_way_latency_us",
                str(one_way_latency_us),
                "expected microseconds, at least 0",
            )

    def _add_hosts(self, names: list[str], division: Division) -> None:
        self.server, *clients = (
            self._host(
                name,
                wiring.address(number),
                division.clients if number else division.server,
                namespace,
            )
            for number, (name, namespace) in enumerate(zip(names, self._hosts, strict=True))
        )
        self.clients = tuple(clients)

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits of measurements here."""
        network = (NO_OFFLOADS, LINK_PROCESSOR) if self.network == "link" else (SUPER_PACKETS,)
        steering = () if wiring.STEERING.exists() else (NO_STEERING,)
        return (*network, *steering, *self._division.limits)

    def set_latency(self, one_way_us: float) -> None:
        """Set the delay, the same in both directions.

        If the network is the agent's link, a new link replaces it, and frames in transit are lost.
        A delay of zero does not remove the link, so that the points of a study differ only in the
        delay.
        """
        self._check(1, one_way_us)
        if self.network == "netem":
            for namespace, device in self._ends():
                wiring.set_netem(namespace, device, one_way_us, self._rate_bps)
        elif self.network == "link" or one_way_us:
            self._disconnect()
            self._connect(one_way_us)
            if self._has_quickack:
                self._set_routes()

    def set_quickack(self, is_on: bool) -> None:
        """Set the attribute of the route of each client."""
        if is_on != self._has_quickack:
            self._has_quickack = is_on
            self._set_routes()

    def _set_routes(self) -> None:
        for client, namespace in zip(self.clients, self._hosts[1:], strict=True):
            wiring.set_quickack(namespace, DEVICE, client.address, self._has_quickack)

    def network_report(self) -> dict[str, object] | None:
        """The report of the agent's link since the latency was last set; else `None`."""
        return None if self._link is None else self._link.report()

    def stop_network(self) -> None:
        """Stop the agent's link, if there is one."""
        if self._link is not None:
            self._link.stop()
            self._link = None

    def _join_clients(self, switch: Namespace) -> None:
        """Make the bridge, with a port for each client."""
        wiring.make_bridge(switch)
        for number, (host, namespace) in enumerate(
            zip(self.clients, self._hosts[1:], strict=True), start=1
        ):
            port = f"port{number}"
            wiring.join_by_veth(namespace, DEVICE, switch, port)
            wiring.make_port(switch, port)
            wiring.bring_up(namespace, DEVICE, host.address)

    def _ends(self) -> tuple[tuple[Namespace, str], tuple[Namespace, str]]:
        """The server's device and its peer."""
        if self._switch is not None:
            return (self._hosts[0], DEVICE), (self._switch, SERVER_PORT)
        return (self._hosts[0], DEVICE), (self._hosts[1], DEVICE)

    def _connect(self, one_way_us: float) -> None:
        """Join the server to its peer, a client or the bridge.

        Uses a veth pair, with netem for a delay or a rate. Uses the agent's link instead if
        frames may be lost, or if netem is missing or not allowed here.
        """
        shaped = bool(one_way_us or self._rate_bps or self._loss) or self.network == "link"
        if shaped and not (self._use_netem and not self._loss and wiring.has_netem(self._record)):
            self._connect_by_link(one_way_us)
            return
        (server, server_device), (other, other_device) = self._ends()
        wiring.join_by_veth(server, server_device, other, other_device)
        if self._switch is None:
            wiring.bring_up(other, other_device, self.clients[0].address)
        else:
            wiring.make_port(other, other_device)
        wiring.bring_up(server, server_device, self.server.address)
        self.network = "veth"
        if shaped:
            self.network = "netem"
            for namespace, device in self._ends():
                wiring.set_netem(namespace, device, one_way_us, self._rate_bps)

    def _connect_by_link(self, one_way_us: float) -> None:
        (server, server_device), (other, other_device) = self._ends()
        client = None if self._switch is not None else self.clients[0].address
        settings: dict[str, str | float] = {"delay": f"{one_way_us}us", "loss": self._loss}
        if self._rate_bps is not None:
            settings["bit-rate"] = self._rate_bps
        if self._queue_packets is not None:
            settings["queue-packets"] = self._queue_packets
        self._link = VethPair(
            (f"{server.name}:{server_device}", f"{self.server.address}/{wiring.PREFIX_BITS}"),
            (f"{other.name}:{other_device}", client and f"{client}/{wiring.PREFIX_BITS}"),
            settings,
            run=self._record.run,
            cpus=self._division.clients,
        )
        if self._switch is not None:
            wiring.make_port(other, other_device)
        self.network = "link"

    def _disconnect(self) -> None:
        """Remove the link or veth pair between the server and its peer."""
        if self._link is not None:
            self.stop_network()
        else:
            wiring.remove_device(*self._ends()[0])
