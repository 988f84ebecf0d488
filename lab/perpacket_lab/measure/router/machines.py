"""A router and its hosts on machines of their own, which somebody has wired and routed."""

from __future__ import annotations

from collections.abc import Sequence

from perpacket.errors import MachineLacks
from perpacket.measure.hosts.machines import LIMITS, Machines
from perpacket_lab.measure.router.router_plan import RouterPlan
from perpacket_lab.measure.router.router_run import RouterPort

NOT_CHECKED = (
    "The machines have routes of their own. The study did not check the router's frames; "
    "`perpacket route check` does so in network namespaces of one machine."
)
ONLY_TCP = "over ssh the study runs only bulk TCP between hosts, over the kernel's own routes"


class RoutedMachines(Machines):
    """Machines as a router, which is the server, and its hosts, which are the clients."""

    limits = (*LIMITS, NOT_CHECKED)
    ports: tuple[RouterPort, ...] = ()
    inner_addresses: tuple[str, ...] = ()

    def __init__(self, plan: RouterPlan) -> None:
        """Connect to all of them, or close all connections and raise."""
        super().__init__(plan.server_host, plan.client_hosts.split(","), ())
        if plan.addresses:
            for client, address in zip(self.clients, plan.addresses.split(","), strict=True):
                client.address = address.strip()

    def steer(self, number: int, cpus: Sequence[int] | None) -> None:
        """Raise `MachineLacks`: the processors of interfaces are the machines' own."""
        raise MachineLacks(
            "the receive work of other machines is not moved between processors",
            "set smp_affinity of the interfaces' interrupts, or their rps_cpus, on the router",
        )


def lack_of(plan: RouterPlan) -> str:
    """Why a plan cannot run over ssh; empty if it can."""
    own_routes = plan.routes == "static" and plan.processors == "divided"
    return "" if plan.kind == "tcp" and plan.plane == "kernel" and own_routes else ONLY_TCP
