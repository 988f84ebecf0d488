"""The scripts of scenarios of small datagrams: a server that answers each, and a router.

The router has one card. The clients' side sends datagrams to an address of its own by way of the
router: its rules find routes to that address before the table of local addresses. So each datagram
crosses the router, and its answer does not.
"""

from __future__ import annotations

from perpacket_lab.emulate.settings import Scenario

SERVER = "10.0.0.1"
CLIENT = "10.0.0.2"
PORT = 5001
BEYOND = "10.9.0.1"
"""The address of the clients' side that is reached by way of the router."""
NEXT = "10.0.0.3"
"""The router's next hop to it."""
CARD = "52:54:00:00:00:02"
"""The address of card B."""


def server(scenario: Scenario) -> list[str]:
    """Start the server on processor 0, or make processor 0 a router."""
    if scenario.server == "datagrams":
        return [
            f"taskset 1 perpacket-agent guest answer --listen {SERVER}:{PORT} >/tmp/server 2>&1 &",
            "server=$!",
            *bound(""),
        ]
    return [
        "for side in all default eth0; do",
        "    echo 0 >/proc/sys/net/ipv4/conf/$side/rp_filter",
        "    echo 0 >/proc/sys/net/ipv4/conf/$side/send_redirects",
        "done",
        "echo 1 >/proc/sys/net/ipv4/ip_forward",
        f"arp -s {NEXT} {CARD}",
        f"/host/ip route add {BEYOND}/32 via {NEXT} dev eth0 || exit 1",
        "$inside sh -c 'for side in all eth1; do",
        "    echo 0 >/proc/sys/net/ipv4/conf/$side/rp_filter",
        "    echo 1 >/proc/sys/net/ipv4/conf/$side/accept_local",
        "done'",
        f"$inside /host/ip address add {BEYOND}/32 dev lo || exit 1",
        f"$inside /host/ip route add {BEYOND}/32 via {SERVER} dev eth1 table 100 || exit 1",
        f"$inside /host/ip rule add pref 5 iif lo to {BEYOND} lookup 100 || exit 1",
        "$inside /host/ip rule add pref 10 lookup local || exit 1",
        "$inside /host/ip rule del pref 0 || exit 1",
        f"$inside taskset 2 perpacket-agent guest answer --listen {BEYOND}:{PORT} "
        ">/tmp/server 2>&1 &",
        "server=$!",
        *bound("$inside "),
    ]


def bound(inside: str) -> list[str]:
    """Wait until the server has its socket; fail if it ends."""
    return [
        f"until {inside}cat /proc/net/udp | grep -q ':{PORT:04X} '; do",
        '    kill -0 $server || { echo "error: $(tail -n 1 /tmp/server)" >&2; exit 1; }',
        "    sleep 0.01",
        "done",
    ]


def clients(scenario: Scenario) -> list[str]:
    """Start the clients on processor 1."""
    to = BEYOND if scenario.server == "forward" else SERVER
    return [
        f"$inside taskset 2 perpacket-agent guest ask --to {to}:{PORT} --size {scenario.bytes} "
        f"--connections {scenario.connections} >/dev/null &",
    ]
